//! A thread is cancelled in a wait of the engine, unless it has disabled that.

use super::compiled;
use crate::signals::cancellation::{point, pthread_cancel};
use crate::signals::inside::Inside;
use crate::signals::{is_pending, with_waker};
use libc::{c_int, pthread_t};
use sidestep_socket::shared::Waker;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Cancels threads that wait; returns how many were not cancelled as they should be.
const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
struct call { void (*wait)(int *); int asleep, cleaned, disabled, passed; };
static void clean(void *call) { ((struct call *)call)->cleaned = 1; }
static void *run(void *argument) {
    struct call *call = argument;
    int state;
    pthread_cleanup_push(clean, call);
    if (call->disabled) pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    call->wait(&call->asleep);
    if (call->disabled) {
        call->passed = 1;
        pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state);
        pthread_testcancel();
    }
    pthread_cleanup_pop(0);
    return 0;
}
int cancel(int times, int disabled, void (*wait)(int *), int (*cancel)(pthread_t)) {
    int wrong = 0;
    for (int i = 0; i < times; i++) {
        struct call *call = calloc(1, sizeof *call);
        pthread_t thread;
        void *result;
        call->wait = wait; call->disabled = disabled;
        pthread_create(&thread, 0, run, call);
        while ((i % 2 || disabled) && !__atomic_load_n(&call->asleep, __ATOMIC_SEQ_CST)) usleep(10);
        cancel(thread);
        pthread_join(thread, &result);
        wrong += result != PTHREAD_CANCELED || !call->cleaned || call->passed != disabled;
        free(call);
    }
    return wrong;
}
"#;

type Wait = unsafe extern "C-unwind" fn(*mut c_int);
type Cancel = unsafe extern "C-unwind" fn(c_int, c_int, Wait, unsafe extern "C-unwind" fn(pthread_t) -> c_int) -> c_int;

/// Values that were dropped when their thread was cancelled.
static DROPPED: AtomicUsize = AtomicUsize::new(0);

struct Held;

impl Drop for Held {
    fn drop(&mut self) {
        DROPPED.fetch_add(1, Ordering::SeqCst);
    }
}

/// A blocking call of the engine: it holds something, and ends by a cancellation alone.
unsafe extern "C-unwind" fn blocking_call(asleep: *mut c_int) {
    point();
    wait_inside(asleep);
    point();
}

fn wait_inside(asleep: *mut c_int) {
    let _inside = Inside::enter();
    let _held = Held;
    let waker = Waker::new().expect("an eventfd");
    with_waker(&waker, || {
        // SAFETY: the caller's frame has the place.
        unsafe { AtomicBool::from_ptr(asleep.cast()) }.store(true, Ordering::SeqCst);
        while !is_pending() {
            std::thread::yield_now();
        }
    });
}

#[test]
fn threads_are_cancelled_in_a_wait_of_the_engine_after_what_it_held_was_dropped() {
    // SAFETY: the function of the source has this type.
    let cancel: Cancel = unsafe { std::mem::transmute(compiled(SOURCE, "cancel")) };
    for disabled in [0, 1] {
        // SAFETY: the functions are those that the source calls.
        assert_eq!(unsafe { cancel(500, disabled, blocking_call, pthread_cancel) }, 0);
    }
    // Some were cancelled before they held anything.
    assert!(DROPPED.load(Ordering::SeqCst) >= 750);
}
