//! Ports that this engine gave back a moment ago.
//!
//! A kernel's port is free when the last descriptor of its socket is closed. Of ours there are several: the owner's, that of
//! the thread beside it, control's, and those of a control that was killed and has not quite ended. When a socket is closed
//! they go one after the other, so a bind of the same port straight afterwards may find it taken by nobody but ourselves.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The time for the last descriptor of a released port to be closed: control has to be scheduled, be it to answer or, killed,
/// to end. Half a second was not enough once, on a busy host.
const CLOSE_WAIT: Duration = Duration::from_secs(2);

/// Between two attempts meanwhile.
const RETRY: Duration = Duration::from_micros(200);

/// The time for which a port counts as just released.
const LATELY: Duration = Duration::from_secs(3);

/// Ports remembered, the oldest goes: more than a program closes and binds again at a time.
const PORTS_MAX: usize = 64;

/// Ports of UDP, or of TCP, given back lately.
#[derive(Debug, Default)]
pub(crate) struct Released(VecDeque<(u16, Instant)>);

impl Released {
    /// A port was given back.
    pub(crate) fn note(&mut self, port: u16) {
        if self.0.len() == PORTS_MAX {
            self.0.pop_front();
        }
        self.0.push_back((port, Instant::now()));
    }

    /// Binds to `address`; waits for a port that is taken but was ours a moment ago.
    pub(crate) fn bind<T>(&self, address: SocketAddr, bind: impl Fn() -> io::Result<T>) -> io::Result<T> {
        let begun = Instant::now();
        loop {
            let bound = bind();
            let is_taken = bound.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::AddrInUse);
            if !is_taken || begun.elapsed() >= CLOSE_WAIT || !self.was_ours(address.port(), begun) {
                return bound;
            }
            sleep(RETRY);
        }
    }

    /// Returns whether a port was given back lately.
    pub(crate) fn was_ours(&self, port: u16, now: Instant) -> bool {
        self.0.iter().any(|(known, at)| *known == port && now.duration_since(*at) < LATELY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn a_port_that_was_ours_is_waited_for_and_no_other() {
        let held = UdpSocket::bind("127.0.0.1:0").unwrap();
        let at = held.local_addr().unwrap();
        let mut released = Released::default();
        let tries = std::cell::Cell::new(0);
        let bind = || {
            tries.set(tries.get() + 1);
            UdpSocket::bind(at)
        };
        assert_eq!(released.bind(at, bind).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        assert_eq!(tries.get(), 1, "somebody else's port is refused at once");
        released.note(at.port());
        // Somebody still has it when the wait begins.
        let closer = std::thread::spawn(move || {
            sleep(Duration::from_millis(20));
            drop(held);
        });
        assert_eq!(released.bind(at, bind).unwrap().local_addr().unwrap(), at);
        assert!(tries.get() > 2, "it was tried again");
        closer.join().unwrap();
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut released = Released::default();
        (0..1000).for_each(|port| released.note(port));
        assert_eq!(released.0.len(), PORTS_MAX);
        assert!(released.was_ours(999, Instant::now()) && !released.was_ours(1, Instant::now()));
        assert!(!released.was_ours(999, Instant::now() + LATELY));
    }
}
