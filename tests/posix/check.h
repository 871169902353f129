/* Assertions: each prints one line of TAP, "ok NAME" or "not ok NAME expected ... got ...". */
#ifndef CHECK_H
#define CHECK_H

#include <stdbool.h>
#include <stddef.h>

/* The prefix of the names of the assertions that follow. */
void check_prefix(const char *prefix);

void check_int(const char *name, long long got, long long expected);
void check_true(const char *name, bool holds);
void check_bytes(const char *name, const void *got, long long got_length, const void *expected, size_t length);
/* The call that returned `result` just now failed with this errno. */
void check_fails(const char *name, long long result, int expected_errno);
/* The call that returned `result` just now did not fail. */
void check_works(const char *name, long long result);

/* Ends the test as failed where the next step of it cannot be taken. Main thread only. */
#define MUST(call) must((long long)(call), #call, __FILE__, __LINE__)
long long must(long long result, const char *call, const char *file, int line);

/* Runs `test`; returns whether it came to its end. */
bool check_run(void (*test)(void));

/* The name of an errno, "0" for none. */
const char *errno_name(int error);

#endif
