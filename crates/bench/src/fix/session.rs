//! One session of the neutral client: logs on, sends orders or test requests, logs out. It uses nothing of crate `fix`, so
//! that every acceptor is driven alike, and ours is not measured by its own mistakes.

use super::inbox::{Frame, Inbox, Place};
use super::message::{Header, Stamp, Template};
use super::{Identity, Reach, Workload};
use crate::link::{Link, send_all};
use sidestep_socket::stream::{Options, Waiting, is_retry};
use sidestep_sys::Problem;
use std::time::{Duration, Instant};

/// The longest wait for an answer to Logon: an acceptor in Java compiles its code meanwhile.
const LOGON_WITHIN: Duration = Duration::from_secs(5);
/// Time that an acceptor has to answer Logout and to close.
const LOGOUT_WITHIN: Duration = Duration::from_secs(1);
/// HeartBtInt: longer than a slice, so that no heartbeat falls into one.
const HEARTBEATS: Duration = Duration::from_secs(60);
/// A stream that is silent for so long in the middle of a slice is broken.
const BROKEN_AFTER: Duration = Duration::from_secs(3);
/// Time-out of a receive that sleeps.
const LOOK_UP: Duration = Duration::from_millis(100);
/// Answers of each slice whose checksum is verified; the later ones are read, but not summed.
const SUMMED: u64 = 64;
/// Attempts to log on: an acceptor may still be busy with the end of the last session of that name.
const ATTEMPTS_MAX: u32 = 40;
/// Pause between them.
const ATTEMPT_PAUSE: Duration = Duration::from_millis(50);

/// A session that is logged on.
pub(super) struct Session {
    link: Box<dyn Link>,
    inbox: Inbox,
    message: Template,
    logout: Template,
    now: Stamp,
    sequence: u64,
    answer_type: u8,
    identity: Identity,
}

/// The answer to a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Ack,
    Fill,
    Heartbeat,
}

impl Session {
    /// Connects and logs on.
    pub(super) fn open(
        reach: &Reach,
        identity: &Identity,
        workload: Workload,
        waiting: Waiting,
    ) -> Result<Self, Problem> {
        let mut attempt = 1;
        loop {
            match Self::try_open(reach, identity, workload, waiting) {
                Err(_) if attempt < ATTEMPTS_MAX => std::thread::sleep(ATTEMPT_PAUSE),
                done => return done,
            }
            attempt += 1;
        }
    }

    fn try_open(reach: &Reach, identity: &Identity, workload: Workload, waiting: Waiting) -> Result<Self, Problem> {
        let header = identity.header();
        let mut session = Self {
            link: reach.connect(&Options { waiting, timeout: LOOK_UP, ..Options::default() })?,
            inbox: Inbox::new(),
            message: Self::message(&header, workload),
            logout: Template::logout(&header),
            now: Stamp::default(),
            sequence: 2,
            answer_type: workload.answer_type(),
            identity: identity.clone(),
        };
        session.log_on(&header)?;
        Ok(session)
    }

    fn log_on(&mut self, header: &Header<'_>) -> Result<(), Problem> {
        let refused =
            |why: String| Problem::failed("cannot log on", why).next("see what the acceptor has printed or logged");
        let mut logon = Template::logon(header, HEARTBEATS);
        send_all(self.link.as_mut(), logon.stamp(1, 0, &mut self.now)).map_err(|error| refused(error.to_string()))?;
        let deadline = Instant::now() + LOGON_WITHIN;
        while Instant::now() < deadline {
            self.receive().map_err(|problem| refused(problem.brief()))?;
            if let Some(place) = self.inbox.next()? {
                let frame = self.inbox.frame(&place);
                if place.kind != b'A' || frame.number(34) != Some(1) || !frame.is_sound() {
                    return Err(refused(format!("the answer is {frame}")));
                }
                self.inbox.release();
                return Ok(());
            }
        }
        Err(refused(format!("no answer to Logon within {} s", LOGON_WITHIN.as_secs())))
    }

    /// Bytes of the message that is measured.
    pub(super) fn message_size(identity: &Identity, workload: Workload) -> u32 {
        Self::message(&identity.header(), workload).len() as u32
    }

    fn message(header: &Header<'_>, workload: Workload) -> Template {
        match workload {
            Workload::Orders => Template::order(header),
            Workload::TestRequests => Template::test_request(header),
        }
    }

