//! Limits of a slice's loop.

use super::control::Control;
use crate::link::Link;
use crate::service_time::ServiceTime;
use sidestep_socket::stream::{Waiting, is_retry};
use sidestep_sys::Problem;
use socket2::SockRef;
use std::time::{Duration, Instant};

/// A slice ends after this even if the measuring end keeps sending: nobody holds a CPU of ours for longer at a time.
pub(super) const SLICE_MAX: Duration = Duration::from_secs(60);
/// A slice in which nothing comes for so long is over.
const QUIET_MAX: Duration = Duration::from_secs(3);
/// A send that blocks comes back after this.
const SEND_MAX: Duration = Duration::from_millis(200);
/// A spinning loop reads the clock once in so many turns, to learn whether it should end.
const TURNS: u32 = 4096;

/// Tells a slice's loop when to give up.
pub(crate) struct Watch<'a> {
    control: &'a Control,
    turns: u32,
    turns_between_looks: u32,
    /// Set where a message may take long: the clock is read at each.
    is_slow: bool,
    end: Instant,
    heard: Instant,
    heard_something: bool,
}

impl<'a> Watch<'a> {
    /// Of a slice that begins now, whose receives wait in this way.
    pub(super) fn new(control: &'a Control, waiting: Waiting) -> Self {
        let now = Instant::now();
        let turns_between_looks = if waiting == Waiting::Spin { TURNS } else { 1 };
        let is_slow = waiting != Waiting::Spin;
        Self {
            control,
            turns: 0,
            turns_between_looks,
            is_slow,
            end: now + SLICE_MAX,
            heard: now,
            heard_something: true,
        }
    }

    /// The same, with this work for each message.
    pub(super) fn working(self, service: ServiceTime) -> Self {
        Self { is_slow: self.is_slow || !service.is_none(), ..self }
    }

    /// Called when a message has come. Errs when the slice has lasted too long.
    #[inline]
    pub(crate) fn heard(&mut self) -> Result<(), Problem> {
        self.heard_something = true;
        self.turns += 1;
        let is_due = self.turns >= TURNS || (self.is_slow && Instant::now() > self.end);
        if is_due { self.look() } else { Ok(()) }
    }

    /// Called when nothing has come. Errs when nothing will come any more.
    #[inline]
    pub(crate) fn waited(&mut self) -> Result<(), Problem> {
        self.turns += 1;
        if self.turns >= self.turns_between_looks { self.look() } else { Ok(()) }
    }

    /// Called when nothing has come at the end of a slice, where nothing is to come: what was sent takes its time over a slow wire.
    pub(super) fn finishing(&mut self) -> Result<(), Problem> {
        self.heard_something = true;
        self.waited()
    }

    /// Sends all of `bytes`. Errs, too, when the slice is over before the other end takes them: one that does not read must
    /// not keep a CPU, nor the session.
    pub(super) fn send_all(&mut self, link: &mut dyn Link, mut bytes: &[u8]) -> Result<(), Problem> {
        while !bytes.is_empty() {
            match link.send(bytes) {
                Ok(taken) => bytes = &bytes[taken..],
                Err(error) if is_retry(&error) => self.waited()?,
                Err(error) => return Err(Problem::failed("cannot answer", error)),
            }
        }
        Ok(())
    }

    /// Makes sends on a link come back now and then that block for want of room, so that [`Watch::send_all`] can look
    /// (SO_SNDTIMEO). Past the kernel sends never block.
    pub(super) fn bound_sends(link: &dyn Link) -> Result<(), Problem> {
        let Some(socket) = link.descriptor() else { return Ok(()) };
        let bounded = SockRef::from(&socket).set_write_timeout(Some(SEND_MAX));
        bounded.map_err(|error| Problem::failed("cannot bound sends", error))
    }

    #[cold]
    fn look(&mut self) -> Result<(), Problem> {
        self.turns = 0;
        let now = Instant::now();
        if std::mem::take(&mut self.heard_something) {
            self.heard = now;
        }
        let why = if now > self.end {
            format!("it lasted longer than {} s", SLICE_MAX.as_secs())
        } else if now - self.heard > QUIET_MAX {
            format!("nothing came for {} s", QUIET_MAX.as_secs())
        } else if self.control.is_closed() {
            "the measuring end closed the connection".into()
        } else {
            return Ok(());
        };
        Err(Problem::failed("ended a slice", why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::StreamLink;
    use sidestep_socket::stream::{Backend, Endpoint, Io, Listener, Options};
    use socket2::{Domain, Socket, Type};

    #[test]
    fn a_slice_of_slow_messages_ends_at_the_first_that_is_too_late() {
        let (ours, _theirs) = Socket::pair(Domain::UNIX, Type::STREAM, None).unwrap();
        let control = Control::over(ours).unwrap();
        let slow = ServiceTime { each_ns: 10_000_000, ..ServiceTime::default() };
        for (waiting, service) in [(Waiting::Spin, slow), (Waiting::Block, ServiceTime::default())] {
            let mut watch = Watch::new(&control, waiting).working(service);
            watch.heard().unwrap();
            watch.end = Instant::now().checked_sub(Duration::from_millis(1)).unwrap();
            assert!(watch.heard().unwrap_err().to_string().contains("longer than 60 s"));
        }
    }

    #[test]
    fn who_does_not_read_its_answers_is_not_waited_for_beyond_the_slice() {
        for waiting in [Waiting::Spin, Waiting::Block] {
            let options =
                Options { waiting, backend: Backend::Kernel, timeout: Duration::from_millis(20), ..Options::default() };
            let folder = tempfile::tempdir().unwrap();
            let (mut io, endpoint) = (Io::default(), Endpoint::Unix(folder.path().join("data")));
            let mut listener = Listener::bind(&mut io, &endpoint, &options).unwrap();
            // It connects, and never reads.
            let _deaf = StreamLink::connect(&endpoint, &options).unwrap();
            let mut link = StreamLink::new(listener.accept_within(&mut io, Duration::from_secs(60)).unwrap().stream);
            Watch::bound_sends(&link).unwrap();
            let (ours, theirs) = Socket::pair(Domain::UNIX, Type::STREAM, None).unwrap();
            let control = Control::over(ours).unwrap();
            let mut watch = Watch::new(&control, waiting);
            drop(theirs);
            let (tell, told) = std::sync::mpsc::channel();
            std::thread::scope(|threads| {
                threads.spawn(|| tell.send(watch.send_all(&mut link, &vec![0; 16 << 20])));
                let ended = told.recv_timeout(Duration::from_secs(60)).expect("it comes to an end");
                assert!(ended.unwrap_err().to_string().contains("ended a slice"));
            });
        }
    }
}
