//! The helper thread: it polls the engine when no thread of the program does.
//!
//! While threads of the program poll, it must cost them nothing: no call wakes it, and it does not sleep on the AF_XDP socket, which
//! would wake it for each packet. It looks at the time of their last poll instead: after a millisecond at first, and every eight while
//! they go on, for on a host with few CPUs each look interrupts a thread that spins. When they have stopped it
//! leads: it sleeps on the engine's descriptors until the next packet or timer. While a thread of the program sleeps there, it
//! looks now and then; once it finds the same thread twice it sleeps for good, and whoever leaves that place wakes it.

use super::Shared;
use super::wait::{Slept, poll_all};
use sidestep_control_api::heartbeat::monotonic_ns;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// After a poll of the program for this long the engine is in its hands.
const ACTIVE: Duration = Duration::from_millis(1);

/// The longest time between two looks while the program polls: an ACK of what comes after it has stopped may be late by that, which
/// RFC 9293 (section 3.8.6.3) allows for half a second.
const ACTIVE_MAX: Duration = Duration::from_millis(8);

/// Between two looks while a thread of the program sleeps on the engine's descriptors.
const LED: Duration = Duration::from_millis(20);

/// The sleep for good: a leader polls more often than that, and wakes the helper when it leaves.
const PARKED: Duration = Duration::from_secs(60);

/// The next sleep.
enum Rest {
    /// On the engine's descriptors.
    Lead(Duration),
    /// Until woken, or for so long.
    Aside(Duration),
}

/// What the helper remembers of its last looks.
struct Looks {
    /// The sleeping thread that led.
    leader: Option<u64>,
    /// Wake-ups that were not counted yet.
    wake_ups: u64,
    /// The time until the next look, if the program polls.
    pause: Duration,
}

pub(super) fn run(shared: &Shared) {
    let mut looks = Looks { leader: None, wake_ups: 0, pause: ACTIVE };
    while !shared.is_stopped.load(Ordering::Relaxed) {
        let (rest, is_asleep) = turn(shared, &mut looks);
        let woken_by = shared.helper.descriptor();
        match rest {
            _ if !is_asleep => {}
            Rest::Aside(longest) => _ = poll_all(&[woken_by], &[], Some(longest)),
            Rest::Lead(idle) => {
                let slept = poll_all(&[woken_by, shared.sources.descriptor()], &[], Some(idle));
                looks.wake_ups += u64::from(slept != Slept::Timeout);
                shared.sources.take_agent_events();
            }
        }
        shared.helper.get_up();
        shared.helper_turns.fetch_add(1, Ordering::Relaxed);
    }
}

/// Polls, unless the program does; returns how to sleep, and false where it was woken meanwhile.
fn turn(shared: &Shared, looks: &mut Looks) -> (Rest, bool) {
    let idle_ns = monotonic_ns().saturating_sub(shared.polled_ns.load(Ordering::Relaxed));
    if Duration::from_nanos(idle_ns) < ACTIVE {
        let rest = Rest::Aside(looks.pause);
        looks.pause = (looks.pause * 2).min(ACTIVE_MAX);
        return (rest, shared.helper.fall_asleep());
    }
    looks.pause = ACTIVE;
    // Only a forked child is refused, and it has no such thread.
    let Ok(mut guard) = shared.lock() else { return (Rest::Aside(LED), true) };
    guard.turns().helper_wake_ups += std::mem::take(&mut looks.wake_ups);
    if guard.sleepers().lead_as_helper(&shared.helper) {
        looks.leader = None;
        guard.wake();
        guard.poll_as_helper();
        guard.watch();
        return (Rest::Lead(guard.idle_time()), shared.helper.fall_asleep());
    }
    let led = guard.sleepers().led();
    if looks.leader.replace(led) != Some(led) {
        return (Rest::Aside(LED), shared.helper.fall_asleep());
    }
    guard.sleepers().park_helper();
    (Rest::Aside(PARKED), shared.helper.fall_asleep())
}
