#include "fixture.h"

#include <arpa/inet.h>
#include <sys/wait.h>
#include <time.h>

int family = AF_INET;
bool is_active = true;
volatile sig_atomic_t signals_counted;

static struct in_addr addresses_4[2];
static struct in6_addr addresses_6[2];
static pthread_t interrupter, interrupted;
static volatile int interruptions;

void fixture_addresses(const char *const names[4])
{
    for (int end = 0; end < 2; end++)
        if (inet_pton(AF_INET, names[2 * end], &addresses_4[end]) != 1 ||
            inet_pton(AF_INET6, names[2 * end + 1], &addresses_6[end]) != 1) {
            fprintf(stderr, "not addresses: %s %s\n", names[2 * end], names[2 * end + 1]);
            exit(2);
        }
}

static struct sockaddr_storage address_of(int end, in_port_t port)
{
    struct sockaddr_storage address = {0};
    if (family == AF_INET) {
        struct sockaddr_in *in = (struct sockaddr_in *)&address;
        *in = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = addresses_4[end]};
    } else {
        struct sockaddr_in6 *in = (struct sockaddr_in6 *)&address;
        *in = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = addresses_6[end]};
    }
    return address;
}

struct sockaddr_storage our_address(in_port_t port)
{
    return address_of(0, port);
}

struct sockaddr_storage peer_address(in_port_t port)
{
    return address_of(1, port);
}

