//! A flow's connection to control: its feed, and the entries of that.

use super::path::Why;
use super::rings::Rings;
use super::{EntryPath, FlowOptions, Verdict};
use crate::reason::Reason;
use sidestep_control_api::client::{Client, Error, Notice};
use sidestep_control_api::message::{Entry, FeedRevoked, FeedVerdict, Mode};
use sidestep_control_api::place;
use sidestep_ring::Doorbell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// An open feed.
pub(super) struct Session {
    client: Client,
    feed: u32,
    mode: Mode,
}

/// What control has told of the feed.
pub(super) enum Told {
    /// The feed is gone.
    Revoked(Why),
    /// Another verdict is in force for an entry, or it is in no ring any more.
    Verdict(Entry, Result<EntryPath, Why>),
}

impl Session {
    /// Opens a feed and attaches to its rings.
    pub(super) fn open(options: &FlowOptions) -> Result<(Self, Rings), Why> {
        let path = match &options.control {
            Some(path) => path.clone(),
            None => place::socket().map_err(|problem| told(Reason::ControlAbsent, problem.brief()))?,
        };
        let mut client = Client::connect_to(&path, &options.name).map_err(|error| Why::of(&error))?;
        // The tables of routes are for senders.
        drop(client.take_table());
        let feed = client.open_feed(&options.interface, &options.feed).map_err(|error| Why::of(&error))?;
        let number = feed.facts.feed;
        let doorbell = options.doorbell.then(|| doorbell(&mut client, number)).transpose()?;
        let rings = Rings::attach(&feed.map, &feed.facts, doorbell)
            .map_err(|problem| told(Reason::Refused, problem.brief()))?;
        Ok((Self { client, feed: number, mode: feed.facts.mode }, rings))
    }

    /// Has packets put into the rings. An error ends the session.
    pub(super) fn steer(
        &mut self,
        entry: Entry,
        verdict: Verdict,
        twin: Option<BorrowedFd<'_>>,
    ) -> Result<Result<EntryPath, Why>, Why> {
        match self.client.steer_feed(self.feed, entry, verdict, twin) {
            Ok((verdict, reason)) => Ok(self.steered(Some(verdict), reason)),
            Err(error @ Error::Refused(_)) => Ok(Err(Why::of(&error))),
            Err(error) => Err(Why::of(&error)),
        }
    }

    /// Takes an entry out of the feed.
    pub(super) fn unsteer(&mut self, entry: Entry) -> Result<(), Why> {
        match self.client.unsteer_feed(self.feed, entry) {
            Ok(()) | Err(Error::Refused(_)) => Ok(()),
            Err(error) => Err(Why::of(&error)),
        }
    }

    /// What control has told since the last call; an error ends the session.
    pub(super) fn told(&mut self) -> Result<Option<Told>, Why> {
        while let Some(notice) = self.client.notice().map_err(|error| Why::of(&error))? {
            match notice {
                Notice::FeedRevoked(FeedRevoked { feed, refusal }) if feed == self.feed => {
                    return Ok(Some(Told::Revoked(Why::of(&Error::Refused(refusal)))));
                }
                Notice::FeedVerdict(FeedVerdict { feed, entry, verdict, reason }) if feed == self.feed => {
                    return Ok(Some(Told::Verdict(entry, self.steered(verdict, reason))));
                }
                // Of stacks, of which this connection has none.
                _ => {}
            }
        }
        Ok(None)
    }

    fn steered(&self, verdict: Option<Verdict>, reason: Option<String>) -> Result<EntryPath, Why> {
        match verdict {
            Some(verdict) => Ok(EntryPath::Ring { verdict, mode: self.mode, downgrade: reason }),
            None => Err(told(Reason::Refused, reason.unwrap_or_default())),
        }
    }

    /// A descriptor that is readable when control has told something.
    pub(super) fn descriptor(&self) -> io::Result<OwnedFd> {
        self.client.as_fd().try_clone_to_owned()
    }
}

fn doorbell(client: &mut Client, feed: u32) -> Result<Doorbell, Why> {
    let (flag_page, ring_buffer) = client.open_doorbell(feed).map_err(|error| Why::of(&error))?;
    Doorbell::bpf(flag_page, ring_buffer).map_err(|problem| told(Reason::Refused, problem.brief()))
}

fn told(reason: Reason, detail: String) -> Why {
    Why { reason, detail }
}
