//! Requests about feeds: rings that the steering program fills.

use super::{Client, Error, counted, strange};
use crate::message::{Entry, FeedFacts, Reply, Request, Verdict};
use std::os::fd::{BorrowedFd, OwnedFd};

/// A feed of this process. It ends with the connection; the rings stay mapped, and nothing more comes.
#[derive(Debug)]
pub struct Feed {
    /// The facts of the opened feed.
    pub facts: FeedFacts,
    /// The map of the rings: read-only, a ring per element.
    pub map: OwnedFd,
}

impl Client {
    /// Opens a feed on an interface. Clients of one user that give the same name share its rings and entries; with the empty name
    /// it is this client's alone.
    pub fn open_feed(&mut self, interface: &str, name: &str) -> Result<Feed, Error> {
        let request = Request::OpenFeed { interface: interface.to_owned(), name: name.to_owned() };
        let (reply, descriptors) = self.ask(request, None)?;
        let Reply::Feed(facts) = reply else { return Err(strange(&reply)) };
        let [map] = counted(descriptors)?;
        Ok(Feed { facts, map })
    }

    /// Has the packets of `entry` copied into a feed. `twin` is a kernel socket of this process that receives them: control keeps a
    /// descriptor of it. Without one it is a tap, with the verdict `Pass` alone. Returns the verdict in force, and why it is not
    /// `verdict`. A repetition replaces verdict and twin.
    pub fn steer_feed(
        &mut self,
        feed: u32,
        entry: Entry,
        verdict: Verdict,
        twin: Option<BorrowedFd<'_>>,
    ) -> Result<(Verdict, Option<String>), Error> {
        match self.ask(Request::SteerFeed { feed, entry, verdict }, twin)?.0 {
            Reply::FeedSteered { verdict, reason } => Ok((verdict, reason)),
            reply => Err(strange(&reply)),
        }
    }

    /// Ends that, as far as this client wanted it.
    pub fn unsteer_feed(&mut self, feed: u32, entry: Entry) -> Result<(), Error> {
        self.expect_done(Request::UnsteerFeed { feed, entry }, None)
    }

    /// Requests a doorbell: the page of its flag, and the BPF ring buffer that becomes readable.
    pub fn open_doorbell(&mut self, feed: u32) -> Result<(OwnedFd, OwnedFd), Error> {
        let (reply, descriptors) = self.ask(Request::OpenDoorbell { feed }, None)?;
        let Reply::Doorbell = reply else { return Err(strange(&reply)) };
        let [flag_page, ring_buffer] = counted(descriptors)?;
        Ok((flag_page, ring_buffer))
    }

    /// Closes a feed, with its entries and doorbells as far as they are this client's.
    pub fn close_feed(&mut self, feed: u32) -> Result<(), Error> {
        self.expect_done(Request::CloseFeed { feed }, None)
    }
}
