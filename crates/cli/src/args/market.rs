//! The flags of `sidestep market`.

use super::{MarketDecode, MarketGenerate, MarketRecord, MarketReplay, MarketWatch};
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum Market {
    /// Show a feed live: books, lines, gaps
    Watch(Box<MarketWatch>),
    /// Print the messages of a capture or a file
    Decode(MarketDecode),
    /// Write the datagrams of a feed's lines to a capture, with their times
    Record(Box<MarketRecord>),
    /// Replay a capture: through arbitration and books, or onto an interface
    Replay(MarketReplay),
    /// Write Rust views and encoders of a venue's SBE schema
    Generate(MarketGenerate),
}
