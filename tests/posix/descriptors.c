/* Descriptors of sockets: dup, flags, closing, stdio. */
#include "fixture.h"

#include <aio.h>
#include <poll.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/syscall.h>

static void duplicates(void)
{
    struct pair pair = connected();
    char data[16];
    int copy = dup(pair.ours);
    check_works("dup", copy);
    check_int("dup_sends", send(copy, "1", 1, 0), 1);
    check_bytes("peer_has_it", data, peer_recv(pair.theirs, data, 1, 0), "1", 1);
    set_nonblocking(copy, true);
    check_int("status_flags_are_shared", fcntl(pair.ours, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
    check_fails("recv_does_not_wait", recv(pair.ours, data, 1, 0), EAGAIN);
    set_nonblocking(pair.ours, false);
    MUST(fcntl(copy, F_SETFD, FD_CLOEXEC));
    check_int("descriptor_flags_are_not", fcntl(pair.ours, F_GETFD), 0);
    check_int("close_one", close(pair.ours), 0);
    check_fails("closed", send(pair.ours, "x", 1, 0), EBADF);
    check_int("other_lives", send(copy, "2", 1, 0), 1);
    check_bytes("peer_has_second", data, peer_recv(pair.theirs, data, 1, 0), "2", 1);
    check_fails("peer_sees_no_end", peer_recv(pair.theirs, data, 1, MSG_DONTWAIT), EAGAIN);
    MUST(peer_send(pair.theirs, "both", 4, 0));
    int third = fcntl(copy, F_DUPFD, 100);
    check_true("dupfd", third >= 100);
    int fourth = fcntl(copy, F_DUPFD_CLOEXEC, 200);
    check_true("dupfd_cloexec", fourth >= 200 && fcntl(fourth, F_GETFD) == FD_CLOEXEC);
    check_bytes("one_reads", data, recv(third, data, 2, 0), "bo", 2);
    check_bytes("another_reads", data, recv(fourth, data, 2, 0), "th", 2);
    close(copy), close(third);
    check_int("last_close", close(fourth), 0);
    check_int("peer_end", peer_recv(pair.theirs, data, 1, 0), 0);
}

static void onto(void)
{
    struct pair one = connected(), two = connected();
    char data[16];
    check_int("dup2", dup2(one.ours, two.ours), two.ours);
    check_int("replaced_ends", peer_recv(two.theirs, data, 1, 0), 0);
    check_int("replacement_sends", send(two.ours, "r", 1, 0), 1);
    check_bytes("peer_has_it", data, peer_recv(one.theirs, data, 1, 0), "r", 1);
    check_int("dup2_same", dup2(one.ours, one.ours), one.ours);
    check_fails("dup2_bad", dup2(99, one.ours), EBADF);
    check_int("dup2_bad_leaves", send(one.ours, "l", 1, 0), 1);
    check_int("dup3", dup3(one.ours, 50, O_CLOEXEC), 50);
    check_int("dup3_cloexec", fcntl(50, F_GETFD), FD_CLOEXEC);
    check_fails("dup3_same", dup3(one.ours, one.ours, 0), EINVAL);
    int file = (int)MUST(open("/dev/null", O_RDWR));
    check_int("file_onto_socket", dup2(file, two.ours), two.ours);
    check_int("is_the_file", write(two.ours, "null", 4), 4);
    check_int("socket_lives", send(50, "s", 1, 0), 1);
    check_int("socket_onto_file", dup2(50, file), file);
    check_int("is_the_socket", send(file, "t", 1, 0), 1);
}

static void reused(void)
{
    struct pair one = connected();
    int number = one.ours;
    char data[64];
    /* Fills the place of a listener that is gone. */
    MUST(open("/dev/null", O_RDONLY));
    MUST(close(one.ours));
    int file = (int)MUST(open("/proc/self/status", O_RDONLY));
    check_int("lowest_number", file, number);
    check_true("reads_the_file", read(file, data, sizeof data) > 0);
    check_fails("is_no_socket", recv(file, data, 1, 0), ENOTSOCK);
    MUST(close(file));
    int pipes[2];
    MUST(pipe(pipes));
    check_int("pipe_number", pipes[0], number);
    check_int("pipe_write", write(pipes[1], "p", 1), 1);
    check_bytes("pipe_read", data, read(pipes[0], data, 1), "p", 1);
}

static void facts(void)
{
    struct pair pair = connected();
    struct stat status;
    char path[32], link[64] = "";
    check_int("fstat", fstat(pair.ours, &status), 0);
    check_true("is_socket", S_ISSOCK(status.st_mode));
    snprintf(path, sizeof path, "/proc/self/fd/%d", pair.ours);
    check_true("readlink", readlink(path, link, sizeof link - 1) > 0 && strncmp(link, "socket:[", 8) == 0);
    check_fails("open_proc", open(path, O_RDWR), ENXIO);
    check_fails("ftruncate", ftruncate(pair.ours, 0), EINVAL);
    check_fails("fsync", fsync(pair.ours), EINVAL);
    check_int("isatty", isatty(pair.ours), 0);
    check_fails("setfl_bad_descriptor", fcntl(99, F_SETFL, 0), EBADF);
}

static void ranges(void)
{
    struct pair one = connected(), two = connected();
    int first = (int)MUST(dup2(one.ours, 60)), second = (int)MUST(dup2(two.ours, 61));
    MUST(close(one.ours));
    MUST(close(two.ours));
    check_int("close_range", close_range(60, 65, 0), 0);
    check_fails("closed", fcntl(first, F_GETFD), EBADF);
    check_fails("closed_too", send(second, "x", 1, MSG_NOSIGNAL), EBADF);
    check_int("peer_one", peer_recv(one.theirs, NULL, 1, 0), 0);
    check_int("peer_two", peer_recv(two.theirs, NULL, 1, 0), 0);
    struct pair three = connected();
    MUST(dup2(three.ours, 70));
    check_int("cloexec_range", close_range(70, 70, CLOSE_RANGE_CLOEXEC), 0);
    check_int("cloexec", fcntl(70, F_GETFD), FD_CLOEXEC);
    check_int("still_sends", send(70, "y", 1, 0), 1);
}

/* What a program does before it becomes a daemon, though it does not know who has opened what. */
static void close_every_number(void)
{
    struct pair pair = connected();
    for (int descriptor = 3; descriptor < 1024; descriptor++)
        if (descriptor != pair.ours && descriptor != peer_descriptor())
            close(descriptor);
    char data[8];
    check_int("send", send(pair.ours, "d", 1, 0), 1);
    check_bytes("peer_has_it", data, peer_recv(pair.theirs, data, 1, 0), "d", 1);
    MUST(peer_send(pair.theirs, "e", 1, 0));
    check_bytes("recv", data, recv(pair.ours, data, 1, 0), "e", 1);
    pair = connected();
    check_int("send_by_a_new_one", send(pair.ours, "n", 1, 0), 1);
    check_int("peer_has_that", peer_recv(pair.theirs, data, 1, 0), 1);
}

/* Numbers of one socket, whichever is connected. */
static void duplicated_before_connection(void)
{
    in_port_t port;
    int listener = peer_listener(&port), ours = (int)MUST(socket(family, SOCK_STREAM, 0)), set = (int)MUST(epoll_create1(0));
    int copy = (int)MUST(dup(ours)), high = (int)MUST(fcntl(ours, F_DUPFD_CLOEXEC, 80));
    struct sockaddr_storage address = peer_address(port);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = high}, told;
    char data[8];
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, high, &event));
    check_int("connect", connect(ours, (struct sockaddr *)&address, address_length()), 0);
    int theirs = (int)MUST(peer_accept(listener));
    check_int("send", send(copy, "1", 1, MSG_NOSIGNAL), 1);
    check_bytes("peer_has_it", data, peer_recv(theirs, data, 1, 0), "1", 1);
    MUST(close(ours));
    MUST(peer_send(theirs, "2", 1, 0));
    check_int("epoll_of_another", epoll_wait(set, &told, 1, PATIENCE_MS), 1);
    check_bytes("recv", data, recv(high, data, 1, 0), "2", 1);
    check_int("close_one", close(copy), 0);
    check_int("send_by_the_last", send(high, "3", 1, MSG_NOSIGNAL), 1);
    check_bytes("peer_has_that", data, peer_recv(theirs, data, 1, 0), "3", 1);
    check_int("close_all", close(high), 0);
    check_int("peer_end", peer_recv(theirs, data, 1, 0), 0);
}

