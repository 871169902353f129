/* Listens, becomes a daemon, and serves one connection: it echoes until the peer has finished. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

int main(int count, char **arguments)
{
    if (count != 3)
        return 2;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((unsigned short)atoi(arguments[2]))};
    int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (inet_pton(AF_INET, arguments[1], &address.sin_addr) != 1 || bind(listener, (void *)&address, sizeof address) != 0 ||
        listen(listener, 8) != 0 || daemon(1, 1) != 0)
        return 1;
    puts("a daemon");
    fflush(stdout);
    int peer = accept(listener, NULL, NULL);
    char data[4096];
    ssize_t length;
    while ((length = recv(peer, data, sizeof data, 0)) > 0)
        if (send(peer, data, (size_t)length, 0) != length)
            return 1;
    puts(length == 0 ? "the peer has finished" : "an error");
    return 0;
}
