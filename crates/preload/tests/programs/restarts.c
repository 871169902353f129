/* A server that binds its ports, and is started anew.
 *
 *     restarts ADDRESS PORT exit|exec|close reuse|plain COUNT    COUNT: how often; `exit` leaves that to whoever starts it
 */
#include "talking.h"

#include <poll.h>

enum { ACCEPT_MS = 2 };

static int bound(int type, const char *manner)
{
    struct addrinfo hints = {.ai_socktype = type, .ai_flags = AI_NUMERICHOST}, *found;
    if (getaddrinfo(address, port, &hints, &found) != 0)
        fail("address");
    int number = socket(found->ai_family, type | SOCK_CLOEXEC, 0), yes = 1;
    if (strcmp(manner, "reuse") == 0)
        setsockopt(number, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(number, found->ai_addr, found->ai_addrlen) != 0)
        fail(type == SOCK_STREAM ? "bind of tcp" : "bind of udp");
    freeaddrinfo(found);
    return number;
}

int main(int count, char **arguments)
{
    if (count != 6)
        fail("arguments");
    address = arguments[1];
    port = arguments[2];
    for (int left = atoi(arguments[5]); left > 0; left--) {
        int listener = bound(SOCK_STREAM, arguments[4]), datagrams = bound(SOCK_DGRAM, arguments[4]);
        if (listen(listener, 16) != 0)
            fail("listen");
        struct pollfd both[] = {{.fd = listener, .events = POLLIN}, {.fd = datagrams, .events = POLLIN}};
        if (poll(both, 2, ACCEPT_MS) != 0)
            fail("poll");
        printf("%d\n", left);
        fflush(stdout);
        if (strcmp(arguments[3], "close") == 0) {
            close(listener);
            close(datagrams);
        } else if (strcmp(arguments[3], "exec") == 0 && left > 1) {
            char fewer[16];
            snprintf(fewer, sizeof fewer, "%d", left - 1);
            execv("/proc/self/exe", (char *[]){arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], fewer, NULL});
            fail("exec");
        }
    }
    return 0;
}
