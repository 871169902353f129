//! The flags of `sidestep market watch` and `record`: commands on the lines of a feed.

use super::market_files::symbol;
use crate::values::duration;
use clap::{Args, ValueEnum};
use sidestep_feed_handler::Line;
use sidestep_market::units::Symbol;
use sidestep_socket::stream::Endpoint;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// The lines of a feed.
#[derive(Debug, Args)]
pub(crate) struct FeedLines {
    /// A line of the feed: INTERFACE:GROUP:PORT, for one sender with @SOURCE behind it; give one for A and one for B
    #[arg(long, value_name = "LINE", required = true, value_parser = line)]
    pub(crate) line: Vec<Line>,
    /// Receive by the kernel's sockets, also where the lines could go past the kernel
    #[arg(long)]
    pub(crate) by_kernel: bool,
    /// Socket of the control plane
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
    /// Never sleep: no datagram waits for a wake-up, at the cost of a CPU
    #[arg(long)]
    pub(crate) spin: bool,
    /// Receive on this CPU
    #[arg(long, value_name = "N")]
    pub(crate) cpu: Option<u32>,
}

/// Where missing messages come from.
#[derive(Debug, Args)]
pub(crate) struct Recovery {
    /// A re-request server of the feed; may be given several times, they are asked in turn
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) rerequest: Vec<SocketAddr>,
    /// A snapshot server (GLIMPSE): HOST:PORT
    #[arg(long, value_name = "ENDPOINT", value_parser = endpoint)]
    pub(crate) glimpse: Option<Endpoint>,
    /// How long a missing message is waited for until it is asked for, or is lost
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = duration)]
    pub(crate) gap_wait: Duration,
    /// User at the snapshot server
    #[arg(long, value_name = "NAME", requires = "glimpse", default_value = "", hide_default_value = true)]
    pub(crate) user: String,
    /// File with the password at the snapshot server
    #[arg(long, value_name = "FILE", requires = "glimpse")]
    pub(crate) password_file: Option<PathBuf>,
}

const WATCH_HELP: &str = "\
A feed is live while no message is missing. Without --rerequest and --glimpse it is joined at the
first message that comes: orders from before are unknown, and what is done to them is refused.

Exit codes of --once and --json: 3 the feed is not live, or its books are incomplete.";

#[derive(Debug, Args)]
#[command(after_help = WATCH_HELP)]
pub(crate) struct MarketWatch {
    #[command(flatten)]
    pub(crate) lines: FeedLines,
    #[command(flatten)]
    pub(crate) recovery: Recovery,
    /// The instrument whose book is shown first [default: the busiest]
    #[arg(long, value_name = "NAME", value_parser = symbol)]
    pub(crate) symbol: Option<Symbol>,
    /// Levels of each side that are shown
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) levels: u16,
    /// Publish events, and best bids and offers, for other processes in this folder, as /dev/shm/feed
    #[arg(long, value_name = "FOLDER")]
    pub(crate) publish: Option<PathBuf>,
    /// Time between two looks
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration)]
    pub(crate) interval: Duration,
    /// Print one screen as text, and exit
    #[arg(long)]
    pub(crate) once: bool,
    /// Write one look as JSON, and exit; `-` for standard output
    #[arg(long, value_name = "FILE", conflicts_with = "once")]
    pub(crate) json: Option<PathBuf>,
    /// Longest wait of --once and --json for the feed to be live
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    pub(crate) wait: Duration,
}

/// When what was recorded is on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sync {
    /// When the kernel writes it: a crash of the machine may lose half a minute
    Never,
    /// Once a second (fdatasync)
    Second,
    /// At the end, before the command says that it is there
    End,
}

const RECORD_HELP: &str = "\
The file is a pcapng: one interface for each line, its datagrams with the time of their receipt, ns.
It can be read while it is written, and after a crash up to its last whole datagram. A disk that is
too slow never slows down the receiving thread: what finds no room in memory is counted as lost.

Exit codes: 1 datagrams were lost, or the file could not be written to its end.";

#[derive(Debug, Args)]
#[command(after_help = RECORD_HELP)]
pub(crate) struct MarketRecord {
    /// The file to write; `-` for standard output. An existing one is refused
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) lines: FeedLines,
    /// Stop after this time
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) duration: Option<Duration>,
    /// Stop when the file has this many bytes
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) bytes: Option<u64>,
    /// When what was recorded is on the disk
    #[arg(long, value_enum, default_value_t = Sync::End)]
    pub(crate) sync: Sync,
    /// Memory for datagrams that wait for the disk, MiB
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) memory: u32,
}

pub(super) fn line(text: &str) -> Result<Line, String> {
    text.parse().map_err(|problem: sidestep_sys::Problem| problem.to_string())
}

fn endpoint(text: &str) -> Result<Endpoint, String> {
    Endpoint::parse(text).map_err(|problem| problem.to_string())
}
