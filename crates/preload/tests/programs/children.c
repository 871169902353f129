/* Connections that children use: forked ones, those of vfork, and programs that they start. The peer echoes.
 *
 *     children ADDRESS PORT STEP      connects and does the step
 *     children talk NUMBER            talks over a descriptor that it was given
 */
#include "talking.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define SELF "/proc/self/exe"

extern char **environ;

static void join_child(pid_t child)
{
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        fail("child");
}

/* The child waits until the parent has let it go on. */
struct gate {
    int ends[2];
};

static struct gate closed_gate(void)
{
    struct gate gate;
    if (pipe(gate.ends) != 0)
        fail("pipe");
    return gate;
}

static void pass(struct gate *gate)
{
    char byte;
    close(gate->ends[1]);
    if (read(gate->ends[0], &byte, 1) != 0)
        fail("gate");
}

static void open_gate(struct gate *gate)
{
    close(gate->ends[0]);
    close(gate->ends[1]);
}

static void child_connects(void)
{
    pid_t child = fork();
    if (child == 0) {
        int number = dial(0);
        talk(number, "a connection of the child");
        exit(0);
    }
    join_child(child);
    talk(dial(0), "the parent's, when the child has gone");
}

static int connect_answer(int set)
{
    struct epoll_event event = {0};
    int count = epoll_wait(set, &event, 1, 5000);
    return count == 1 && event.events & EPOLLIN ? event.data.fd : -1;
}

/* The set is older than the child, and so is one of its sockets. */
static void child_waits_by_an_older_set(void)
{
    struct addrinfo *peer = find_peer();
    int set = epoll_create1(0), early = socket(peer->ai_family, SOCK_STREAM, 0);
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.fd = early};
    if (early < 0 || epoll_ctl(set, EPOLL_CTL_ADD, early, &event) != 0)
        fail("epoll_ctl");
    pid_t child = fork();
    if (child == 0) {
        if (connect(early, peer->ai_addr, peer->ai_addrlen) != 0 || send(early, "early", 5, 0) != 5)
            fail("connect");
        int got;
        while ((got = connect_answer(set)) == early && recv(early, &(char[8]){0}, 8, MSG_DONTWAIT) < 0)
            ;
        if (got != early)
            fail("the early socket");
        int late = dial(0);
        event.data.fd = late;
        if (epoll_ctl(set, EPOLL_CTL_ADD, late, &event) != 0 || epoll_wait(set, &event, 1, 0) != 0)
            fail("the late socket");
        if (send(late, "late", 4, 0) != 4 || connect_answer(set) != late)
            fail("the late socket's answer");
        exit(0);
    }
    join_child(child);
}

static void child_leaves_it_alone(void)
{
    int number = dial(SOCK_CLOEXEC);
    talk(number, "before");
    for (int round = 0; round < 3; round++) {
        pid_t child = fork();
        if (child == 0)
            _exit(round == 0 ? 0 : round == 1 ? close(number) : execl("/bin/true", "true", (char *)NULL));
        talk(number, "meanwhile");
        join_child(child);
        talk(number, "afterwards");
    }
}

static void child_uses_it(void)
{
    int number = dial(0);
    talk(number, "before");
    pid_t child = fork();
    if (child == 0) {
        struct pollfd list = {.fd = number, .events = POLLIN | POLLOUT};
        if (poll(&list, 1, 5000) != 1 || list.revents != POLLOUT)
            fail("poll");
        talk(number, "in the child");
        _exit(0);
    }
    join_child(child);
    talk(number, "in the parent");
}

static void both_use_it_at_once(void)
{
    int number = dial(0);
    pid_t child = fork();
    if (child == 0) {
        for (int round = 0; round < 200; round++)
            if (send(number, "c", 1, 0) != 1)
                fail("send");
        _exit(0);
    }
    for (int round = 0; round < 200; round++)
        if (send(number, "p", 1, 0) != 1)
            fail("send");
    int count[2] = {0, 0};
    for (int got = 0; got < 400; got++) {
        char byte;
        if (recv(number, &byte, 1, 0) != 1)
            fail("recv");
        count[byte == 'p']++;
    }
    join_child(child);
    if (count[0] != 200 || count[1] != 200)
        fail("count");
}

static void closed_by_parent(pid_t (*divide)(void))
{
    int number = dial(0);
    talk(number, "before");
    struct gate gate = closed_gate();
    pid_t child = divide();
    if (child == 0) {
        pass(&gate);
        talk(number, "in the child");
        _exit(0);
    }
    close(number);
    open_gate(&gate);
    join_child(child);
}

