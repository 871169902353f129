//! Feeds: rings that the steering program fills with copies of packets, for readers of one user.

use super::stack::Mode;
use super::{Entry, Refusal};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The longest name of a feed, bytes. The empty name is that of a feed without other readers.
pub const FEED_NAME_BYTES_MAX: usize = 64;

/// What happens to a packet after its copy is in the ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It goes to the kernel, or to the stack that owns it, as without the feed.
    #[default]
    Pass,
    /// It goes nowhere else. In force only while nobody else would lose it.
    Drop,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pass => "pass",
            Self::Drop => "drop",
        })
    }
}

/// The facts of an opened feed. The descriptor beside them is a BPF array of `rings` elements, one for each receive queue of
/// the interface; it cannot be mapped writable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeedFacts {
    /// Its number, for later requests.
    pub feed: u32,
    /// Name of the interface.
    pub interface: String,
    /// Index of the interface.
    pub index: u32,
    /// The number of rings.
    pub rings: u32,
    /// Cells of each ring.
    pub cells: u64,
    /// Bytes from the start of one ring to the start of the next in the map.
    pub element_bytes: u64,
    /// How the program is attached: `Generic` in the kernel's generic mode, else in the driver.
    pub mode: Mode,
}

/// A feed of a client in the list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeedLine {
    /// Its number.
    pub feed: u32,
    /// Name of the interface.
    pub interface: String,
    /// Its name; empty if it has no other readers.
    pub name: String,
    /// The number of its rings.
    pub rings: u32,
    /// The number of this client's entries in it.
    pub entries: u32,
    /// The number of clients that have it open.
    pub readers: u32,
}

/// The verdict in force of an entry of a feed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeedVerdict {
    /// The feed.
    pub feed: u32,
    /// The traffic.
    pub entry: Entry,
    /// The verdict; `None` if the entry was removed.
    pub verdict: Option<Verdict>,
    /// Why it is not the one that was asked for, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A feed that was lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeedRevoked {
    /// The feed.
    pub feed: u32,
    /// The reason.
    pub refusal: Refusal,
}

#[cfg(test)]
mod tests {
    use super::super::{Numbered, Reply, Request};
    use super::*;

    #[test]
    fn requests_and_notices_survive_the_journey() {
        let entry = Entry::Multicast { group: "239.1.1.1:7000".parse().unwrap(), source: None, vlan: None };
        let request = Numbered { number: 3, body: Request::SteerFeed { feed: 1, entry, verdict: Verdict::Drop } };
        let text = serde_json::to_string(&request).unwrap();
        assert!(text.contains(r#""type":"steer_feed","feed":1,"#) && text.contains(r#""verdict":"drop""#), "{text}");
        assert_eq!(serde_json::from_str::<Numbered<Request>>(&text).unwrap(), request);
        let told = FeedVerdict { feed: 1, entry, verdict: None, reason: Some("it is gone".into()) };
        let notice = Numbered { number: 0, body: Reply::FeedVerdict(told) };
        let text = serde_json::to_string(&notice).unwrap();
        assert_eq!(serde_json::from_str::<Numbered<Reply>>(&text).unwrap(), notice);
    }

    /// `wants` is no verdict; an unknown one must not become the default.
    #[test]
    fn an_unknown_verdict_is_malformed() {
        let entry = r#"{"kind":"listener","protocol":"udp","local":"0.0.0.0:7"}"#;
        let text = |verdict| format!(r#"{{"type":"steer_feed","feed":1,"entry":{entry},"verdict":"{verdict}"}}"#);
        assert!(serde_json::from_str::<Request>(&text("pass")).is_ok());
        assert!(serde_json::from_str::<Request>(&text("redirect")).is_err());
    }
}
