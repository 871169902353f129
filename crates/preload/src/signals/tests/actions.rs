//! The program reads back what it set, and the kernel does what it said.

use super::{action, install, raise, read_back, real_time, wrapped};
use crate::signals::{calls, sigaction};
use crate::table::real;
use libc::{c_int, c_void, siginfo_t};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};

static RUNS: AtomicUsize = AtomicUsize::new(0);
static NESTED: AtomicUsize = AtomicUsize::new(0);
static RAISED: AtomicUsize = AtomicUsize::new(0);
static DEEPEST: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C-unwind" fn count(_: c_int, _: *mut siginfo_t, _: *mut c_void) {
    RUNS.fetch_add(1, Ordering::SeqCst);
}

/// Raises its signal again, twice in all.
unsafe extern "C-unwind" fn nest(signal: c_int, _: *mut siginfo_t, _: *mut c_void) {
    let depth = NESTED.fetch_add(1, Ordering::SeqCst) + 1;
    DEEPEST.fetch_max(depth, Ordering::SeqCst);
    if RAISED.fetch_add(1, Ordering::SeqCst) < 2 {
        raise(signal);
    }
    NESTED.fetch_sub(1, Ordering::SeqCst);
}

#[test]
fn an_action_is_read_back_as_it_was_set_and_the_kernel_has_our_handler() {
    let signal = real_time(0);
    wrapped();
    for flags in [
        0,
        libc::SA_RESTART,
        libc::SA_SIGINFO,
        libc::SA_NODEFER | libc::SA_ONSTACK,
        libc::SA_RESETHAND | libc::SA_RESTART,
        libc::SA_RESETHAND | libc::SA_NODEFER | libc::SA_SIGINFO,
    ] {
        let mut set = action(count as *const () as usize, flags);
        // SAFETY: the set is valid.
        unsafe { libc::sigaddset(&raw mut set.sa_mask, libc::SIGUSR2) };
        // SAFETY: the action is valid.
        assert_eq!(unsafe { sigaction(signal, &raw const set, null_mut()) }, 0);
        let read = read_back(signal);
        assert_eq!(
            (read.sa_sigaction, read.sa_flags & !0x0400_0000),
            (count as *const () as usize, flags),
            "but for SA_RESTORER"
        );
        // SAFETY: the set is valid.
        assert_eq!(unsafe { libc::sigismember(&raw const read.sa_mask, libc::SIGUSR2) }, 1);
        let mut kernel = action(0, 0);
        // SAFETY: the place is valid.
        assert_eq!(unsafe { real::sigaction(signal, std::ptr::null(), &raw mut kernel) }, 0);
        assert_ne!(kernel.sa_sigaction, count as *const () as usize);
    }
    for default in [libc::SIG_IGN, libc::SIG_DFL] {
        let (set, mut old) = (action(default, 0), action(0, 0));
        // SAFETY: both are valid.
        assert_eq!(unsafe { sigaction(signal, &raw const set, &raw mut old) }, 0);
        assert_eq!(read_back(signal).sa_sigaction, default);
    }
    // SAFETY: null is no action, and the kernel refuses the numbers.
    let refused = [0, 65, libc::SIGKILL]
        .map(|signal| unsafe { sigaction(signal, &action(count as *const () as usize, 0), null_mut()) });
    assert_eq!(refused, [-1; 3]);
}

#[test]
fn a_handler_that_runs_once_leaves_the_default_action() {
    // The default action of SIGURG is to ignore it.
    install(libc::SIGURG, count, libc::SA_RESETHAND | libc::SA_RESTART);
    let before = RUNS.load(Ordering::SeqCst);
    raise(libc::SIGURG);
    raise(libc::SIGURG);
    assert_eq!(RUNS.load(Ordering::SeqCst) - before, 1);
    let after = read_back(libc::SIGURG);
    assert_eq!((after.sa_sigaction, after.sa_flags & libc::SA_RESTART), (libc::SIG_DFL, libc::SA_RESTART));
}

#[test]
fn a_signal_nests_in_its_handler_only_with_nodefer() {
    for (index, flags, deepest) in [(1, libc::SA_NODEFER, 3), (2, 0, 1)] {
        [&DEEPEST, &RAISED].iter().for_each(|count| count.store(0, Ordering::SeqCst));
        install(real_time(index), nest, flags);
        raise(real_time(index));
        assert_eq!((DEEPEST.load(Ordering::SeqCst), RAISED.load(Ordering::SeqCst)), (deepest, 3));
    }
}

#[test]
fn the_elder_calls_set_their_flags() {
    wrapped();
    let (handler, signal) = (count as *const () as usize, libc::SIGWINCH);
    let flags = |signal| read_back(signal).sa_flags & (libc::SA_RESTART | libc::SA_RESETHAND | libc::SA_NODEFER);
    // SAFETY: the handler is one.
    unsafe {
        assert_eq!(calls::signal(signal, handler), libc::SIG_DFL);
        assert_eq!(flags(signal), libc::SA_RESTART);
        assert_eq!(calls::siginterrupt(signal, 1), 0);
        assert_eq!(flags(signal), 0);
        assert_eq!(calls::signal(signal, handler), handler);
        assert_eq!(flags(signal), 0, "siginterrupt(3) holds for later calls of signal(2)");
        assert_eq!(calls::siginterrupt(signal, 0), 0);
        assert_eq!(calls::sysv_signal(signal, handler), handler);
        assert_eq!(flags(signal), libc::SA_RESETHAND | libc::SA_NODEFER);
        assert_eq!(calls::sigset(signal, handler), handler);
        assert_eq!(calls::sigset(signal, 2), handler, "SIG_HOLD");
        assert_eq!(calls::sigset(signal, handler), 2, "it was held");
        assert_eq!(calls::sigignore(signal), 0);
        assert_eq!(calls::signal(signal, libc::SIG_DFL), libc::SIG_IGN);
        assert_eq!(calls::signal(signal, libc::SIG_ERR), libc::SIG_ERR);
        assert_eq!((calls::signal(65, handler), calls::siginterrupt(65, 1)), (libc::SIG_ERR, -1));
    }
}
