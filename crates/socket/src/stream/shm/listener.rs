//! Listening for streams through shared memory.

use super::acceptor::SharedRefusals;
use super::{AcceptThread, Acceptor, Kind, Refusals, Rings, Settings};
use crate::stream::{Credentials, Options};
use sidestep_sys::Problem;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::Duration;

/// A connector that was taken, and who it is.
type Taken = (Rings, Option<Credentials>);

/// Accepts in the call that waits, or on a thread of its own from the first call on that must not.
pub(in crate::stream) struct ShmListener {
    accepting: Accepting,
    refusals: SharedRefusals,
}

enum Accepting {
    InCall(Acceptor),
    Beside(AcceptThread),
    /// Its thread is being started.
    Moving,
}

impl ShmListener {
    pub(in crate::stream) fn bind(path: &Path, settings: Settings, options: &Options) -> Result<Self, Problem> {
        let acceptor = Acceptor::bind(path, Kind::Stream, settings, options)?;
        let refusals = acceptor.refusals().clone();
        Ok(Self { accepting: Accepting::InCall(acceptor), refusals })
    }

    /// Returns the next connection; `None` when there is none. The first call starts the thread.
    pub(in crate::stream) fn next(&mut self) -> io::Result<Option<Taken>> {
        if let Accepting::InCall(_) = self.accepting {
            self.start()?;
        }
        match &self.accepting {
            Accepting::Beside(thread) => Ok(thread.next()),
            Accepting::InCall(_) | Accepting::Moving => Err(gone()),
        }
    }

    fn start(&mut self) -> io::Result<()> {
        let Accepting::InCall(acceptor) = std::mem::replace(&mut self.accepting, Accepting::Moving) else {
            return Err(gone());
        };
        match AcceptThread::start(acceptor) {
            Ok(thread) => self.accepting = Accepting::Beside(thread),
            Err((acceptor, error)) => {
                self.accepting = Accepting::InCall(*acceptor);
                // EAGAIN of pthread_create(3) is no "not now".
                return Err(io::Error::other(format!("cannot start the thread that accepts: {error}")));
            }
        }
        Ok(())
    }

    /// Waits for the next connection; `None` when none came within `timeout`.
    pub(in crate::stream) fn next_within(&mut self, timeout: Duration) -> io::Result<Option<Taken>> {
        match &mut self.accepting {
            Accepting::InCall(acceptor) => match acceptor.accept(timeout) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
                accepted => accepted.map(Some),
            },
            Accepting::Beside(thread) => Ok(thread.next_within(timeout)),
            Accepting::Moving => Err(gone()),
        }
    }

    pub(in crate::stream) fn refusals(&self) -> Refusals {
        self.refusals.copy()
    }
}

/// A panic while the thread was started.
fn gone() -> io::Error {
    io::Error::other("its acceptor is gone")
}