static void parent_closes_it(void)
{
    closed_by_parent(fork);
}

/* _Fork(3) calls no handlers. */
static void parent_closes_it_after_an_untold_fork(void)
{
    closed_by_parent(_Fork);
}

/* A call of another thread on a second number of it, which comes to nothing and ends by itself. */
struct waiting_call {
    int number;
    pthread_t thread;
};

static void limit_receiving(int number, int milliseconds)
{
    struct timeval limit = {.tv_usec = milliseconds * 1000};
    if (setsockopt(number, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) != 0)
        fail("SO_RCVTIMEO");
}

static void *receive_nothing(void *call)
{
    char byte;
    if (recv(((struct waiting_call *)call)->number, &byte, 1, 0) == 1)
        fail("recv");
    return NULL;
}

static void begin_to_wait(struct waiting_call *call, int number)
{
    limit_receiving(number, 500);
    call->number = dup(number);
    if (call->number < 0 || pthread_create(&call->thread, NULL, receive_nothing, call) != 0)
        fail("thread");
    /* It is in the call now, or finds the number closed. */
    usleep(100000);
}

/* All numbers are closed, the call is not over: another process has the connection still. */
static void parent_closes_it_in_a_call(void)
{
    int number = dial(0);
    talk(number, "before");
    struct gate gate = closed_gate();
    pid_t child = fork();
    if (child == 0) {
        pass(&gate);
        limit_receiving(number, 0);
        talk(number, "in the child");
        _exit(0);
    }
    struct waiting_call call;
    begin_to_wait(&call, number);
    close(number);
    close(call.number);
    pthread_join(call.thread, NULL);
    open_gate(&gate);
    join_child(child);
}

/* The end comes with the end of the call, as SO_LINGER has it. The peer greets. */
static void resets_it_in_a_call(void)
{
    int number = dial(0);
    char byte;
    if (recv(number, &byte, 1, 0) != 1)
        fail("recv");
    struct linger at_once = {.l_onoff = 1};
    if (setsockopt(number, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once) != 0)
        fail("SO_LINGER");
    struct waiting_call call;
    begin_to_wait(&call, number);
    close(number);
    close(call.number);
    pthread_join(call.thread, NULL);
    pause();
}

static void parent_replaces_it(void)
{
    int number = dial(0);
    struct gate gate = closed_gate();
    pid_t child = fork();
    if (child == 0) {
        pass(&gate);
        talk(number, "in the child");
        _exit(0);
    }
    if (dup2(gate.ends[1], number) != number)
        fail("dup2");
    close(number);
    open_gate(&gate);
    join_child(child);
}

static void parent_exits(void)
{
    struct gate gate = closed_gate();
    int told[2];
    if (pipe(told) != 0)
        fail("pipe");
    pid_t child = fork();
    if (child == 0) {
        int number = dial(0);
        talk(number, "before");
        if (fork() == 0) {
            pass(&gate);
            int copy = dup(number);
            close(number);
            talk(copy, "an orphan");
            if (write(told[1], "x", 1) != 1)
                fail("write");
            _exit(0);
        }
        exit(0);
    }
    join_child(child);
    open_gate(&gate);
    char byte;
    if (read(told[0], &byte, 1) != 1)
        fail("read");
}

static void other_ways_to_fork(void)
{
    int number = dial(0);
    pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0) {
        talk(number, "after clone(2)");
        _exit(0);
    }
    join_child(child);
    number = dial(0);
    child = _Fork();
    if (child == 0) {
        talk(number, "after _Fork(3)");
        _exit(0);
    }
    join_child(child);
    talk(number, "in the parent");
}

static char *text_of(int number)
{
    static char text[16];
    snprintf(text, sizeof text, "%d", number);
    return text;
}

