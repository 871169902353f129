/*
 * Return codes of sidestep's C ABI, and their texts. SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Every call returns 0 or a negative SIDESTEP_E* code, except the *_free calls and those that return texts or numbers.
 * On failure nothing is stored through the pointers of the call, unless the call says so. A null pointer is an error
 * (SIDESTEP_EUSAGE) unless the call gives it a meaning. No call unwinds, exits or prints, except for a bug in the
 * library itself, which is printed on standard error and returned as SIDESTEP_EBUG.
 */
#ifndef SIDESTEP_ERROR_H
#define SIDESTEP_ERROR_H

#ifdef __cplusplus
extern "C" {
#endif

/* Return codes besides 0. The codes from ECLOSED to EPEERGONE are those of the rings. */
#define SIDESTEP_EFAILED (-1)    /* refused by the system, or by the state of the object */
#define SIDESTEP_EUSAGE (-2)     /* a null pointer, an unknown choice, a call out of order */
#define SIDESTEP_EFULL (-3)      /* full now */
#define SIDESTEP_EEMPTY (-4)     /* nothing to read now */
#define SIDESTEP_ETOOLONG (-5)   /* longer than the ring or the path allows, or than the claim */
#define SIDESTEP_ECLOSED (-6)    /* the other side has closed (and everything is read) */
#define SIDESTEP_EFAULTY (-7)    /* the other side violated the protocol: this handle does not access the ring any more */
#define SIDESTEP_ETOOSHORT (-8)  /* the buffer is shorter than the message, which stays in the ring */
#define SIDESTEP_ELOST (-9)      /* messages were overwritten unread; the next read resumes after the gap */
#define SIDESTEP_ETIMEDOUT (-10) /* the timeout has passed */
#define SIDESTEP_EPEERGONE (-11) /* the process of the other side has ended without closing; another may take over */
#define SIDESTEP_EBUG (-12)      /* a bug in the library: free the handle */

/* The meaning of a code; the text lives as long as the program. */
const char *sidestep_strerror(int code);

/* The last failure of the calling thread: thing, reason, next step. Empty before the first; a success does not clear
 * it. The text is valid until this thread calls this again or ends. */
const char *sidestep_last_error(void);

/* The errno that a kernel socket would have given for that failure (EAGAIN, ECONNREFUSED ...); 0: none fits. */
int sidestep_last_errno(void);

#ifdef __cplusplus
}
#endif

#endif
