/* poll, ppoll, select, pselect. */
#include "fixture.h"

#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/timerfd.h>

static void events(void)
{
    struct pair pair = connected();
    char data[16];
    check_int("idle", wait_for(pair.ours, POLLIN | POLLOUT | POLLPRI | POLLRDHUP, 0), POLLOUT);
    check_int("nothing_asked", wait_for(pair.ours, 0, 0), 0);
    check_int("timeout", wait_for(pair.ours, POLLIN, 30), 0);
    MUST(peer_send(pair.theirs, "x", 1, 0));
    check_int("in", wait_for(pair.ours, POLLIN, PATIENCE_MS), POLLIN);
    check_int("in_again", wait_for(pair.ours, POLLIN | POLLOUT, 0), POLLIN | POLLOUT);
    check_int("rdnorm", wait_for(pair.ours, POLLRDNORM | POLLWRNORM, 0), POLLRDNORM | POLLWRNORM);
    MUST(recv(pair.ours, data, 1, 0));
    check_int("in_no_more", wait_for(pair.ours, POLLIN, 0), 0);
    peer_later(40);
    peer_send(pair.theirs, "y", 1, 0);
    check_int("wakes", wait_for(pair.ours, POLLIN, -1), POLLIN);
    MUST(recv(pair.ours, data, 1, 0));
    peer_later(40);
    peer_close(pair.theirs);
    check_int("wakes_at_end", wait_for(pair.ours, POLLIN, -1), POLLIN);
    check_int("rdhup_unasked", wait_for(pair.ours, POLLRDHUP, 0), POLLRDHUP);
    struct pollfd closed = {.fd = 99, .events = POLLIN};
    check_int("nval", poll(&closed, 1, 0), 1);
    check_int("nval_revents", closed.revents, POLLNVAL);
    closed.fd = -1;
    check_int("negative", poll(&closed, 1, 0), 0);
    check_int("none", poll(NULL, 0, 10), 0);
}

static void several(void)
{
    struct pair one = connected(), two = connected();
    int event = (int)MUST(eventfd(0, 0)), pipes[2], timer = (int)MUST(timerfd_create(CLOCK_MONOTONIC, 0));
    MUST(pipe(pipes));
    struct pollfd all[] = {{one.ours, POLLIN, 0}, {event, POLLIN, 0}, {two.ours, POLLIN, 0}, {pipes[0], POLLIN, 0},
                           {timer, POLLIN, 0}, {one.ours, POLLOUT, 0}};
    check_int("one_of_six", poll(all, 6, 0), 1);
    check_int("same_descriptor_twice", all[5].revents, POLLOUT);
    MUST(peer_send(two.theirs, "x", 1, 0));
    MUST(wait_for(two.ours, POLLIN, PATIENCE_MS));
    MUST(eventfd_write(event, 1));
    MUST(write(pipes[1], "p", 1));
    check_int("four_of_six", poll(all, 6, 0), 4);
    check_int("eventfd", all[1].revents, POLLIN);
    check_int("socket", all[2].revents, POLLIN);
    check_int("pipe", all[3].revents, POLLIN);
    check_int("silent_socket", all[0].revents, 0);
    eventfd_t value;
    char byte;
    MUST(eventfd_read(event, &value));
    MUST(read(pipes[0], &byte, 1));
    MUST(recv(two.ours, &byte, 1, 0));
    struct itimerspec soon = {.it_value = {.tv_nsec = 30000000}};
    MUST(timerfd_settime(timer, 0, &soon, NULL));
    check_int("timer_wakes", poll(all, 5, PATIENCE_MS), 1);
    check_int("timer", all[4].revents, POLLIN);
    peer_later(40);
    peer_send(one.theirs, "z", 1, 0);
    check_int("socket_wakes", poll(all, 4, PATIENCE_MS), 1);
    check_int("that_socket", all[0].revents, POLLIN);
    struct timespec none = {0};
    check_int("ppoll", ppoll(all, 4, &none, NULL), 1);
    struct timespec wrong = {.tv_nsec = 2000000000};
    check_fails("ppoll_wrong_time", ppoll(all, 4, &wrong, NULL), EINVAL);
}

