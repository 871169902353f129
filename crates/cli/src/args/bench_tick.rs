//! The flags of `sidestep bench tick`.

use super::{Output, Place};
use crate::values::{Count, PathList, duration};
use clap::{Args, ValueEnum};
use std::net::Ipv4Addr;
use std::time::Duration;

#[derive(Debug, Args)]
pub(crate) struct BenchTick {
    /// Paths, separated by commas: kernel-epoll, kernel-spin, uring-spin, xdp, at both ends; xdp-one-end (the trader past the
    /// kernel, the exchange by kernel-spin); ring (the trader's feed by rings that the steering program fills, its orders and the
    /// exchange by kernel-spin); xdp-raw, the floor: a bare echo over AF_XDP
    #[arg(long, default_value = "kernel-spin,xdp,xdp-raw", value_name = "LIST")]
    pub(crate) paths: PathList,
    /// Work of the trader: reflex (an order that was written before), decode (every message), book (books of all instruments,
    /// from which it decides)
    #[arg(long, value_enum, value_delimiter = ',', default_value = "book")]
    pub(crate) work: Vec<WorkKind>,
    /// Form of its orders
    #[arg(long, value_enum, value_delimiter = ',', default_value = "fix")]
    pub(crate) order: Vec<OrderKind>,
    /// Lines of the feed: A, or A and B with the same messages
    #[arg(long, value_delimiter = ',', default_value = "1", value_name = "N", value_parser = clap::value_parser!(u8).range(1..=2))]
    pub(crate) lines: Vec<u8>,
    /// Play the feed so many times as fast
    #[arg(long, value_delimiter = ',', default_value = "1", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) speed: Vec<u32>,
    /// Datagrams of line A that are left out, chosen by --seed; line B has their messages
    #[arg(long, value_delimiter = ',', default_value = "0", value_name = "PERCENT")]
    pub(crate) gap_on_a: Vec<f64>,
    /// Course of the rate
    #[arg(long, value_enum, default_value_t = ProfileKind::Steady)]
    pub(crate) profile: ProfileKind,
    /// Messages per second (10k, 100k) of the steady profile, at single speed
    #[arg(long, default_value = "100k", value_name = "N")]
    pub(crate) rate: Count,
    /// One message in so many is a tick that asks for an order
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) trigger_every: u64,
    /// Place of that message in its datagram
    #[arg(long, value_enum, default_value_t = AtKind::Any)]
    pub(crate) trigger_at: AtKind,
    /// Messages of a datagram of line A; line B has one fewer
    #[arg(long, default_value_t = 4, value_name = "N")]
    pub(crate) messages_per_packet: u16,
    /// Instruments, each with a book
    #[arg(long, default_value_t = 1000, value_name = "N")]
    pub(crate) symbols: u32,
    /// Seed of the messages, and of the gaps
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) seed: u64,
    /// The multicast group of line A; line B has the next address
    #[arg(long, default_value = "239.192.74.20", value_name = "ADDRESS")]
    pub(crate) group: Ipv4Addr,
    /// Time for each combination; with 1,000 ticks a second p99 needs 10 s, p99.9 100 s
    #[arg(long, default_value = "10s", value_name = "TIME", value_parser = duration)]
    pub(crate) duration: Duration,
    #[command(flatten)]
    pub(crate) place: Place,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WorkKind {
    Reflex,
    Decode,
    Book,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OrderKind {
    /// NewOrderSingle in a session of FIX 4.4
    Fix,
    /// EnterOrder of OUCH 5.0 over SoupBinTCP
    Ouch,
    /// 16 bytes, for reference
    Raw,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProfileKind {
    /// The same all the time
    Steady,
    /// Eight times the rate at first, falling to once
    Open,
    /// A hundredth of the rate
    Sparse,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AtKind {
    First,
    Last,
    Any,
}
