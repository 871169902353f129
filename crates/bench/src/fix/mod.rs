//! FIX acceptors, driven by a neutral client: order to acknowledgement and fill, test request to heartbeat.
//!
//! The client's messages are encoded once and patched (`message`). Inside a sample it reads an answer only as far as
//! its end. So acceptor and transport are measured, and every acceptor is driven alike: ours, and
//! those of `peers/fix`. Answers are checked after the sample: type, order, sequence number, checksum.
//!
//! Acceptors take turns, A B B A, each slice on sessions of its own. One whose process is known is stopped (SIGSTOP) while
//! others are measured, because two that spin on one CPU would measure each other.

mod bare;
mod certificate;
mod contest;
mod far;
mod inbox;
mod message;
mod own;
mod passage;
mod pause;
mod process;
mod reach;
mod remote;
mod run;
mod session;
mod slice;
mod tls;
#[cfg(test)]
mod toy;
mod veth;

pub use bare::Bare;
pub(crate) use far::Acceptors;
pub use own::Own;
pub use reach::Reach;
pub use remote::FarWay;
pub use run::{Request, Setting, run};
pub use sidestep_socket::stream::{Endpoint, Waiting};
pub use veth::Way;

use message::Header;
use session::Answer;
use std::time::Duration;

/// An acceptor: it answers each NewOrderSingle with two ExecutionReports, one that acknowledges it and one that fills it.
#[derive(Clone, Debug)]
pub struct Acceptor {
    /// Its name: the path of its rows.
    pub name: String,
    /// Its address.
    pub reach: Reach,
    /// Its process, which is stopped while others are measured.
    pub pid: Option<u32>,
    /// Its description for the report.
    pub description: String,
    /// Of a bare acceptor, the names of those over the same transport, which are held against it; empty of all others.
    pub beside: Vec<String>,
}

/// The requests to an acceptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Workload {
    /// NewOrderSingle; the acknowledgement and the fill.
    Orders,
    /// TestRequest; the Heartbeat.
    TestRequests,
}

/// The pace of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// The next one follows the last answer to the previous one.
    ClosedLoop,
    /// One per interval, whether the others are answered or not.
    Paced(Duration),
}

impl Workload {
    /// Returns the answers to a message, in order.
    fn answers(self) -> &'static [Answer] {
        match self {
            Self::Orders => &[Answer::Ack, Answer::Fill],
            Self::TestRequests => &[Answer::Heartbeat],
        }
    }

    /// MsgType of every answer.
    fn answer_type(self) -> u8 {
        match self {
            Self::Orders => b'8',
            Self::TestRequests => b'0',
        }
    }
}

impl Answer {
    /// Returns the measure of a row: the time to this answer.
    fn measure(self) -> &'static str {
        match self {
            Self::Ack => "rtt_ack",
            Self::Fill => "rtt_fill",
            Self::Heartbeat => "rtt_heartbeat",
        }
    }
}

/// BeginString and CompIDs of the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// BeginString.
    pub begin_string: String,
    /// SenderCompID.
    pub sender: String,
    /// TargetCompID.
    pub target: String,
}

impl Identity {
    /// Returns the identity of session `number` of several: three digits are appended to SenderCompID, from 001.
    fn numbered(&self, number: u32) -> Self {
        Self { sender: format!("{}{number:03}", self.sender), ..self.clone() }
    }

    fn header(&self) -> Header<'_> {
        Header { begin_string: &self.begin_string, sender: &self.sender, target: &self.target }
    }
}
