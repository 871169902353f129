/* fork, exec, spawning, descriptors passed to other processes. */
#include "fixture.h"

#include <spawn.h>
#include <sys/wait.h>

/* The peer sends, and has to get the same back. */
static void check_echo(const char *name, int theirs, const char *text)
{
    char data[64];
    MUST(peer_send(theirs, text, strlen(text), 0));
    long long received = peer_recv(theirs, data, strlen(text), MSG_WAITALL);
    check_bytes(name, data, received, text, strlen(text));
}

static void echo_once(int socket)
{
    char data[64];
    ssize_t received = recv(socket, data, sizeof data, 0);
    if (received > 0)
        received = send(socket, data, (size_t)received, 0);
    _exit(received > 0 ? 0 : 1);
}

static void child_uses(void)
{
    struct pair pair = connected();
    char data[16];
    MUST(peer_send(pair.theirs, "early ", 6, 0));
    MUST(wait_for(pair.ours, POLLIN, PATIENCE_MS));
    pid_t child = (pid_t)MUST(fork());
    if (child == 0) {
        check_bytes("child_reads_what_came_before", data, recv(pair.ours, data, 6, MSG_WAITALL), "early ", 6);
        echo_once(pair.ours);
    }
    MUST(close(pair.ours));
    check_echo("echo_of_child", pair.theirs, "to the child");
    check_int("child_ends", join_process(child), 0);
    check_int("peer_end", peer_recv(pair.theirs, data, 1, 0), 0);
}

static void both_use(void)
{
    struct pair pair = connected();
    char data[16];
    MUST(send(pair.ours, "p1", 2, 0));
    pid_t child = (pid_t)MUST(fork());
    if (child == 0)
        _exit(send(pair.ours, "c1", 2, 0) == 2 ? 0 : 1);
    check_int("child_sends", join_process(child), 0);
    check_int("parent_sends", send(pair.ours, "p2", 2, 0), 2);
    check_bytes("in_order", data, peer_recv(pair.theirs, data, 6, MSG_WAITALL), "p1c1p2", 6);
    MUST(peer_send(pair.theirs, "x", 1, 0));
    check_int("parent_receives", recv(pair.ours, data, 1, 0), 1);
    check_int("close", close(pair.ours), 0);
    check_int("peer_end", peer_recv(pair.theirs, data, 1, 0), 0);
}

static void parent_alone(void)
{
    struct pair pair = connected();
    pid_t child = (pid_t)MUST(fork());
    if (child == 0)
        _exit(close(pair.ours) == 0 ? 0 : 1);
    check_int("child_closes", join_process(child), 0);
    MUST(peer_send(pair.theirs, "still", 5, 0));
    char data[16];
    check_bytes("parent_receives", data, recv(pair.ours, data, sizeof data, 0), "still", 5);
    check_int("parent_sends", send(pair.ours, "here", 4, 0), 4);
    check_bytes("peer_has_it", data, peer_recv(pair.theirs, data, 4, 0), "here", 4);
}

static void child_outlives(void)
{
    struct pair pair = connected();
    pid_t child = (pid_t)MUST(fork());
    if (child == 0) {
        pid_t grandchild = fork();
        if (grandchild == 0) {
            pause_ms(50);
            echo_once(pair.ours);
        }
        _exit(0);
    }
    check_int("child_ends", join_process(child), 0);
    MUST(close(pair.ours));
    check_echo("echo_of_grandchild", pair.theirs, "two forks");
}

static void inherited_listener(void)
{
    int listener = our_listener(8);
    struct sockaddr_storage address = name_of(listener);
    static const char *const echoes[] = {"first_echo", "second_echo"}, *const ends[] = {"first_ends", "second_ends"};
    for (int round = 0; round < 2; round++) {
        pid_t child = (pid_t)MUST(fork());
        if (child == 0)
            echo_once(accept(listener, NULL, NULL));
        int theirs = (int)MUST(peer_socket(family, SOCK_STREAM));
        MUST(peer_connect(theirs, &address, address_length()));
        check_echo(echoes[round], theirs, "pre-forked");
        check_int(ends[round], join_process(child), 0);
    }
    int theirs = (int)MUST(peer_socket(family, SOCK_STREAM));
    MUST(peer_connect(theirs, &address, address_length()));
    check_works("parent_accepts", accept(listener, NULL, NULL));
}

static void forked_server(void)
{
    int listener = our_listener(8);
    struct sockaddr_storage address = name_of(listener);
    pid_t children[3];
    int theirs[3];
    for (int index = 0; index < 3; index++) {
        theirs[index] = (int)MUST(peer_socket(family, SOCK_STREAM));
        MUST(peer_connect(theirs[index], &address, address_length()));
        int ours = (int)MUST(accept(listener, NULL, NULL));
        children[index] = (pid_t)MUST(fork());
        if (children[index] == 0)
            echo_once(ours);
        MUST(close(ours));
    }
    static const char *const names[3][3] = {{"echo_1", "ends_1", "peer_1"}, {"echo_2", "ends_2", "peer_2"}, {"echo_3", "ends_3", "peer_3"}};
    for (int index = 2; index >= 0; index--) {
        check_echo(names[index][0], theirs[index], "one child each");
        check_int(names[index][1], join_process(children[index]), 0);
        check_int(names[index][2], peer_recv(theirs[index], NULL, 1, 0), 0);
    }
}

