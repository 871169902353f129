//! The thread beside the reader: it sleeps on the connection to control, and opens the feed again after control was lost.

use super::link::{Shared, State};
use super::session::Told;
use crate::reason::Reason;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::OwnedFd;
use std::time::Duration;

/// Between two attempts to open a feed of a control that is not there.
const RETRY: Duration = Duration::from_secs(1);

/// The same after control has refused a feed or an entry, or has taken one away: each refusal stands in `sidestep ps`.
const RETRY_REFUSED: Duration = Duration::from_secs(10);

/// The most notices of control per turn: calls of the owner are answered between them.
const NOTICES_MAX: usize = 64;

pub(super) fn run(shared: &Shared) {
    loop {
        let (connection, pause) = {
            let state = shared.state();
            let connection = state.session.as_ref().and_then(|session| session.descriptor().ok());
            let pause = match state.session {
                Some(_) => shared.has_refused(&state).then_some(RETRY_REFUSED),
                None => Some(pause_after(state.why.reason)),
            };
            (connection, pause)
        };
        let is_time_out = !sleep(shared, connection.as_ref(), pause);
        let mut state = shared.state();
        if state.stops {
            return;
        }
        if state.session.is_some() {
            hear(shared, &mut state);
            if is_time_out {
                shared.steer_refused(&mut state);
            }
        } else if is_time_out {
            shared.open(&mut state);
        }
    }
}

fn pause_after(reason: Reason) -> Duration {
    match reason {
        Reason::ControlAbsent | Reason::ControlSilent | Reason::Revoked => RETRY,
        _ => RETRY_REFUSED,
    }
}

/// Sleeps until control or the owner has something; returns false if the pause has passed.
fn sleep(shared: &Shared, connection: Option<&OwnedFd>, pause: Option<Duration>) -> bool {
    let mut descriptors = vec![PollFd::new(&shared.wake, PollFlags::IN)];
    descriptors.extend(connection.map(|connection| PollFd::new(connection, PollFlags::IN)));
    let pause = pause.and_then(|pause| Timespec::try_from(pause).ok());
    // An error is a signal, and all are blocked: the next turn looks at everything.
    let woken = poll(&mut descriptors, pause.as_ref()).map_or(true, |ready| ready > 0);
    // Full or empty, it is awake.
    let _ = rustix::io::read(&shared.wake, &mut [0; 8]);
    woken
}

/// Takes what control has told.
fn hear(shared: &Shared, state: &mut State) {
    for _ in 0..NOTICES_MAX {
        let Some(session) = &mut state.session else { return };
        match session.told() {
            Ok(None) => return,
            Ok(Some(Told::Verdict(entry, path))) => shared.set_path(state, entry, path.as_ref()),
            Ok(Some(Told::Revoked(why))) | Err(why) => return shared.lose(state, why),
        }
    }
}
