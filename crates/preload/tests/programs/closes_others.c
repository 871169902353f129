/* A program that closes every descriptor which it does not know, with a connection open: as daemons do at their start, and as what starts
 * programs does in the child. The peer echoes.
 *
 *     closes_others ADDRESS PORT MANNER
 */
#include "talking.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/wait.h>

/* The descriptors that the program knows: of the standard streams, and of the connection. */
static bool is_known(int number, int kept)
{
    return number <= 2 || number == kept;
}

/* What /proc/self/fd shows, read to its end before any is closed. */
static void close_listed(int kept)
{
    static int listed[4096];
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    if (folder == NULL)
        fail("/proc/self/fd");
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        if (entry->d_name[0] != '.' && atoi(entry->d_name) != dirfd(folder) && count < 4096)
            listed[count++] = atoi(entry->d_name);
    }
    closedir(folder);
    for (int i = 0; i < count; i++) {
        if (!is_known(listed[i], kept))
            close(listed[i]);
    }
}

static void close_counted(int kept)
{
    for (int number = 0; number < sysconf(_SC_OPEN_MAX); number++) {
        if (!is_known(number, kept))
            close(number);
    }
}

static void close_ranges(int kept)
{
    if (close_range(0, ~0u, 1 << 30) == 0)
        fail("close_range with a flag that nobody knows");
    if ((kept > 3 && close_range(3, (unsigned)kept - 1, 0) != 0) || close_range((unsigned)kept + 1, ~0u, 0) != 0)
        fail("close_range");
}

/* Those that are open are replaced. */
static void replace_listed(int kept)
{
    int null = open("/dev/null", O_RDWR);
    for (int number = 3; number < sysconf(_SC_OPEN_MAX); number++) {
        if (!is_known(number, kept) && number != null && fcntl(number, F_GETFD) >= 0)
            dup2(null, number);
    }
    close(null);
}

/* A child closes all, and becomes another program. */
static void close_in_child(int kept)
{
    pid_t child = fork();
    int status = 0;
    if (child == 0) {
        close_listed(-1);
        execl("/bin/true", "true", NULL);
        _exit(127);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        fail("child");
    (void)kept;
}

static const struct {
    const char *name;
    void (*close_others)(int kept);
} MANNERS[] = {
    {"listed", close_listed},     {"counted", close_counted}, {"ranges", close_ranges},
    {"replaced", replace_listed}, {"child", close_in_child},
};

int main(int count, char **arguments)
{
    if (count != 4)
        fail("arguments");
    address = arguments[1];
    port = arguments[2];
    for (size_t i = 0; i < sizeof MANNERS / sizeof *MANNERS; i++) {
        if (strcmp(MANNERS[i].name, arguments[3]) != 0)
            continue;
        int first = dial(0);
        talk(first, "before");
        MANNERS[i].close_others(first);
        talk(first, "after");
        int second = dial(0);
        talk(second, "another");
        MANNERS[i].close_others(second);
        talk(second, "still");
        if (i < 3 && fcntl(first, F_GETFD) >= 0)
            fail("the first is open");
        printf("good, %d\n", second);
        return 0;
    }
    fail("there is no such manner");
}
