//! Requests about live connections that become the kernel's.

use super::{Client, Error, strange};
use crate::message::{Code, HandOver, Refusal, Reply, Request};
use crate::token;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// Between two attempts to read an answer where the kernel is short of memory.
const PAUSE: Duration = Duration::from_millis(10);

impl Client {
    /// Hands a live connection over to the kernel: `socket` becomes it, with the bytes in `bytes`. A control that has not begun with it
    /// in time does nothing of it later; one that has begun is waited for until it answers or ends. So [`Error::Lost`] means
    /// that nothing will be done any more: what was done by a control that has died the socket tells.
    pub fn hand_over(
        &mut self,
        stack: u32,
        connection: HandOver,
        socket: BorrowedFd<'_>,
        bytes: BorrowedFd<'_>,
    ) -> Result<(), Error> {
        let token = token::make().map_err(|error| {
            let thing = format!("cannot hand over tcp {} from {}", connection.local, connection.remote);
            Error::Refused(Refusal::new(Code::Limit, thing, error).next("close descriptors, or raise ulimit -n"))
        })?;
        let request = Request::HandOver { stack, connection };
        let answer = self.ask_with(request, &[socket, bytes, token.as_fd()]);
        let reply = match answer {
            // It has not begun, and will not.
            Err(Error::Lost(problem)) if token::take(token.as_fd()).unwrap_or(false) => Err(Error::Lost(problem)),
            Err(Error::Lost(_)) => self.await_answer(),
            answer => answer.map(|(reply, _)| reply),
        };
        match reply? {
            Reply::Done => Ok(()),
            reply => Err(strange(&reply)),
        }
    }

    /// Waits until control has answered the last request, which it has begun with, or has ended.
    fn await_answer(&mut self) -> Result<Reply, Error> {
        loop {
            let received = match self.is_readable(Duration::MAX) {
                Ok(true) => self.receive(),
                outcome => outcome.map(|_| None),
            };
            match received {
                Ok(Some((number, Reply::Refused(refusal), _))) if number == self.number => {
                    return Err(Error::Refused(refusal));
                }
                Ok(Some((number, reply, _))) if number == self.number => return Ok(reply),
                Ok(_) => {}
                Err(error) if self.has_hung_up() => return Err(error),
                Err(_) => std::thread::sleep(PAUSE),
            }
        }
    }

    fn has_hung_up(&self) -> bool {
        let mut ends = [PollFd::new(&self.channel, PollFlags::empty())];
        let polled = poll(&mut ends, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
        polled.is_ok() && ends[0].revents().contains(PollFlags::HUP)
    }

    /// Has the owner of an accelerated connection hand it over; `twin` is the kernel socket that this process has in common
    /// with it. When this returns, that socket is the connection.
    pub fn hand_over_twin(&mut self, twin: BorrowedFd<'_>) -> Result<(), Error> {
        self.expect_done(Request::HandOverTwin, Some(twin))
    }

    /// Replies to [`Notice::HandOverTwin`](super::Notice::HandOverTwin) that the connection cannot be handed over.
    pub fn keep_twin(&mut self, cookie: u64, code: Code) -> Result<(), Error> {
        self.expect_done(Request::TwinStays { cookie, code }, None)
    }

    /// Has a process hand over all of its connections.
    pub fn release_process(&mut self, pid: u32) -> Result<(), Error> {
        self.expect_done(Request::ReleaseProcess { pid }, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Channel, Numbered, sound};
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    use std::os::fd::OwnedFd;
    use std::sync::mpsc::channel;
    use std::thread::scope;

    /// A client whose answers are late at once, and control's end.
    fn hasty() -> (Client, Channel) {
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        let mut client = Client::over(Channel::over(ours));
        client.reply_wait = Duration::ZERO;
        (client, Channel::over(theirs))
    }

    fn file() -> OwnedFd {
        std::fs::File::open("/dev/null").unwrap().into()
    }

    fn hand_over(client: &mut Client) -> Result<(), Error> {
        client.hand_over(1, sound(), file().as_fd(), file().as_fd())
    }

    fn request(control: &Channel) -> (u32, OwnedFd) {
        let incoming = control.receive::<Request>().unwrap();
        assert!(matches!(incoming.message.body, Request::HandOver { .. }));
        let [_, _, token] = <[OwnedFd; 3]>::try_from(incoming.descriptors).unwrap();
        (incoming.message.number, token)
    }

    #[test]
    fn a_control_that_comes_to_it_too_late_does_not_begin() {
        let (mut client, control) = hasty();
        assert!(matches!(hand_over(&mut client), Err(Error::Lost(_))));
        let (_, token) = request(&control);
        assert!(!token::take(token.as_fd()).unwrap());
    }

    /// Any process of this host can cause questions.
    #[test]
    fn questions_of_others_push_out_nothing_that_counts() {
        use crate::client::{NOTICES_MAX, Notice};
        let (mut client, control) = hasty();
        let tell = |body| control.send(&Numbered { number: 0, body }, &[]).unwrap();
        let at = "127.0.0.1:7".parse().unwrap();
        let mut receive = |body| {
            tell(body);
            assert!(client.receive().unwrap().is_none());
        };
        receive(Reply::Ended { stack: 1, local: at, remote: at });
        receive(Reply::HandOverAll { for_good: true });
        (0..1000).for_each(|cookie| receive(Reply::HandOverTwin { cookie }));
        receive(Reply::Ended { stack: 2, local: at, remote: at });
        assert_eq!(client.notices.len(), NOTICES_MAX);
        let is_own = |notice: &&Notice| !matches!(notice, Notice::HandOverTwin { .. });
        assert_eq!(client.notices.iter().filter(is_own).count(), 3);
        assert!(matches!(client.notices[NOTICES_MAX - 2], Notice::HandOverTwin { cookie: 999 }));
    }

    #[test]
    fn a_control_that_has_begun_is_waited_for() {
        let (mut client, control) = hasty();
        client.reply_wait = Duration::from_millis(50);
        scope(|scope| {
            let (tell, told) = channel();
            let asking = scope.spawn(move || {
                let outcome = hand_over(&mut client);
                tell.send(()).unwrap();
                outcome
            });
            let (number, token) = request(&control);
            if token::take(token.as_fd()).unwrap() {
                // Longer than the client would wait for anything else.
                assert!(told.recv_timeout(Duration::from_millis(200)).is_err(), "it has gone on");
                control.send(&Numbered { number: 0, body: Reply::HandOverTwin { cookie: 1 } }, &[]).unwrap();
                control.send(&Numbered { number, body: Reply::Done }, &[]).unwrap();
                asking.join().unwrap().unwrap();
            } else {
                // On a busy host it has given up before.
                assert!(asking.join().unwrap().is_err());
            }
        });
    }

    #[test]
    fn a_control_that_dies_after_it_has_begun_is_not_waited_for() {
        let (mut client, control) = hasty();
        client.reply_wait = Duration::from_secs(60);
        scope(|scope| {
            let asking = scope.spawn(move || hand_over(&mut client));
            let (_, token) = request(&control);
            assert!(token::take(token.as_fd()).unwrap());
            drop(control);
            assert!(matches!(asking.join().unwrap(), Err(Error::Lost(_))));
        });
    }
}
