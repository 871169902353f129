#include "check.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char prefix[128];
static jmp_buf end_of_test;
static pthread_t main_thread;
static pid_t main_process;

void check_prefix(const char *text)
{
    snprintf(prefix, sizeof prefix, "%s", text);
}

/* One write(2) per line: threads and child processes print, too. */
static void say(bool holds, const char *name, const char *details)
{
    char line[512];
    int length = snprintf(line, sizeof line, "%s %s.%s%s\n", holds ? "ok" : "not ok", prefix, name, details);
    if (length > (int)sizeof line - 1)
        length = sizeof line - 1;
    if (write(STDOUT_FILENO, line, (size_t)length) != length)
        abort();
}

const char *errno_name(int error)
{
    return error == 0 ? "0" : strerrorname_np(error) ? strerrorname_np(error) : "unknown";
}

void check_int(const char *name, long long got, long long expected)
{
    int error = errno;
    char details[128] = "";
    if (got != expected)
        snprintf(details, sizeof details, " expected %lld got %lld%s%s", expected, got, got == -1 ? " " : "",
                 got == -1 ? errno_name(error) : "");
    say(got == expected, name, details);
}

void check_true(const char *name, bool holds)
{
    say(holds, name, holds ? "" : " expected true got false");
}

void check_bytes(const char *name, const void *got, long long got_length, const void *expected, size_t length)
{
    int error = errno;
    char details[128] = "";
    bool holds = got_length == (long long)length && memcmp(got, expected, length) == 0;
    if (got_length != (long long)length)
        snprintf(details, sizeof details, " expected %zu bytes got %lld%s%s", length, got_length,
                 got_length == -1 ? " " : "", got_length == -1 ? errno_name(error) : "");
    else if (!holds)
        snprintf(details, sizeof details, " expected \"%.*s\" got \"%.*s\"", (int)(length > 24 ? 24 : length),
                 (const char *)expected, (int)(length > 24 ? 24 : length), (const char *)got);
    say(holds, name, details);
}

void check_fails(const char *name, long long result, int expected_errno)
{
    int error = errno;
    char details[128] = "";
    bool holds = result == -1 && error == expected_errno;
    if (result != -1)
        snprintf(details, sizeof details, " expected %s got %lld", errno_name(expected_errno), result);
    else if (!holds)
        snprintf(details, sizeof details, " expected %s got %s", errno_name(expected_errno), errno_name(error));
    say(holds, name, details);
}

void check_works(const char *name, long long result)
{
    int error = errno;
    char details[64] = "";
    if (result == -1)
        snprintf(details, sizeof details, " expected success got %s", errno_name(error));
    say(result != -1, name, details);
}

long long must(long long result, const char *call, const char *file, int line)
{
    if (result != -1)
        return result;
    int error = errno;
    char details[256];
    const char *base = strrchr(file, '/');
    snprintf(details, sizeof details, " expected success got %s from %.120s at %s:%d", errno_name(error), call,
             base ? base + 1 : file, line);
    say(false, "step", details);
    if (getpid() != main_process || !pthread_equal(pthread_self(), main_thread))
        _exit(99);
    longjmp(end_of_test, 1);
}

bool check_run(void (*test)(void))
{
    main_thread = pthread_self();
    main_process = getpid();
    if (setjmp(end_of_test) != 0)
        return false;
    test();
    return true;
}
