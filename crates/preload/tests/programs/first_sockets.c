/* Processes whose threads make their first sockets at one moment: first_sockets PROCESSES THREADS
   Says how many of the processes have ended well. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS 20

static pthread_barrier_t start;

static void *work(void *nothing)
{
    pthread_barrier_wait(&start);
    for (int round = 0; round < ROUNDS; round++) {
        int number = socket(AF_INET, SOCK_STREAM, 0), second = dup(number);
        if (number < 0 || second < 0)
            _exit(3);
        close(number);
        close(second);
    }
    return nothing;
}

/* The threads of one process. */
static void race(int count)
{
    pthread_t threads[count];
    pthread_barrier_init(&start, NULL, count);
    for (int number = 0; number < count; number++)
        if (pthread_create(&threads[number], NULL, work, NULL) != 0)
            _exit(2);
    for (int number = 0; number < count; number++)
        pthread_join(threads[number], NULL);
}

int main(int count, char **arguments)
{
    if (count != 3)
        return 2;
    int processes = atoi(arguments[1]), well = 0;
    for (int number = 0; number < processes; number++) {
        /* The second half of them have sockets of their parent. */
        if (number == processes / 2 && (socket(AF_INET, SOCK_STREAM, 0) < 0 || socket(AF_INET6, SOCK_DGRAM, 0) < 0))
            return 2;
        pid_t child = fork();
        if (child == 0) {
            race(atoi(arguments[2]));
            _exit(0);
        }
        int status = -1;
        waitpid(child, &status, 0);
        well += status == 0;
    }
    printf("%d\n", well);
    return 0;
}