static void programs_have_it(void)
{
    int number = dial(0);
    talk(number, "before");
    char *bare[] = {"PATH=/bin:/usr/bin", NULL}, *arguments[] = {"talk", "talk", text_of(number), NULL};
    char *self = realpath(SELF, NULL);
    static const char *const ways[] = {"execl", "execle", "execlp", "execv", "execvp", "execvpe", "fexecve", "execveat"};
    for (unsigned way = 0; way < sizeof ways / sizeof *ways; way++) {
        pid_t child = fork();
        if (child == 0) {
            int file = open(self, O_RDONLY | O_CLOEXEC);
            switch (way) {
            case 0: execl(self, "talk", "talk", text_of(number), (char *)NULL); break;
            case 1: execle(self, "talk", "talk", text_of(number), (char *)NULL, bare); break;
            case 2: execlp(self, "talk", "talk", text_of(number), (char *)NULL); break;
            case 3: execv(self, arguments); break;
            case 4: execvp(self, arguments); break;
            case 5: execvpe(self, arguments, bare); break;
            case 6: fexecve(file, arguments, bare); break;
            case 7: execveat(file, "", arguments, bare, AT_EMPTY_PATH); break;
            }
            fail(ways[way]);
        }
        join_child(child);
        talk(number, ways[way]);
        close(number);
        number = dial(0);
    }
}

static void spawned_programs_have_it(void)
{
    int number = dial(0);
    char *arguments[] = {"talk", "talk", text_of(number), NULL}, *self = realpath(SELF, NULL);
    pid_t child;
    if (posix_spawn(&child, self, NULL, NULL, arguments, environ) != 0)
        fail("posix_spawn");
    join_child(child);
    talk(number, "after posix_spawn(3)");
    int other = dial(0);
    char line[4200];
    snprintf(line, sizeof line, "%s talk %d", self, other);
    if (system(line) != 0)
        fail("system");
    talk(other, "after system(3)");
    FILE *stream = popen(line, "r");
    if (stream == NULL || pclose(stream) != 0)
        fail("popen");
    talk(other, "after popen(3)");
}

static void child_of_vfork(void)
{
    int number = dial(SOCK_CLOEXEC);
    char *self = realpath(SELF, NULL), *arguments[] = {"talk", "talk", "0", NULL}, *bare[] = {NULL};
    pid_t child = vfork();
    if (child == 0) {
        dup2(number, 0);
        execve(self, arguments, bare);
        _exit(1);
    }
    join_child(child);
    talk(number, "in the parent");
}

/* Started by exec with a descriptor, under the library or not. */
static void becomes_another(void)
{
    int number = dial(0);
    talk(number, "before");
    execl(SELF, "talk", "talk", text_of(number), (char *)NULL);
    fail("execl");
}

/* What is made in another network namespace has no way to the peer; what was made before goes on. */
static void leaves_the_namespace(void)
{
    struct addrinfo *peer = find_peer();
    int number = dial(0);
    talk(number, "before");
    if (unshare(CLONE_NEWNET) != 0)
        fail("unshare");
    int there = socket(peer->ai_family, SOCK_STREAM, 0);
    if (connect(there, peer->ai_addr, peer->ai_addrlen) == 0 || (errno != ENETUNREACH && errno != EADDRNOTAVAIL))
        fail("connect in another namespace");
    talk(number, "afterwards");
}

static const struct {
    const char *name;
    void (*run)(void);
} steps[] = {
    {"child_connects", child_connects},
    {"child_waits_by_an_older_set", child_waits_by_an_older_set},
    {"child_leaves_it_alone", child_leaves_it_alone},
    {"child_uses_it", child_uses_it},
    {"both_use_it_at_once", both_use_it_at_once},
    {"parent_closes_it", parent_closes_it},
    {"parent_closes_it_in_a_call", parent_closes_it_in_a_call},
    {"resets_it_in_a_call", resets_it_in_a_call},
    {"parent_closes_it_after_an_untold_fork", parent_closes_it_after_an_untold_fork},
    {"parent_replaces_it", parent_replaces_it},
    {"parent_exits", parent_exits},
    {"other_ways_to_fork", other_ways_to_fork},
    {"programs_have_it", programs_have_it},
    {"spawned_programs_have_it", spawned_programs_have_it},
    {"child_of_vfork", child_of_vfork},
    {"becomes_another", becomes_another},
    {"leaves_the_namespace", leaves_the_namespace},
};

int main(int count, char **arguments)
{
    if (count == 3 && strcmp(arguments[1], "talk") == 0) {
        talk(atoi(arguments[2]), "another program");
        return 0;
    }
    if (count != 4)
        return 2;
    address = arguments[1];
    port = arguments[2];
    for (unsigned step = 0; step < sizeof steps / sizeof *steps; step++)
        if (strcmp(arguments[3], steps[step].name) == 0) {
            steps[step].run();
            return 0;
        }
    return 2;
}
