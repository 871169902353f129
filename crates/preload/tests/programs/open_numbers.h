/* The descriptors of this process: those that the program sees by its calls, and all that the kernel lists. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

enum { NUMBERS_MAX = 4096 };

/* The numbers of the program below NUMBERS_MAX that are open. */
static inline int open_numbers(bool *is_open)
{
    int count = 0;
    for (int number = 0; number < NUMBERS_MAX; number++) {
        is_open[number] = fcntl(number, F_GETFD) >= 0;
        count += is_open[number];
    }
    return count;
}

/* Every descriptor of the process, the library's, too. */
static inline int listed_numbers(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int count = -3; /* `.`, `..`, and the folder itself */
    if (folder == NULL) {
        perror("/proc/self/fd");
        exit(1);
    }
    while (readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count;
}
