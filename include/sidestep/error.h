/*
 * What the calls of sidestep's C ABI answer, and the words for it. SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Every call returns 0 or a negative SIDESTEP_E* code, but for the *_free calls and those that return words or numbers.
 * On failure nothing is stored through the pointers of the call, unless the call says so. A null pointer is an error
 * (SIDESTEP_EUSAGE) where the call gives it no meaning. No call unwinds, exits or prints, other than for a mistake in
 * the library itself, which is told on standard error and answered by SIDESTEP_EBUG.
 */
#ifndef SIDESTEP_ERROR_H
#define SIDESTEP_ERROR_H

#ifdef __cplusplus
extern "C" {
#endif

/* What calls return besides 0. The codes from ECLOSED to EPEERGONE are of the rings alone. */
#define SIDESTEP_EFAILED (-1)    /* the system, or the state of what was called, refused */
#define SIDESTEP_EUSAGE (-2)     /* a null pointer, an unknown choice, a call out of order */
#define SIDESTEP_EFULL (-3)      /* no room now */
#define SIDESTEP_EEMPTY (-4)     /* nothing to read now */
#define SIDESTEP_ETOOLONG (-5)   /* longer than what the ring or the path takes, or than what was claimed */
#define SIDESTEP_ECLOSED (-6)    /* the other side has closed (and everything is read) */
#define SIDESTEP_EFAULTY (-7)    /* the other side wrote what no peer writes: this handle touches the ring no more */
#define SIDESTEP_ETOOSHORT (-8)  /* the buffer is shorter than the message, which stays where it is */
#define SIDESTEP_ELOST (-9)      /* messages were overwritten unread; the next read goes on behind the gap */
#define SIDESTEP_ETIMEDOUT (-10) /* the time is over */
#define SIDESTEP_EPEERGONE (-11) /* the process of the other side has ended without closing; another may come */
#define SIDESTEP_EBUG (-12)      /* a mistake in the library: free the handle */

/* What a code means; lives as long as the program. */
const char *sidestep_strerror(int code);

/* The last failure of the calling thread: thing, reason, next step. Empty before the first; a success does not clear
 * it. The text is valid until this thread asks again or ends. */
const char *sidestep_last_error(void);

/* The errno that a socket of the kernel would have given for that failure (EAGAIN, ECONNREFUSED ...); 0: none fits. */
int sidestep_last_errno(void);

#ifdef __cplusplus
}
#endif

#endif
