//! A handler never runs inside of the engine, and each signal is handled once, with its siginfo.

use super::{install, raise, real_time};
use crate::signals::inside::Inside;
use crate::signals::{has_handled, is_pending, mask, may_restart, with_mask};
use libc::{c_int, c_void, siginfo_t, sigval};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;

/// Real-time signals of one storm.
const STORM: u64 = 50_000;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
    static SEEN_COUNT: Cell<usize> = const { Cell::new(0) };
}

static ERRORS: AtomicU64 = AtomicU64::new(0);

/// Counts in the thread that it interrupts.
unsafe extern "C-unwind" fn count(_: c_int, _: *mut siginfo_t, _: *mut c_void) {
    ERRORS.fetch_add(u64::from(Inside::is_entered()), Ordering::Relaxed);
    COUNT.set(COUNT.get() + 1);
}

/// Checks that siginfo says who sent it, and that each value comes once, in order. Makes a call into the engine, too.
unsafe extern "C-unwind" fn once_each(_: c_int, info: *mut siginfo_t, _: *mut c_void) {
    // SAFETY: the kernel gives a siginfo of sigqueue(3).
    let (code, pid, value) = unsafe { ((*info).si_code, (*info).si_pid(), (*info).si_value().sival_ptr as usize) };
    let is_next = value == SEEN_COUNT.get();
    let is_right = code == libc::SI_QUEUE && pid as u32 == std::process::id() && is_next;
    ERRORS.fetch_add(u64::from(!is_right || Inside::is_entered()), Ordering::Relaxed);
    SEEN_COUNT.set(SEEN_COUNT.get() + 1);
    drop(Inside::enter());
}

thread_local! {
    static ORDER: Cell<u64> = const { Cell::new(0) };
}

/// Appends the value as a decimal digit.
unsafe extern "C-unwind" fn in_order(_: c_int, info: *mut siginfo_t, _: *mut c_void) {
    // SAFETY: the kernel gives a siginfo of sigqueue(3).
    let value = unsafe { (*info).si_value() }.sival_ptr as u64;
    ORDER.set(ORDER.get() * 10 + value);
}

/// Queues a value to this thread.
fn raise_value(signal: c_int, value: usize) {
    // SAFETY: pthread_self(3) has no conditions, and this thread lives.
    let result = unsafe { pthread_sigqueue(libc::pthread_self(), signal, sigval { sival_ptr: value as *mut c_void }) };
    assert_eq!(result, 0);
}

#[test]
fn deferred_real_time_signals_of_one_number_are_handled_in_their_order() {
    let signal = real_time(11);
    install(signal, in_order, 0);
    // The second and third are queued before the first is delivered.
    let before = mask::change(libc::SIG_BLOCK, mask::bit(signal));
    (1..=3).for_each(|value| raise_value(signal, value));
    let inside = Inside::enter();
    mask::change(libc::SIG_SETMASK, before);
    raise_value(signal, 4);
    assert_eq!(ORDER.get(), 0);
    drop(inside);
    assert_eq!(ORDER.get(), 1234);
    raise_value(signal, 5);
    assert_eq!(ORDER.get(), 12345, "nothing is held any more");
}

/// The token of a held signal is discarded with the others.
#[test]
fn a_held_signal_does_not_swallow_another_after_its_token_was_discarded() {
    let signal = real_time(12);
    install(signal, in_order, 0);
    let inside = Inside::enter();
    raise_value(signal, 1);
    // SAFETY: the actions are valid.
    unsafe { crate::signals::calls::signal(signal, libc::SIG_IGN) };
    install(signal, in_order, 0);
    drop(inside);
    assert_eq!(ORDER.get(), 0);
    raise_value(signal, 2);
    raise_value(signal, 3);
    assert_eq!(ORDER.get() % 100, 23);
}

/// Enters and leaves, also two deep, until told to stop.
fn enter_and_leave(until: impl Fn() -> bool) {
    while !until() {
        for _ in 0..1000 {
            let _outer = Inside::enter();
            let _inner = Inside::enter();
        }
    }
}

#[test]
fn a_storm_of_queued_signals_is_handled_outside_of_the_engine() {
    let signal = real_time(5);
    install(signal, once_each, libc::SA_RESTART);
    let (sender, receiver) = mpsc::channel();
    let target = thread::spawn(move || {
        // SAFETY: pthread_self(3) has no conditions.
        sender.send(unsafe { libc::pthread_self() } as usize).expect("the test waits");
        enter_and_leave(|| SEEN_COUNT.get() == STORM as usize);
    });
    let thread = receiver.recv().expect("the thread tells its number");
    for value in 0..STORM {
        let value = sigval { sival_ptr: value as *mut c_void };
        // SAFETY: the thread runs until it has all of them.
        while unsafe { pthread_sigqueue(thread as libc::pthread_t, signal, value) } == libc::EAGAIN {
            thread::yield_now();
        }
    }
    target.join().expect("the thread ends");
    assert_eq!(ERRORS.load(Ordering::Relaxed), 0);
}

