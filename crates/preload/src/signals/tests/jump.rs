//! A handler that leaves by siglongjmp(3), on a stack of its own.

use super::{compiled, real_time, wrapped};
use crate::signals::inside::Inside;
use crate::signals::{is_pending, mask, sigaction};
use libc::{c_int, sigaction as SignalAction};

const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
static __thread sigjmp_buf place;
static __thread char *lowest;
static __thread volatile int jumps;
static void handler(int signal) {
    char here;
    if (&here < lowest || &here >= lowest + 65536) abort(); /* not on the stack that was asked for */
    siglongjmp(place, 1);
}
int jump(int signal, int times, int (*act)(int, const struct sigaction *, struct sigaction *), void (*raise_inside)(int)) {
    struct sigaction action = { .sa_handler = handler, .sa_flags = SA_ONSTACK };
    stack_t stack = { .ss_sp = lowest = malloc(65536), .ss_size = 65536 };
    if (sigaltstack(&stack, 0) || act(signal, &action, 0)) return -1;
    for (jumps = 0; jumps < times; jumps++)
        if (!sigsetjmp(place, 1)) { raise_inside(signal); return -2; }
    stack.ss_flags = SS_DISABLE;
    sigaltstack(&stack, 0);
    return jumps;
}
"#;

type Act = unsafe extern "C-unwind" fn(c_int, *const SignalAction, *mut SignalAction) -> c_int;
type Jump = unsafe extern "C-unwind" fn(c_int, c_int, Act, unsafe extern "C-unwind" fn(c_int)) -> c_int;

/// The frame has nothing but the guard, whose drop the handler leaves.
unsafe extern "C-unwind" fn raise_inside(signal: c_int) {
    let _inside = Inside::enter();
    super::raise(signal);
}

#[test]
fn a_handler_jumps_out_of_the_call_that_it_interrupts() {
    wrapped();
    // SAFETY: the function of the source has this type.
    let jump: Jump = unsafe { std::mem::transmute(compiled(SOURCE, "jump")) };
    let signal = real_time(11);
    // SAFETY: the functions are those that the source calls.
    assert_eq!(unsafe { jump(signal, 10_000, sigaction, raise_inside) }, 10_000);
    assert!(!Inside::is_entered() && !is_pending());
    assert_eq!(mask::change(libc::SIG_BLOCK, 0) & mask::bit(signal), 0);
}