    /// Makes the next message; [`Session::send`] sends it.
    #[inline]
    pub(super) fn prepare(&mut self) {
        self.message.stamp(self.sequence, self.sequence, &mut self.now);
        self.sequence += 1;
    }

    /// Sends what was prepared.
    #[inline]
    pub(super) fn send(&mut self) -> Result<(), Problem> {
        send_all(self.link.as_mut(), self.message.bytes()).map_err(broken)
    }

    /// Receives what is there; false if there is nothing.
    #[inline]
    pub(super) fn receive(&mut self) -> Result<bool, Problem> {
        match self.link.receive(self.inbox.spare()) {
            Ok(0) => Err(broken("it closed the connection")),
            Ok(count) => {
                self.inbox.filled(count);
                Ok(true)
            }
            Err(error) if is_retry(&error) => Ok(false),
            Err(error) => Err(broken(error)),
        }
    }

    /// The next answer that has come whole. Until the next [`Session::receive`] it can be [verified](Session::verify).
    #[inline]
    pub(super) fn answer(&mut self) -> Result<Option<Place>, Problem> {
        while let Some(place) = self.inbox.next()? {
            if place.kind == self.answer_type {
                return Ok(Some(place));
            }
            self.between(&place)?;
        }
        Ok(None)
    }

    /// Number of the message that was prepared last: that of its answers, too.
    pub(super) fn number(&self) -> u64 {
        self.sequence - 1
    }

    /// Checks an answer to message `number`. MsgSeqNum of the acceptor counts every frame of the connection.
    pub(super) fn verify(&self, place: &Place, answer: Answer, number: u64) -> Result<(), Problem> {
        let frame = self.inbox.frame(place);
        let id = self.message.id_of(number);
        let is_right = match answer {
            Answer::Ack => frame.field(150) == Some(b"0") && frame.field(11) == Some(&id),
            Answer::Fill => matches!(frame.field(150), Some(b"F" | b"2")) && frame.field(11) == Some(&id),
            Answer::Heartbeat => frame.field(112) == Some(&id),
        };
        let is_next = frame.number(34) == Some(place.index);
        if is_right && is_next && (place.index >= SUMMED || frame.is_sound()) {
            return Ok(());
        }
        let wanted = format!("{answer:?} of {} with 34={}", String::from_utf8_lossy(&id), place.index);
        Err(Problem::failed("the acceptor gave a wrong answer", format!("{frame} instead of {wanted}")))
    }

    /// Gives back the room of the answers that were read.
    #[inline]
    pub(super) fn release(&mut self) {
        self.inbox.release();
    }

    /// Whatever else an acceptor says.
    #[cold]
    fn between(&mut self, place: &Place) -> Result<(), Problem> {
        let frame = self.inbox.frame(place);
        match place.kind {
            b'0' => Ok(()),
            b'1' => {
                let mut heartbeat = Template::heartbeat(&self.identity.header(), frame.field(112).unwrap_or_default());
                let bytes = heartbeat.stamp(self.sequence, 0, &mut self.now);
                self.sequence += 1;
                send_all(self.link.as_mut(), bytes).map_err(broken)
            }
            _ => Err(unexpected(frame)),
        }
    }

    /// Ends the session in order: Logout, its answer, the end of the stream. What goes wrong here has cost no sample.
    pub(super) fn close(mut self) {
        let bytes = self.logout.stamp(self.sequence, 0, &mut self.now);
        if send_all(self.link.as_mut(), bytes).is_err() {
            return;
        }
        let deadline = Instant::now() + LOGOUT_WITHIN;
        while Instant::now() < deadline {
            if self.receive().is_err() {
                return;
            }
            while matches!(self.inbox.next(), Ok(Some(_))) {}
            self.inbox.release();
        }
    }
}

/// A stream that says nothing for too long.
#[cold]
pub(super) fn is_overdue(waited: Duration) -> Result<(), Problem> {
    if waited < BROKEN_AFTER {
        return Ok(());
    }
    Err(broken(format!("no answer for {} s", BROKEN_AFTER.as_secs())))
}

fn unexpected(frame: Frame<'_>) -> Problem {
    Problem::failed("the acceptor did not take the order", format!("it sent {frame}"))
}

fn broken(why: impl std::fmt::Display) -> Problem {
    Problem::failed("lost the acceptor", why).next("see what the acceptor has printed or logged")
}
