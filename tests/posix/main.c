/*
 * A program that asserts what Linux's sockets do, errno for errno, in terms of the socket calls alone.
 *
 *     conformance peer CONTROL
 *     conformance run CONTROL OUR_IPV4 OUR_IPV6 PEER_IPV4 PEER_IPV6 [PART_OF_A_NAME]
 *
 * The peer makes the calls of the other end. It may run in another network namespace: CONTROL is the path of a Unix socket.
 * Each test runs in a process of its own, which may die or hang.
 */
#include "fixture.h"
#include "subjects.h"

#include <sys/wait.h>
#include <time.h>

/* One line in this time, or the worker hangs. */
#define HANG_MS 20000

static char **worker_arguments;

struct run {
    const struct subject *subject;
    const struct test *test;
    int family;
    bool is_active;
};

static size_t runs_of(const struct test *test)
{
    return (test->variants & FAMILIES ? 2 : 1) * (test->variants & ENDS ? 2 : 1);
}

/* The `index`th run of all; false behind the last. */
static bool run_at(size_t index, struct run *run)
{
    for (size_t subject = 0; subject < SUBJECT_COUNT; subject++)
        for (size_t test = 0; test < subjects[subject]->count; test++) {
            const struct test *found = &subjects[subject]->tests[test];
            if (index >= runs_of(found)) {
                index -= runs_of(found);
                continue;
            }
            bool is_six = found->variants & FAMILIES && index % 2;
            bool is_passive = found->variants & ENDS && (found->variants & FAMILIES ? index / 2 : index);
            *run = (struct run){subjects[subject], found, is_six ? AF_INET6 : AF_INET, !is_passive};
            return true;
        }
    return false;
}

static void name_run(const struct run *run, char *name, size_t length)
{
    const char *family_name = !(run->test->variants & FAMILIES) ? "" : run->family == AF_INET ? ".ipv4" : ".ipv6";
    const char *end = !(run->test->variants & ENDS) ? "" : run->is_active ? ".active" : ".passive";
    snprintf(name, length, "%s.%s%s%s", run->subject->name, run->test->name, family_name, end);
}

static void work_one(const struct run *run, const char *control)
{
    family = run->family;
    is_active = run->is_active;
    if (peer_open(control) == -1) {
        perror(control);
        exit(2);
    }
    if (check_run(run->test->run))
        check_works("ends", 0);
    peer_close_all();
}

static int work(size_t index, const char *control)
{
    struct run run;
    char name[128];
    if (!run_at(index, &run))
        return 2;
    name_run(&run, name, sizeof name);
    check_prefix(name);
    dprintf(STDOUT_FILENO, "# %s pid %d\n", name, (int)getpid());
    work_one(&run, control);
    return 0;
}

static pid_t start_worker(size_t index, int *lines)
{
    char number[16];
    int ends[2];
    snprintf(number, sizeof number, "%zu", index);
    worker_arguments[1] = "work";
    worker_arguments[2] = number;
    if (pipe2(ends, O_CLOEXEC) == -1)
        exit(2);
    pid_t worker = fork();
    if (worker == 0) {
        setpgid(0, 0);
        dup2(ends[1], STDOUT_FILENO);
        execv("/proc/self/exe", worker_arguments);
        _exit(97);
    }
    close(ends[1]);
    *lines = ends[0];
    return worker;
}

/* Passes the worker's lines on until it ends; returns whether it hung. */
static bool pass_on(FILE *lines)
{
    char line[1024];
    for (;;) {
        /* The stream is unbuffered, so that poll sees all that is unread. */
        if (wait_for(fileno(lines), POLLIN, HANG_MS) == 0)
            return true;
        if (!fgets(line, sizeof line, lines))
            return false;
        fputs(line, stdout);
        fflush(stdout);
    }
}

static void tell_end(const char *name, bool is_hung, int status)
{
    if (is_hung)
        printf("not ok %s.ends expected an end got none in %d s\n", name, HANG_MS / 1000);
    else if (WIFSIGNALED(status))
        printf("not ok %s.ends expected an end got signal %s\n", name, sigabbrev_np(WTERMSIG(status)));
    else
        printf("not ok %s.ends expected an end got exit code %d\n", name, WEXITSTATUS(status));
    fflush(stdout);
}

static void supervise_one(size_t index, const char *name)
{
    int descriptor, status;
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    pid_t worker = start_worker(index, &descriptor);
    FILE *lines = fdopen(descriptor, "r");
    setvbuf(lines, NULL, _IONBF, 0);
    bool is_hung = pass_on(lines);
    if (is_hung)
        kill(-worker, SIGKILL);
    waitpid(worker, &status, 0);
    kill(-worker, SIGKILL);
    fclose(lines);
    if (is_hung || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
        tell_end(name, is_hung, status);
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("# took %lld ms\n", (end.tv_sec - begin.tv_sec) * 1000LL + (end.tv_nsec - begin.tv_nsec) / 1000000);
}

static int supervise(const char *part)
{
    struct run run;
    char name[128];
    for (size_t index = 0; run_at(index, &run); index++) {
        name_run(&run, name, sizeof name);
        if (!part || strstr(name, part))
            supervise_one(index, name);
    }
    return 0;
}

int main(int count, char **arguments)
{
    if (count == 3 && strcmp(arguments[1], "peer") == 0)
        return peer_serve(arguments[2]);
    if (count >= 3 && strcmp(arguments[1], "helper") == 0)
        return helper(count - 2, arguments + 2);
    bool is_work = count >= 8 && strcmp(arguments[1], "work") == 0;
    if (is_work) {
        fixture_addresses((const char *const[]){arguments[4], arguments[5], arguments[6], arguments[7]});
        return work(strtoul(arguments[2], NULL, 10), arguments[3]);
    }
    if (count < 7 || strcmp(arguments[1], "run") != 0) {
        fprintf(stderr, "usage: %s peer CONTROL | run CONTROL OUR_IPV4 OUR_IPV6 PEER_IPV4 PEER_IPV6 [PART_OF_A_NAME]\n",
                arguments[0]);
        return 2;
    }
    /* The worker's: NAME work NUMBER CONTROL ..., one more than ours. */
    worker_arguments = calloc((size_t)count + 2, sizeof *worker_arguments);
    worker_arguments[0] = arguments[0];
    memcpy(worker_arguments + 3, arguments + 2, sizeof *arguments * (size_t)(count - 2));
    return supervise(arguments[7]);
}
