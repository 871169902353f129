#include "peer.h"

#include "check.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

static int connection = -1;
static unsigned delay_ms;
static bool is_begun;

struct answer {
    struct peer_answer head;
    char data[PEER_DATA_MAX];
};

void pattern(unsigned seed, size_t offset, void *data, size_t length)
{
    unsigned char *bytes = data;
    for (size_t index = 0; index < length; index++) {
        uint32_t position = (uint32_t)(offset + index);
        bytes[index] = (unsigned char)((position * 2654435761u + seed) >> 13);
    }
}

int peer_open(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    connection = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    for (int attempt = 0; attempt < 500; attempt++) {
        if (connect(connection, (struct sockaddr *)&address, sizeof address) == 0)
            return 0;
        usleep(10000);
    }
    return -1;
}

void peer_close_all(void)
{
    close(connection);
    connection = -1;
    delay_ms = 0;
    is_begun = false;
}

int peer_descriptor(void)
{
    return connection;
}

void peer_later(unsigned ms)
{
    delay_ms = ms;
    is_begun = true;
}

static bool exchange(struct peer_request *request, const void *data, struct answer *answer)
{
    struct iovec parts[] = {{request, sizeof *request}, {(void *)data, request->length}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = request->length ? 2 : 1};
    ssize_t sent, received;
    do
        sent = sendmsg(connection, &message, MSG_NOSIGNAL);
    while (sent == -1 && errno == EINTR);
    if (sent == -1)
        return false;
    do
        received = recv(connection, answer, sizeof *answer, 0);
    while (received == -1 && errno == EINTR);
    return received >= (ssize_t)sizeof answer->head;
}

/* Makes one call; what came back is in `answer`. */
static long long make(struct peer_request *request, const void *data, struct answer *answer)
{
    request->delay_ms = delay_ms;
    request->is_begun = is_begun;
    delay_ms = 0;
    is_begun = false;
    if (!exchange(request, data, answer)) {
        fprintf(stderr, "the peer is gone\n");
        _exit(98);
    }
    errno = answer->head.error;
    return answer->head.result;
}

static long long simple(enum peer_call call, long long a, long long b, long long c)
{
    static struct answer answer;
    struct peer_request request = {.call = call, .arguments = {a, b, c}};
    return make(&request, NULL, &answer);
}

static long long with_address(enum peer_call call, int socket, const struct sockaddr_storage *address, socklen_t length)
{
    static struct answer answer;
    struct peer_request request = {.call = call, .arguments = {socket}, .address_length = length};
    memcpy(&request.address, address, length);
    return make(&request, NULL, &answer);
}

static long long sending(struct peer_request *request, const void *data, size_t length)
{
    static struct answer answer;
    if (length > PEER_DATA_MAX)
        abort();
    request->length = (uint32_t)length;
    return make(request, data, &answer);
}

static long long receiving(struct peer_request *request, void *data, size_t length, struct sockaddr_storage *from)
{
    static struct answer answer;
    long long result = make(request, NULL, &answer);
    int error = errno;
    if (answer.head.length > 0 && data)
        memcpy(data, answer.data, answer.head.length < length ? answer.head.length : length);
    if (from)
        *from = answer.head.address;
    errno = error;
    return result;
}

long long peer_join(long long begun, void *data, size_t length)
{
    struct peer_request request = {.call = PEER_JOIN, .arguments = {begun}};
    return receiving(&request, data, length, NULL);
}

int peer_socket(int family, int type)
{
    return (int)simple(PEER_SOCKET, family, type, 0);
}

int peer_bind(int socket, const struct sockaddr_storage *address, socklen_t length)
{
    return (int)with_address(PEER_BIND, socket, address, length);
}

int peer_listen(int socket, int backlog)
{
    return (int)simple(PEER_LISTEN, socket, backlog, 0);
}

int peer_accept(int socket)
{
    return (int)simple(PEER_ACCEPT, socket, 0, 0);
}

int peer_connect(int socket, const struct sockaddr_storage *address, socklen_t length)
{
    return (int)with_address(PEER_CONNECT, socket, address, length);
}

long long peer_send(int socket, const void *data, size_t length, int flags)
{
    struct peer_request request = {.call = PEER_SEND, .arguments = {socket, flags}};
    return sending(&request, data, length);
}

long long peer_recv(int socket, void *data, size_t length, int flags)
{
    struct peer_request request = {.call = PEER_RECV, .arguments = {socket, (long long)length, flags}};
    return receiving(&request, data, length, NULL);
}

long long peer_sendto(int socket, const void *data, size_t length, const struct sockaddr_storage *to, socklen_t to_length)
{
    struct peer_request request = {.call = PEER_SENDTO, .arguments = {socket}, .address_length = to_length};
    memcpy(&request.address, to, to_length);
    return sending(&request, data, length);
}

long long peer_recvfrom(int socket, void *data, size_t length, struct sockaddr_storage *from)
{
    struct peer_request request = {.call = PEER_RECVFROM, .arguments = {socket, (long long)length}};
    return receiving(&request, data, length, from);
}

int peer_shutdown(int socket, int how)
{
    return (int)simple(PEER_SHUTDOWN, socket, how, 0);
}

int peer_close(int socket)
{
    return (int)simple(PEER_CLOSE, socket, 0, 0);
}

int peer_abort(int socket)
{
    return (int)simple(PEER_CLOSE, socket, 1, 0);
}

int peer_setsockopt(int socket, int level, int name, const void *value, socklen_t length)
{
    struct peer_request request = {.call = PEER_SETSOCKOPT, .arguments = {socket, level, name}};
    return (int)sending(&request, value, length);
}

int peer_getsockopt(int socket, int level, int name, void *value, socklen_t length)
{
    struct peer_request request = {.call = PEER_GETSOCKOPT, .arguments = {socket, level, name, length}};
    return (int)receiving(&request, value, length, NULL);
}

int peer_poll(int socket, int events, int timeout_ms)
{
    return (int)simple(PEER_POLL, socket, events, timeout_ms);
}

int peer_name(int socket, struct sockaddr_storage *address)
{
    struct peer_request request = {.call = PEER_NAME, .arguments = {socket}};
    return (int)receiving(&request, NULL, 0, address);
}

long long peer_send_pattern(int socket, size_t length, unsigned seed)
{
    return simple(PEER_SEND_PATTERN, socket, (long long)length, seed);
}

long long peer_recv_pattern(int socket, size_t length, unsigned seed)
{
    return simple(PEER_RECV_PATTERN, socket, (long long)length, seed);
}
