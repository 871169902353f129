/* A thread with a small stack makes the first connection of its program: small_stack ADDRESS PORT KIBIBYTES */
#include "talking.h"

#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>

static void *work(void *nothing)
{
    int number = dial(0), set = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLOUT};
    struct pollfd list = {.fd = number, .events = POLLOUT};
    if (epoll_ctl(set, EPOLL_CTL_ADD, number, &event) != 0 || epoll_wait(set, &event, 1, 5000) != 1)
        fail("epoll");
    if (poll(&list, 1, 5000) != 1)
        fail("poll");
    talk(number, "from a small stack");
    close(number);
    return nothing;
}

int main(int count, char **arguments)
{
    if (count != 4)
        return 2;
    address = arguments[1];
    port = arguments[2];
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    if (pthread_attr_setstacksize(&attributes, (size_t)atoi(arguments[3]) << 10) != 0)
        return 2;
    if (pthread_create(&thread, &attributes, work, NULL) != 0 || pthread_join(thread, NULL) != 0)
        return 2;
    return 0;
}
