//! Tick to trade: a multicast feed in, a decision, an order out.
//!
//! The measuring end is the exchange, the peer is the trader. In each slice the exchange plays datagrams that were made before, each when
//! it is due, whatever the trader does (an open loop); some of their messages ask for an order. The clock of the exchange measures: from
//! when a datagram was due, and from when it left, to the first byte of the order that it asks for.
//!
//! ```text
//!  exchange (this process)                          trader (the peer)
//!   play ── when due ──> line A, line B ── multicast ──> feed ── work (reflex | decode | book)
//!   intake <── first bytes, stamped ── TCP ── order (fix | ouch | raw) <──┘
//!   judge: every order, after the slice
//! ```
//!
//! `play` makes the datagrams, `exchange` sends them and takes the orders, `slice` has what it found, `judge` judges, `text` reads orders, `trader` is the
//! peer's end; `arms`, `rounds` and `row` are the measurement: arms in turn, their statistics, their rows.

mod arms;
mod describe;
mod exchange;
mod intake;
pub(crate) mod judge;
pub(crate) mod play;
mod rounds;
mod row;
mod slice;
pub(crate) mod text;
pub(crate) mod trader;
mod wire;

pub use arms::Request;
pub use play::Plan;
pub(crate) use rounds::measure;

use serde::{Deserialize, Serialize};

/// The work of the trader between a tick and its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// None: an order that was written before leaves when a datagram comes whose sequence numbers hold a tick. The trader is told these numbers
    /// before the slice.
    Reflex,
    /// Arbitration of the lines and decoding of every message. The trader is told the references of the orders that are ticks.
    Decode,
    /// Books of every instrument; the trader decides from them, and is told nothing.
    Book,
}

/// The form of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OrderForm {
    /// NewOrderSingle of FIX 4.4, in a session.
    Fix,
    /// EnterOrder of OUCH 5.0 over SoupBinTCP.
    Ouch,
    /// 16 bytes.
    Raw,
}

/// The rate of the feed over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// Always the same.
    Steady,
    /// A burst that decays, as at the opening of a market.
    Open,
    /// Seldom, so that caches and timers are cold.
    Sparse,
}

/// The place of a tick among the messages of its datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// The first one.
    First,
    /// The last one.
    Last,
    /// Wherever it falls.
    Any,
}

impl Work {
    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Reflex => "reflex",
            Self::Decode => "decode",
            Self::Book => "book",
        }
    }
}

impl OrderForm {
    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fix => "fix",
            Self::Ouch => "ouch",
            Self::Raw => "raw",
        }
    }
}

impl Profile {
    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Steady => "steady",
            Self::Open => "open",
            Self::Sparse => "sparse",
        }
    }
}

impl Place {
    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Last => "last",
            Self::Any => "any",
        }
    }
}
