#include "peer.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define BEGUN_MAX 64

struct call {
    struct peer_request request;
    char data[PEER_DATA_MAX];
    struct peer_answer answer;
    char answer_data[PEER_DATA_MAX];
    pthread_t thread;
};

static struct call *begun[BEGUN_MAX];
static int begun_count;

static int close_socket(int socket, bool is_abort)
{
    struct linger linger = {.l_onoff = 1};
    if (is_abort)
        setsockopt(socket, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    return close(socket);
}

static int poll_one(int socket, int events, int timeout_ms)
{
    struct pollfd one = {.fd = socket, .events = (short)events};
    int count = poll(&one, 1, timeout_ms);
    return count == -1 ? -1 : one.revents;
}

static int64_t send_pattern(int socket, size_t length, unsigned seed)
{
    char data[16384];
    size_t done = 0;
    while (done < length) {
        size_t part = length - done < sizeof data ? length - done : sizeof data;
        pattern(seed, done, data, part);
        ssize_t sent = send(socket, data, part, MSG_NOSIGNAL);
        if (sent == -1)
            return done ? (int64_t)done : -1;
        done += (size_t)sent;
    }
    return (int64_t)done;
}

static int64_t recv_pattern(int socket, size_t length, unsigned seed)
{
    char data[16384], expected[16384];
    size_t done = 0;
    while (done < length) {
        size_t part = length - done < sizeof data ? length - done : sizeof data;
        ssize_t received = recv(socket, data, part, 0);
        if (received == -1 && done == 0)
            return -1;
        if (received <= 0)
            break;
        pattern(seed, done, expected, (size_t)received);
        if (memcmp(data, expected, (size_t)received) != 0)
            break;
        done += (size_t)received;
    }
    return (int64_t)done;
}

static int64_t perform_data(struct call *call, int socket)
{
    struct peer_request *request = &call->request;
    struct peer_answer *answer = &call->answer;
    int64_t *arguments = request->arguments, result;
    struct sockaddr *from = (struct sockaddr *)&answer->address, *to = (struct sockaddr *)&request->address;
    switch (request->call) {
    case PEER_SEND:
        return send(socket, call->data, request->length, (int)arguments[1] | MSG_NOSIGNAL);
    case PEER_SENDTO:
        return sendto(socket, call->data, request->length, MSG_NOSIGNAL, to, request->address_length);
    case PEER_SETSOCKOPT:
        return setsockopt(socket, (int)arguments[1], (int)arguments[2], call->data, request->length);
    case PEER_GETSOCKOPT:
        answer->length = (uint32_t)arguments[3];
        return getsockopt(socket, (int)arguments[1], (int)arguments[2], call->answer_data, &answer->length);
    case PEER_RECV:
        result = recv(socket, call->answer_data, (size_t)arguments[1], (int)arguments[2]);
        break;
    default:
        answer->address_length = sizeof answer->address;
        result = recvfrom(socket, call->answer_data, (size_t)arguments[1], 0, from, &answer->address_length);
    }
    answer->length = result > 0 ? (uint32_t)result : 0;
    return result;
}

static int64_t perform(struct call *call)
{
    struct peer_request *request = &call->request;
    int64_t *arguments = request->arguments;
    int socket_number = (int)arguments[0];
    struct sockaddr *address = (struct sockaddr *)&request->address;
    switch (request->call) {
    case PEER_SOCKET:
        return socket((int)arguments[0], (int)arguments[1] | SOCK_CLOEXEC, 0);
    case PEER_BIND:
        return bind(socket_number, address, request->address_length);
    case PEER_LISTEN:
        return listen(socket_number, (int)arguments[1]);
    case PEER_ACCEPT:
        return accept4(socket_number, NULL, NULL, SOCK_CLOEXEC);
    case PEER_CONNECT:
        return connect(socket_number, address, request->address_length);
    case PEER_SHUTDOWN:
        return shutdown(socket_number, (int)arguments[1]);
    case PEER_CLOSE:
        return close_socket(socket_number, arguments[1] != 0);
    case PEER_POLL:
        return poll_one(socket_number, (int)arguments[1], (int)arguments[2]);
    case PEER_NAME:
        call->answer.address_length = sizeof call->answer.address;
        return getsockname(socket_number, (struct sockaddr *)&call->answer.address, &call->answer.address_length);
    case PEER_SEND_PATTERN:
        return send_pattern(socket_number, (size_t)arguments[1], (unsigned)arguments[2]);
    case PEER_RECV_PATTERN:
        return recv_pattern(socket_number, (size_t)arguments[1], (unsigned)arguments[2]);
    default:
        return perform_data(call, socket_number);
    }
}

static void *run(void *argument)
{
    struct call *call = argument;
    if (call->request.delay_ms > 0)
        usleep(call->request.delay_ms * 1000);
    errno = 0;
    call->answer.result = perform(call);
    call->answer.error = call->answer.result == -1 ? errno : 0;
    return NULL;
}

static void reply(int connection, struct call *call)
{
    struct iovec parts[] = {{&call->answer, sizeof call->answer}, {call->answer_data, call->answer.length}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    if (sendmsg(connection, &message, MSG_NOSIGNAL) == -1)
        _exit(0);
}

static void begin(int connection, struct call *call)
{
    struct call at_once = {.answer = {.result = begun_count}};
    begun[begun_count++ % BEGUN_MAX] = call;
    pthread_create(&call->thread, NULL, run, call);
    reply(connection, &at_once);
}

static void join(int connection, struct call *call)
{
    struct call *done = begun[call->request.arguments[0] % BEGUN_MAX];
    pthread_join(done->thread, NULL);
    reply(connection, done);
}

static void serve(int connection)
{
    for (;;) {
        struct call *call = calloc(1, sizeof *call);
        struct iovec parts[] = {{&call->request, sizeof call->request}, {call->data, sizeof call->data}};
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
        ssize_t received = recvmsg(connection, &message, MSG_CMSG_CLOEXEC);
        if (received < (ssize_t)sizeof call->request)
            _exit(0);
        if (call->request.call == PEER_JOIN) {
            join(connection, call);
        } else if (call->request.is_begun) {
            begin(connection, call);
            continue;
        } else {
            run(call);
            reply(connection, call);
        }
        free(call);
    }
}

int peer_serve(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    unlink(path);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) == -1 || listen(listener, 16) == -1) {
        perror(path);
        return 2;
    }
    signal(SIGCHLD, SIG_IGN);
    for (;;) {
        int connection = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (connection == -1)
            continue;
        if (fork() == 0) {
            close(listener);
            serve(connection);
        }
        close(connection);
    }
}