#[test]
fn the_signals_of_a_timer_to_a_thread_are_handled() {
    let signal = real_time(6);
    install(signal, count, 0);
    // SAFETY: zeroes are an event; the fields that count are set.
    let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
    (event.sigev_notify, event.sigev_signo) = (libc::SIGEV_THREAD_ID, signal);
    // SAFETY: gettid(2) has no conditions.
    event.sigev_notify_thread_id = unsafe { libc::gettid() };
    let every = libc::timespec { tv_sec: 0, tv_nsec: 50_000 };
    let mut timer = std::ptr::null_mut();
    // SAFETY: all places are valid.
    unsafe {
        assert_eq!(libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer), 0);
        let set = libc::itimerspec { it_interval: every, it_value: every };
        assert_eq!(libc::timer_settime(timer, 0, &raw const set, std::ptr::null_mut()), 0);
    }
    enter_and_leave(|| COUNT.get() >= 2000);
    // SAFETY: it was created.
    unsafe { libc::timer_delete(timer) };
    assert_eq!(ERRORS.load(Ordering::Relaxed), 0);
}

#[test]
fn a_standard_signal_that_comes_twice_inside_is_handled_once_and_another_time_later() {
    install(libc::SIGUSR1, count, 0);
    for handled in 1..=3 {
        let inside = Inside::enter();
        raise(libc::SIGUSR1);
        assert!(is_pending() && !has_handled());
        raise(libc::SIGUSR1);
        assert_eq!(COUNT.get(), handled - 1);
        drop(inside);
        assert_eq!(COUNT.get(), handled);
        assert!(!is_pending() && has_handled());
        // Nothing is left blocked.
        assert_eq!(mask::change(libc::SIG_BLOCK, 0) & mask::bit(libc::SIGUSR1), 0);
    }
}

#[test]
fn a_call_restarts_only_if_all_handlers_let_it() {
    let (restarts, interrupts) = (real_time(7), real_time(8));
    install(restarts, count, libc::SA_RESTART);
    install(interrupts, count, 0);
    for (signals, may) in
        [(vec![], true), (vec![restarts], true), (vec![interrupts], false), (vec![restarts, interrupts], false)]
    {
        let inside = Inside::enter();
        signals.iter().for_each(|signal| raise(*signal));
        drop(inside);
        assert_eq!((has_handled(), may_restart()), (!signals.is_empty(), may), "{signals:?}");
    }
}

/// Its handler makes a call, whose own signals are none of the interrupted call's.
#[test]
fn the_calls_of_a_handler_leave_the_interrupted_call_its_signals() {
    let signal = real_time(9);
    unsafe extern "C-unwind" fn call(_: c_int, _: *mut siginfo_t, _: *mut c_void) {
        drop(Inside::enter());
    }
    install(signal, call, 0);
    let inside = Inside::enter();
    raise(signal);
    drop(inside);
    assert!(has_handled() && !may_restart());
}

#[test]
fn a_fault_is_handled_at_once() {
    let reads = Inside::enter();
    static HANDLED_INSIDE: AtomicBool = AtomicBool::new(false);
    /// Makes the page readable, so that the instruction succeeds.
    unsafe extern "C-unwind" fn mend(_: c_int, info: *mut siginfo_t, _: *mut c_void) {
        HANDLED_INSIDE.store(Inside::is_entered(), Ordering::SeqCst);
        // SAFETY: the address is in the page that the test has mapped.
        unsafe { libc::mprotect((*info).si_addr(), 4096, libc::PROT_READ) };
    }
    install(libc::SIGSEGV, mend, 0);
    // SAFETY: a new page, which the handler makes readable.
    let value = unsafe {
        let page =
            libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0);
        page.cast::<u8>().read_volatile()
    };
    assert_eq!(value, 0);
    assert!(HANDLED_INSIDE.load(Ordering::SeqCst));
    drop(reads);
}

#[test]
fn a_signal_that_only_the_mask_of_a_wait_admits_interrupts_it_and_is_handled_before_its_end() {
    let signal = real_time(10);
    install(signal, count, 0);
    let before = mask::change(libc::SIG_BLOCK, mask::bit(signal));
    raise(signal);
    // SAFETY: zeroes are the empty set.
    let empty: libc::sigset_t = unsafe { std::mem::zeroed() };
    let wait = || {
        assert_eq!((is_pending(), COUNT.get()), (true, 0));
        Err::<(), _>(rustix::io::Errno::INTR)
    };
    // SAFETY: the mask is valid.
    assert!(unsafe { with_mask(&raw const empty, wait) }.is_err());
    assert_eq!((COUNT.get(), has_handled()), (1, true));
    assert_ne!(mask::change(libc::SIG_SETMASK, before) & mask::bit(signal), 0, "it is blocked again");
}

unsafe extern "C" {
    fn pthread_sigqueue(thread: libc::pthread_t, signal: c_int, value: sigval) -> c_int;
}