static void duplicated_before_waiting(void)
{
    struct sockaddr_storage address = our_address(0);
    int ours = (int)MUST(socket(family, SOCK_STREAM, 0)), copy = (int)MUST(dup(ours));
    MUST(bind(ours, (struct sockaddr *)&address, address_length()));
    MUST(listen(ours, 2));
    address = name_of(ours);
    int theirs = (int)MUST(peer_socket(family, SOCK_STREAM | SOCK_NONBLOCK));
    peer_connect(theirs, &address, address_length());
    check_int("readable", wait_for(copy, POLLIN, PATIENCE_MS), POLLIN);
    check_works("accept", accept(copy, NULL, NULL));
    ours = (int)MUST(socket(family, SOCK_DGRAM, 0)), copy = (int)MUST(dup(ours));
    address = our_address(0);
    MUST(bind(ours, (struct sockaddr *)&address, address_length()));
    address = name_of(ours);
    theirs = (int)MUST(peer_socket(family, SOCK_DGRAM));
    MUST(peer_sendto(theirs, "u", 1, &address, address_length()));
    check_int("datagram", wait_for(copy, POLLIN, PATIENCE_MS), POLLIN);
    char data[8];
    check_bytes("recv", data, recv(copy, data, sizeof data, MSG_DONTWAIT), "u", 1);
}