static void executed(void)
{
    struct pair pair = connected();
    pid_t child = (pid_t)MUST(fork());
    if (child == 0) {
        execv("/proc/self/exe", helper_arguments("echo", pair.ours));
        _exit(96);
    }
    MUST(close(pair.ours));
    check_echo("echo", pair.theirs, "after exec");
    MUST(peer_close(pair.theirs));
    check_int("helper_ends", join_process(child), 0);
    pair = connected();
    MUST(fcntl(pair.ours, F_SETFD, FD_CLOEXEC));
    child = (pid_t)MUST(fork());
    if (child == 0) {
        execv("/proc/self/exe", helper_arguments("closed", pair.ours));
        _exit(96);
    }
    check_int("cloexec_is_closed", join_process(child), 0);
    check_int("parent_sends", send(pair.ours, "p", 1, 0), 1);
    check_int("peer_has_it", peer_recv(pair.theirs, NULL, 1, 0), 1);
}

static void executed_listener(void)
{
    int listener = our_listener(8);
    struct sockaddr_storage address = name_of(listener);
    pid_t child = (pid_t)MUST(fork());
    if (child == 0) {
        execv("/proc/self/exe", helper_arguments("accept", listener));
        _exit(96);
    }
    MUST(close(listener));
    int theirs = (int)MUST(peer_socket(family, SOCK_STREAM));
    MUST(peer_connect(theirs, &address, address_length()));
    check_echo("echo", theirs, "inherited listener");
    MUST(peer_close(theirs));
    check_int("helper_ends", join_process(child), 0);
}

static void spawned(void)
{
    struct pair pair = connected();
    extern char **environ;
    pid_t child;
    errno = posix_spawn(&child, "/proc/self/exe", NULL, NULL, helper_arguments("echo", pair.ours), environ);
    check_int("posix_spawn", errno, 0);
    check_echo("echo", pair.theirs, "spawned");
    check_int("parent_sends", send(pair.ours, "p", 1, 0), 1);
    char byte;
    check_bytes("peer_has_it", &byte, peer_recv(pair.theirs, &byte, 1, 0), "p", 1);
    MUST(peer_close(pair.theirs));
    check_int("helper_ends", join_process(child), 0);
    pair = connected();
    check_int("system", system("exit 7") >> 8, 7);
    check_int("lives_after_system", send(pair.ours, "s", 1, 0), 1);
    check_int("peer_has_that", peer_recv(pair.theirs, &byte, 1, 0), 1);
}

static void executed_by_vfork(void)
{
    static struct pair pair;
    pair = connected();
    char *const *arguments = helper_arguments("echo", pair.ours);
    pid_t child = vfork();
    if (child == 0) {
        execv("/proc/self/exe", arguments);
        _exit(96);
    }
    check_echo("echo", pair.theirs, "vfork");
    MUST(peer_close(pair.theirs));
    check_int("helper_ends", join_process(child), 0);
}

static int send_descriptor(int unix_socket, int passed)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {.head = {.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
    memcpy(CMSG_DATA(&control.head), &passed, sizeof passed);
    struct iovec part = {"d", 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    return (int)sendmsg(unix_socket, &message, 0);
}

static void passed(void)
{
    struct pair pair = connected();
    int ends[2];
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    pid_t child = (pid_t)MUST(fork());
    if (child == 0) {
        execv("/proc/self/exe", helper_arguments("receive", ends[1]));
        _exit(96);
    }
    /* Opened after the fork: only passing gives it to the child. */
    struct pair later = connected();
    MUST(peer_send(later.theirs, "unread", 6, 0));
    MUST(wait_for(later.ours, POLLIN, PATIENCE_MS));
    check_int("sendmsg", send_descriptor(ends[0], later.ours), 1);
    char data[16];
    check_bytes("unread_went_along", data, peer_recv(later.theirs, data, 6, MSG_WAITALL), "unread", 6);
    MUST(close(later.ours));
    check_echo("echo", later.theirs, "passed on");
    MUST(peer_close(later.theirs));
    check_int("helper_ends", join_process(child), 0);
    check_int("other_lives", send(pair.ours, "o", 1, 0), 1);
}

static const struct test tests[] = {
    {"child_uses", child_uses, FAMILIES_AND_ENDS},     {"both_use", both_use, FAMILIES_AND_ENDS},
    {"parent_alone", parent_alone, FAMILIES_AND_ENDS}, {"child_outlives", child_outlives, FAMILIES_AND_ENDS},
    {"inherited_listener", inherited_listener, FAMILIES}, {"forked_server", forked_server, FAMILIES},
    {"executed", executed, FAMILIES_AND_ENDS},         {"executed_listener", executed_listener, FAMILIES},
    {"spawned", spawned, FAMILIES_AND_ENDS},           {"executed_by_vfork", executed_by_vfork, FAMILIES_AND_ENDS},
    {"passed", passed, FAMILIES_AND_ENDS},
};

SUBJECT(processes, tests);
