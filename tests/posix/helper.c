/* What tests start by exec: a program that inherits descriptors. */
#include "fixture.h"

#include <sys/wait.h>

char *const *helper_arguments(const char *what, int descriptor)
{
    static char number[16];
    static char *arguments[5] = {"conformance", "helper"};
    snprintf(number, sizeof number, "%d", descriptor);
    arguments[2] = (char *)what;
    arguments[3] = number;
    return arguments;
}

/* Sends back what comes, until the end. */
static int echo(int socket)
{
    char data[256];
    ssize_t received;
    while ((received = read(socket, data, sizeof data)) > 0)
        if (write(socket, data, (size_t)received) != received)
            return 1;
    return received == 0 ? 0 : 2;
}

/* A descriptor comes over a Unix socket. */
static int receive(int unix_socket)
{
    char byte;
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    if (recvmsg(unix_socket, &message, 0) != 1 || !CMSG_FIRSTHDR(&message))
        return 3;
    int passed;
    memcpy(&passed, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof passed);
    return echo(passed);
}

int helper(int count, char **arguments)
{
    int descriptor = count > 1 ? atoi(arguments[1]) : -1;
    if (strcmp(arguments[0], "echo") == 0)
        return echo(descriptor);
    if (strcmp(arguments[0], "accept") == 0)
        return echo(accept(descriptor, NULL, NULL));
    if (strcmp(arguments[0], "receive") == 0)
        return receive(descriptor);
    if (strcmp(arguments[0], "closed") == 0)
        return fcntl(descriptor, F_GETFD) == -1 && errno == EBADF ? 0 : 1;
    return 4;
}