/* A child has the socket that its parent connects later, and one that it binds. */
static void forked_before_connection(void)
{
    in_port_t port;
    int listener = peer_listener(&port), ours = (int)MUST(socket(family, SOCK_STREAM, 0)), begin[2];
    int datagrams = (int)MUST(socket(family, SOCK_DGRAM, 0));
    struct sockaddr_storage address = peer_address(port), own = our_address(0);
    char data[8];
    MUST(pipe(begin));
    pid_t child = (pid_t)MUST(fork());
    if (child == 0) {
        bool is_good = read(begin[0], data, 1) == 1 && send(ours, "c", 1, MSG_NOSIGNAL) == 1;
        is_good = wait_for(datagrams, POLLIN, PATIENCE_MS) == POLLIN && is_good;
        _exit(is_good && recv(datagrams, data, sizeof data, MSG_DONTWAIT) == 1 ? 0 : 1);
    }
    check_int("connect", connect(ours, (struct sockaddr *)&address, address_length()), 0);
    int theirs = (int)MUST(peer_accept(listener));
    MUST(bind(datagrams, (struct sockaddr *)&own, address_length()));
    own = name_of(datagrams);
    MUST(peer_sendto((int)MUST(peer_socket(family, SOCK_DGRAM)), "u", 1, &own, address_length()));
    MUST(write(begin[1], "b", 1));
    check_int("child_uses_both", join_process(child), 0);
    check_bytes("peer_has_it", data, peer_recv(theirs, data, 1, 0), "c", 1);
    check_int("send", send(ours, "p", 1, MSG_NOSIGNAL), 1);
    check_bytes("peer_has_that", data, peer_recv(theirs, data, 1, 0), "p", 1);
}

/* In this process, as a server of inetd that forks for no connection. */
static void by_standard_streams(void)
{
    struct pair pair = connected();
    char data[32];
    int in = (int)MUST(dup(0)), out = (int)MUST(dup(1)), result;
    fflush(stdout);
    MUST(dup2(pair.ours, 0));
    MUST(dup2(pair.ours, 1));
    MUST(peer_send(pair.theirs, "line\n", 5, 0));
    char *line = fgets(data, sizeof data, stdin);
    result = printf("said %d\n", 7);
    fflush(stdout);
    clearerr(stdin);
    MUST(dup2(in, 0));
    MUST(dup2(out, 1));
    check_true("fgets", line && strcmp(line, "line\n") == 0);
    check_int("printf", result, 7);
    check_bytes("peer_has_it", data, peer_recv(pair.theirs, data, sizeof data, 0), "said 7\n", 7);
    check_int("send", send(pair.ours, "s", 1, 0), 1);
    check_bytes("peer_has_that", data, peer_recv(pair.theirs, data, 1, 0), "s", 1);
    close(in), close(out);
}