socklen_t address_length(void)
{
    return family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

/* Both address types have the port at the same place. */
in_port_t port_of(const struct sockaddr_storage *address)
{
    return ntohs(((const struct sockaddr_in *)address)->sin_port);
}

struct sockaddr_storage name_of(int socket)
{
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    MUST(getsockname(socket, (struct sockaddr *)&address, &length));
    return address;
}

in_port_t our_port(int socket)
{
    struct sockaddr_storage address = name_of(socket);
    return port_of(&address);
}

bool same_address(const struct sockaddr_storage *one, const struct sockaddr_storage *other)
{
    if (one->ss_family != other->ss_family || port_of(one) != port_of(other))
        return false;
    if (one->ss_family == AF_INET)
        return ((const struct sockaddr_in *)one)->sin_addr.s_addr == ((const struct sockaddr_in *)other)->sin_addr.s_addr;
    return memcmp(&((const struct sockaddr_in6 *)one)->sin6_addr, &((const struct sockaddr_in6 *)other)->sin6_addr, 16) == 0;
}

int our_listener(int backlog)
{
    struct sockaddr_storage address = our_address(0);
    int listener = (int)MUST(socket(family, SOCK_STREAM, 0));
    MUST(bind(listener, (struct sockaddr *)&address, address_length()));
    MUST(listen(listener, backlog));
    return listener;
}

int peer_listener(in_port_t *port)
{
    struct sockaddr_storage address = peer_address(0);
    int listener = (int)MUST(peer_socket(family, SOCK_STREAM));
    MUST(peer_bind(listener, &address, address_length()));
    MUST(peer_listen(listener, 64));
    MUST(peer_name(listener, &address));
    *port = port_of(&address);
    return listener;
}

struct pair opened_by_us(void)
{
    struct pair pair;
    in_port_t port;
    int listener = peer_listener(&port);
    struct sockaddr_storage address = peer_address(port);
    pair.ours = (int)MUST(socket(family, SOCK_STREAM, 0));
    MUST(connect(pair.ours, (struct sockaddr *)&address, address_length()));
    pair.theirs = (int)MUST(peer_accept(listener));
    MUST(peer_close(listener));
    return pair;
}

struct pair opened_by_peer(void)
{
    struct pair pair;
    int listener = our_listener(64);
    MUST(wait_for(listener, POLLIN, 0));
    struct sockaddr_storage address = name_of(listener);
    pair.theirs = (int)MUST(peer_socket(family, SOCK_STREAM));
    MUST(peer_connect(pair.theirs, &address, address_length()));
    pair.ours = (int)MUST(accept(listener, NULL, NULL));
    MUST(close(listener));
    return pair;
}

struct pair connected(void)
{
    return is_active ? opened_by_us() : opened_by_peer();
}

struct pair datagrams(bool is_connected)
{
    struct sockaddr_storage address = our_address(0);
    struct pair pair = {.ours = (int)MUST(socket(family, SOCK_DGRAM, 0)), .theirs = (int)MUST(peer_socket(family, SOCK_DGRAM))};
    MUST(bind(pair.ours, (struct sockaddr *)&address, address_length()));
    address = peer_address(0);
    MUST(peer_bind(pair.theirs, &address, address_length()));
    MUST(peer_name(pair.theirs, &address));
    if (is_connected)
        MUST(connect(pair.ours, (struct sockaddr *)&address, address_length()));
    return pair;
}

void pause_ms(unsigned ms)
{
    struct timespec rest = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    while (nanosleep(&rest, &rest) == -1 && errno == EINTR)
        ;
}

void set_nonblocking(int socket, bool is_nonblocking)
{
    int flags = (int)MUST(fcntl(socket, F_GETFL));
    MUST(fcntl(socket, F_SETFL, is_nonblocking ? flags | O_NONBLOCK : flags & ~O_NONBLOCK));
}

int wait_for(int socket, int events, int timeout_ms)
{
    struct pollfd one = {.fd = socket, .events = (short)events};
    int count = poll(&one, 1, timeout_ms);
    return count == -1 ? -1 : one.revents;
}

int int_option(int socket, int level, int name)
{
    int value = -1;
    socklen_t length = sizeof value;
    return getsockopt(socket, level, name, &value, &length) == -1 ? -1 : value;
}

int set_int(int socket, int level, int name, int value)
{
    return setsockopt(socket, level, name, &value, sizeof value);
}

void set_timeout(int socket, int name, unsigned ms)
{
    struct timeval timeout = {.tv_sec = ms / 1000, .tv_usec = (ms % 1000) * 1000};
    MUST(setsockopt(socket, SOL_SOCKET, name, &timeout, sizeof timeout));
}

long long elapsed_ms(void (*work)(void *), void *argument)
{
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    work(argument);
    clock_gettime(CLOCK_MONOTONIC, &end);
    return (end.tv_sec - begin.tv_sec) * 1000LL + (end.tv_nsec - begin.tv_nsec) / 1000000;
}

static void count_signal(int signal)
{
    (void)signal;
    signals_counted++;
}

void count_signals(int flags)
{
    struct sigaction action = {.sa_handler = count_signal, .sa_flags = flags};
    signals_counted = 0;
    MUST(sigaction(SIGUSR1, &action, NULL));
}

static void *interrupt(void *unused)
{
    (void)unused;
    while (interruptions-- > 0) {
        pause_ms(20);
        pthread_kill(interrupted, SIGUSR1);
    }
    return NULL;
}

void interrupt_often(int times)
{
    interrupted = pthread_self();
    interruptions = times;
    interrupter = start_thread(interrupt, NULL);
}

void interrupt_no_more(void)
{
    int error = errno;
    interruptions = 0;
    pthread_join(interrupter, NULL);
    errno = error;
}

pthread_t start_thread(void *(*work)(void *), void *argument)
{
    pthread_t thread;
    errno = pthread_create(&thread, NULL, work, argument);
    MUST(errno == 0 ? 0 : -1);
    return thread;
}

int join_thread(pthread_t thread, void **result)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_MS / 1000;
    errno = pthread_timedjoin_np(thread, result, &until);
    return errno == 0 ? 0 : -1;
}

int join_process(pid_t child)
{
    int status;
    for (int waited = 0; waited < PATIENCE_MS; waited += 5) {
        if (waitpid(child, &status, WNOHANG) == child)
            return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        pause_ms(5);
    }
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    errno = ETIMEDOUT;
    return -1;
}