/* The kernel looks at sets up to the highest descriptor, whatever the count: here lies no memory behind them. */
static void select_of_all(void)
{
    struct pair pair = connected();
    struct rlimit before, many;
    long page = sysconf(_SC_PAGESIZE);
    char *memory = mmap(NULL, 2 * (size_t)page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(mprotect(memory + page, (size_t)page, PROT_NONE));
    fd_set *set = (fd_set *)(memory + page - sizeof(fd_set));
    MUST(getrlimit(RLIMIT_NOFILE, &before));
    many = before;
    many.rlim_cur = many.rlim_max;
    MUST(setrlimit(RLIMIT_NOFILE, &many));
    int count = getdtablesize(), pipes[2];
    struct timeval none = {0};
    MUST(pipe(pipes));
    MUST(write(pipes[1], "p", 1));
    FD_ZERO(set);
    FD_SET(pair.ours, set);
    FD_SET(pipes[0], set);
    check_int("one_is_ready", select(count, set, NULL, NULL, &none), 1);
    check_true("the_pipe", FD_ISSET(pipes[0], set) && !FD_ISSET(pair.ours, set));
    check_int("pipe_alone", select(count, set, NULL, NULL, &none), 1);
    MUST(peer_send(pair.theirs, "x", 1, 0));
    FD_SET(pair.ours, set);
    MUST(wait_for(pair.ours, POLLIN, PATIENCE_MS));
    check_int("both", pselect(count, set, NULL, NULL, NULL, NULL), 2);
    /* A descriptor beyond C's type, in a longer set. */
    int high = fcntl(pipes[0], F_DUPFD, 1500);
    unsigned long *words = (unsigned long *)(memory + page - 1536 / 8);
    memset(words, 0, 1536 / 8);
    words[high / 64] |= 1ul << high % 64;
    words[pair.ours / 64] |= 1ul << pair.ours % 64;
    if (high < 1536)
        check_int("high_one", select(1536, (fd_set *)words, NULL, NULL, &none), 2);
    MUST(close(high));
    MUST(setrlimit(RLIMIT_NOFILE, &before));
    MUST(munmap(memory, 2 * (size_t)page));
}

static int selected(int socket, bool reading, bool writing, bool except, long timeout_ms)
{
    fd_set in, out, other;
    struct timeval timeout = {.tv_sec = timeout_ms / 1000, .tv_usec = timeout_ms % 1000 * 1000};
    FD_ZERO(&in);
    FD_ZERO(&out);
    FD_ZERO(&other);
    if (reading)
        FD_SET(socket, &in);
    if (writing)
        FD_SET(socket, &out);
    if (except)
        FD_SET(socket, &other);
    int count = select(socket + 1, &in, &out, &other, &timeout);
    if (count == -1)
        return -1;
    int bits = (FD_ISSET(socket, &in) ? 1 : 0) | (FD_ISSET(socket, &out) ? 2 : 0) | (FD_ISSET(socket, &other) ? 4 : 0);
    return count * 10 + bits;
}

static void select_sets(void)
{
    struct pair pair = connected();
    check_int("writable", selected(pair.ours, true, true, true, 0), 12);
    check_int("timeout", selected(pair.ours, true, false, false, 30), 0);
    MUST(peer_send(pair.theirs, "x", 1, 0));
    check_int("readable", selected(pair.ours, true, false, false, PATIENCE_MS), 11);
    check_int("both", selected(pair.ours, true, true, false, 0), 23);
    MUST(peer_send(pair.theirs, "!", 1, MSG_OOB));
    check_int("exceptional", selected(pair.ours, false, false, true, PATIENCE_MS), 14);
    fd_set set;
    FD_ZERO(&set);
    int closed = MUST(dup(pair.ours)); /* select(2) leaves out numbers beyond the process's table of descriptors */
    close(closed);
    FD_SET(closed, &set);
    struct timeval none = {0};
    check_fails("bad_descriptor", select(closed + 1, &set, NULL, NULL, &none), EBADF);
    struct timeval negative = {.tv_sec = -1};
    check_fails("negative_time", select(0, NULL, NULL, NULL, &negative), EINVAL);
    struct timeval pause = {.tv_usec = 20000};
    check_int("as_a_pause", select(0, NULL, NULL, NULL, &pause), 0);
    check_int("time_is_counted_down", pause.tv_usec, 0);
    struct timespec short_time = {.tv_nsec = 20000000};
    FD_ZERO(&set);
    FD_SET(pair.ours, &set);
    check_int("pselect", pselect(pair.ours + 1, &set, NULL, NULL, &short_time, NULL), 1);
    check_int("pselect_leaves_time", short_time.tv_nsec, 20000000);
    MUST(peer_abort(pair.theirs));
    MUST(wait_for(pair.ours, POLLHUP, PATIENCE_MS));
    check_int("reset_reads_and_writes", selected(pair.ours, true, true, false, 0), 23);
}

static void select_connect(void)
{
    in_port_t port;
    peer_listener(&port);
    struct sockaddr_storage address = peer_address(port);
    int ours = (int)MUST(socket(family, SOCK_STREAM | SOCK_NONBLOCK, 0));
    check_fails("begins", connect(ours, (struct sockaddr *)&address, address_length()), EINPROGRESS);
    check_int("writable", selected(ours, true, true, false, PATIENCE_MS), 12);
    address = peer_address(1);
    int refused = (int)MUST(socket(family, SOCK_STREAM | SOCK_NONBLOCK, 0));
    check_fails("refused_begins", connect(refused, (struct sockaddr *)&address, address_length()), EINPROGRESS);
    wait_for(refused, POLLHUP, PATIENCE_MS);
    check_int("refused_reads_and_writes", selected(refused, true, true, false, PATIENCE_MS), 23);
    check_int("refused_error", int_option(refused, SOL_SOCKET, SO_ERROR), ECONNREFUSED);
    int listener = our_listener(2);
    check_int("listener_silent", selected(listener, true, true, false, 0), 0);
    struct sockaddr_storage own = name_of(listener);
    MUST(peer_connect((int)MUST(peer_socket(family, SOCK_STREAM)), &own, address_length()));
    check_int("listener_readable", selected(listener, true, true, false, PATIENCE_MS), 11);
}

#define EVERYTHING (POLLIN | POLLOUT | POLLPRI | POLLRDHUP)

static void states(void)
{
    int fresh = (int)MUST(socket(family, SOCK_STREAM, 0)), listener = our_listener(2);
    check_int("never_connected", wait_for(fresh, EVERYTHING, 0), POLLOUT | POLLHUP);
    check_int("never_connected_unasked", wait_for(fresh, 0, 0), POLLHUP);
    check_int("listener", wait_for(listener, EVERYTHING, 0), 0);
    struct pair pair = connected();
    MUST(shutdown(pair.ours, SHUT_WR));
    check_int("shut_writing", wait_for(pair.ours, EVERYTHING, PAUSE_MS), POLLOUT);
    pair = connected();
    MUST(shutdown(pair.ours, SHUT_RD));
    check_int("shut_reading", wait_for(pair.ours, EVERYTHING, 0), POLLIN | POLLOUT | POLLRDHUP);
    MUST(shutdown(pair.ours, SHUT_WR));
    check_int("shut_both", wait_for(pair.ours, EVERYTHING, 0), POLLIN | POLLOUT | POLLRDHUP | POLLHUP);
    check_int("shut_both_unasked", wait_for(pair.ours, 0, 0), POLLHUP);
    pair = connected();
    MUST(peer_shutdown(pair.theirs, SHUT_WR));
    check_int("peer_has_finished", wait_for(pair.ours, POLLRDHUP, PATIENCE_MS), POLLRDHUP);
    check_int("all_of_it", wait_for(pair.ours, EVERYTHING, 0), POLLIN | POLLOUT | POLLRDHUP);
    check_int("normal_bits", wait_for(pair.ours, POLLRDNORM | POLLRDBAND | POLLWRNORM, 0), POLLRDNORM | POLLWRNORM);
    pair = connected();
    MUST(peer_abort(pair.theirs));
    check_int("reset_unasked", wait_for(pair.ours, 0, PATIENCE_MS), POLLERR | POLLHUP);
    check_int("reset", wait_for(pair.ours, EVERYTHING, 0), POLLIN | POLLOUT | POLLRDHUP | POLLERR | POLLHUP);
    check_int("so_error", int_option(pair.ours, SOL_SOCKET, SO_ERROR), ECONNRESET);
    check_int("after_so_error", wait_for(pair.ours, EVERYTHING, 0), POLLIN | POLLOUT | POLLRDHUP | POLLHUP);
}

/* Most of a long list is the kernel's. */
static void long_lists(void)
{
    enum { ENTRIES = 900 };
    struct pair pair = connected();
    static struct pollfd list[ENTRIES];
    int silent = (int)MUST(eventfd(0, 0)), ready = (int)MUST(eventfd(1, 0));
    for (int index = 0; index < ENTRIES; index++)
        list[index] = (struct pollfd){.fd = silent, .events = POLLIN, .revents = -1};
    list[ENTRIES / 2].fd = pair.ours;
    check_int("none", poll(list, ENTRIES, 0), 0);
    check_int("revents_are_cleared", list[1].revents, 0);
    list[ENTRIES - 1].fd = ready;
    list[3].fd = -5;
    check_int("one", poll(list, ENTRIES, PATIENCE_MS), 1);
    check_int("the_last", list[ENTRIES - 1].revents, POLLIN);
    list[ENTRIES - 1].fd = silent;
    peer_later(40);
    peer_send(pair.theirs, "l", 1, 0);
    check_int("wakes", poll(list, ENTRIES, -1), 1);
    check_int("in_the_middle", list[ENTRIES / 2].revents, POLLIN);
}

static int shared_descriptor;

static void *poll_it(void *unused)
{
    (void)unused;
    return (void *)(long)wait_for(shared_descriptor, POLLIN, PATIENCE_MS);
}

static void many_pollers(void)
{
    struct pair pair = connected();
    shared_descriptor = pair.ours;
    static const char *const names[] = {"first_wakes", "second_wakes", "third_wakes", "fourth_wakes"};
    pthread_t threads[4];
    for (int index = 0; index < 4; index++)
        threads[index] = start_thread(poll_it, NULL);
    pause_ms(PAUSE_MS);
    MUST(peer_send(pair.theirs, "x", 1, 0));
    for (int index = 0; index < 4; index++) {
        void *result = NULL;
        join_thread(threads[index], &result);
        check_int(names[index], (long)result, POLLIN);
    }
}

static const struct test tests[] = {
    {"select_of_all", select_of_all, FAMILIES_AND_ENDS},
    {"events", events, FAMILIES_AND_ENDS},           {"several", several, FAMILIES_AND_ENDS},
    {"select_sets", select_sets, FAMILIES_AND_ENDS}, {"select_connect", select_connect, FAMILIES},
    {"states", states, FAMILIES_AND_ENDS},           {"long_lists", long_lists, FAMILIES_AND_ENDS},
    {"many_pollers", many_pollers, FAMILIES_AND_ENDS},
};

SUBJECT(polling, tests);