static void stream_before_connection(void)
{
    in_port_t port;
    int listener = peer_listener(&port), ours = (int)MUST(socket(family, SOCK_STREAM, 0));
    struct sockaddr_storage address = peer_address(port);
    char data[32];
    FILE *file = fdopen(ours, "r+");
    check_true("fdopen", file != NULL);
    check_int("connect", connect(ours, (struct sockaddr *)&address, address_length()), 0);
    int theirs = (int)MUST(peer_accept(listener));
    check_true("fputs", fputs("GET /\n", file) >= 0 && fflush(file) == 0);
    check_bytes("peer_has_it", data, peer_recv(theirs, data, sizeof data, 0), "GET /\n", 6);
    MUST(peer_send(theirs, "line\n", 5, 0));
    check_true("fgets", fgets(data, sizeof data, file) && strcmp(data, "line\n") == 0);
    check_int("fclose", fclose(file), 0);
    int again = (int)MUST(socket(family, SOCK_STREAM, 0));
    check_int("connect_of_another", connect(again, (struct sockaddr *)&address, address_length()), 0);
    check_int("send_by_another", send(again, "a", 1, 0), 1);
}

static void by_stdio(void)
{
    struct pair pair = connected();
    char data[32];
    FILE *file = fdopen(dup(pair.ours), "r+");
    check_true("fdopen", file != NULL);
    setvbuf(file, NULL, _IOLBF, 0);
    check_int("fileno", fileno(file) > 2, 1);
    check_true("fputs", fputs("GET /\n", file) >= 0 && fflush(file) == 0);
    check_bytes("peer_has_it", data, peer_recv(pair.theirs, data, sizeof data, 0), "GET /\n", 6);
    MUST(peer_send(pair.theirs, "line\nrest", 9, 0));
    check_true("fgets", fgets(data, sizeof data, file) && strcmp(data, "line\n") == 0);
    MUST(peer_close(pair.theirs));
    check_true("fread", fread(data, 1, sizeof data, file) == 4 && memcmp(data, "rest", 4) == 0 && feof(file));
    check_int("fclose", fclose(file), 0);
    pair = connected();
    check_int("dprintf", dprintf(pair.ours, "%d-%s", 7, "x"), 3);
    check_bytes("peer_has_dprintf", data, peer_recv(pair.theirs, data, sizeof data, 0), "7-x", 3);
}

static int print(int descriptor, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int count = vdprintf(descriptor, format, arguments);
    va_end(arguments);
    return count;
}

/* Integers, floating point numbers, and more of them than registers have. */
static void printed(void)
{
    struct pair pair = connected();
    char data[128];
    const char *wanted = "1 2.5 three 4 5 6 7 8.25 9 1.5 2.5 3.5 4.5 5.5 6.5 7.5";
    int count = dprintf(pair.ours, "%d %g %s %d %d %d %d %g %ld %g %g %g %g %g %g %g", 1, 2.5, "three", 4, 5, 6, 7,
                        8.25, 9L, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5);
    check_int("dprintf", count, (int)strlen(wanted));
    check_bytes("peer_has_it", data, peer_recv(pair.theirs, data, strlen(wanted), MSG_WAITALL), wanted, strlen(wanted));
    check_int("vdprintf", print(pair.ours, "%s:%g", "v", 0.5), 5);
    check_bytes("peer_has_that", data, peer_recv(pair.theirs, data, 5, MSG_WAITALL), "v:0.5", 5);
    check_int("send_after", send(pair.ours, "after", 5, 0), 5);
    check_bytes("peer_has_after", data, peer_recv(pair.theirs, data, 5, MSG_WAITALL), "after", 5);
    MUST(peer_send(pair.theirs, "back", 4, 0));
    check_bytes("recv_after", data, recv(pair.ours, data, 4, MSG_WAITALL), "back", 4);
    check_fails("dprintf_bad_descriptor", dprintf(99, "x"), EBADF);
}

/* syscall(2): what libraries and language runtimes do that know the kernel's numbers. */
static void by_number(void)
{
    struct pair pair = connected();
    char data[32];
    check_int("write", (int)syscall(SYS_write, pair.ours, "one", 3), 3);
    check_bytes("peer_has_it", data, peer_recv(pair.theirs, data, 3, MSG_WAITALL), "one", 3);
    check_int("sendto", (int)syscall(SYS_sendto, pair.ours, "two", 3, MSG_NOSIGNAL, NULL, 0), 3);
    check_bytes("peer_has_that", data, peer_recv(pair.theirs, data, 3, MSG_WAITALL), "two", 3);
    check_fails("recv_dont_wait", syscall(SYS_recvfrom, pair.ours, data, 1, MSG_DONTWAIT, NULL, NULL), EAGAIN);
    MUST(peer_send(pair.theirs, "answer", 6, 0));
    struct timespec second = {5, 0};
    struct pollfd entry = {.fd = pair.ours, .events = POLLIN};
    uint64_t mask = 0;
    check_int("ppoll", (int)syscall(SYS_ppoll, &entry, 1, &second, &mask, sizeof mask), 1);
    check_int("revents", entry.revents, POLLIN);
    int set = (int)syscall(SYS_epoll_create1, 0);
    check_works("epoll_create1", set);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = pair.ours}, told;
    check_int("epoll_ctl", (int)syscall(SYS_epoll_ctl, set, EPOLL_CTL_ADD, pair.ours, &event), 0);
    check_int("epoll_pwait", (int)syscall(SYS_epoll_pwait, set, &told, 1, 5000, &mask, sizeof mask), 1);
    check_int("told", told.data.fd, pair.ours);
    struct iovec parts[2] = {{data, 2}, {data + 2, 4}};
    check_bytes("readv", data, syscall(SYS_readv, pair.ours, parts, 2), "answer", 6);
    int copy = (int)syscall(SYS_dup, pair.ours), third = (int)syscall(SYS_dup3, pair.ours, 77, O_CLOEXEC);
    check_works("dup", copy);
    check_int("dup3", third, 77);
    check_int("close", (int)syscall(SYS_close, pair.ours), 0);
    check_fails("closed", send(pair.ours, "x", 1, MSG_NOSIGNAL), EBADF);
    check_int("copy_sends", send(copy, "3", 1, 0), 1);
    check_bytes("peer_has_third", data, peer_recv(pair.theirs, data, 1, 0), "3", 1);
    int value = 0;
    socklen_t length = sizeof value;
    check_int("getsockopt", (int)syscall(SYS_getsockopt, third, SOL_SOCKET, SO_TYPE, &value, &length), 0);
    check_int("type", value, SOCK_STREAM);
    check_int("fcntl", (int)syscall(SYS_fcntl, third, F_GETFD), FD_CLOEXEC);
    check_int("shutdown", (int)syscall(SYS_shutdown, third, SHUT_WR), 0);
    check_int("peer_sees_it", peer_recv(pair.theirs, data, 1, 0), 0);
    check_int("close_range", (int)syscall(SYS_close_range, 77, 77, 0), 0);
    check_fails("closed_range", fcntl(77, F_GETFD), EBADF);
    check_fails("bad_descriptor", syscall(SYS_read, 77, data, 1), EBADF);
    check_fails("no_such_call", syscall(100000), ENOSYS);
}

static int finished(struct aiocb *block)
{
    const struct aiocb *list[] = {block};
    while (aio_error(block) == EINPROGRESS)
        aio_suspend(list, 1, NULL);
    return (int)aio_return(block);
}

static void asynchronous(void)
{
    struct pair pair = connected();
    char data[8];
    struct aiocb sent = {.aio_fildes = pair.ours, .aio_buf = "abc", .aio_nbytes = 3};
    check_int("aio_write", aio_write(&sent), 0);
    check_int("written", finished(&sent), 3);
    check_bytes("peer_has_it", data, peer_recv(pair.theirs, data, 3, MSG_WAITALL), "abc", 3);
    MUST(peer_send(pair.theirs, "xyz", 3, 0));
    struct aiocb taken = {.aio_fildes = pair.ours, .aio_buf = data, .aio_nbytes = 3};
    check_int("aio_read", aio_read(&taken), 0);
    check_bytes("read", data, finished(&taken), "xyz", 3);
}

static const struct test tests[] = {
    {"duplicates", duplicates, FAMILIES_AND_ENDS}, {"onto", onto, FAMILIES_AND_ENDS},
    {"reused", reused, FAMILIES_AND_ENDS},         {"facts", facts, FAMILIES_AND_ENDS},
    {"ranges", ranges, FAMILIES_AND_ENDS},         {"duplicated_before_connection", duplicated_before_connection, FAMILIES},
    {"duplicated_before_waiting", duplicated_before_waiting, FAMILIES},
    {"forked_before_connection", forked_before_connection, FAMILIES},
    {"by_standard_streams", by_standard_streams, FAMILIES_AND_ENDS},
    {"stream_before_connection", stream_before_connection, FAMILIES},
    {"by_stdio", by_stdio, FAMILIES_AND_ENDS},
    {"close_every_number", close_every_number, FAMILIES_AND_ENDS},
    {"printed", printed, FAMILIES_AND_ENDS},       {"by_number", by_number, FAMILIES_AND_ENDS},
    {"asynchronous", asynchronous, FAMILIES_AND_ENDS},
};

SUBJECT(descriptors, tests);
