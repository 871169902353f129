//! The flags of `sidestep market decode`, `replay` and `generate`: commands on files.

use crate::values::duration;
use clap::{Args, ValueEnum};
use sidestep_feed_handler::Line;
use sidestep_market::units::Symbol;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

const DECODE_HELP: &str = "\
Captures are pcap or pcapng, of any byte order; BinaryFILE has messages alone, each behind its
length. Packed files come by a pipe: zcat FILE.gz | sidestep market decode -. Streams of TCP (OUCH,
GLIMPSE) are skipped.

Exit codes: 1 something could not be decoded, or the file is cut off; what could be is printed.
3 messages are missing in the BinaryFILE.

Messages of all lines are printed, those of A and of B; --group shows one line. --symbol does not
know the instrument of D, E, X and U before it has seen its R, A or F; --locate does.";

#[derive(Debug, Args)]
#[command(after_help = DECODE_HELP)]
pub(crate) struct MarketDecode {
    /// A capture (pcap, pcapng) or a file of messages (BinaryFILE); `-` for standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// What the datagrams have
    #[arg(long, value_enum, default_value_t = MarketProtocol::Itch)]
    pub(crate) protocol: MarketProtocol,
    #[command(flatten)]
    pub(crate) filter: DecodeFilter,
    /// Print each datagram's time, addresses and numbers before its messages
    #[arg(long)]
    pub(crate) datagrams: bool,
    /// Print counts of types, sessions and gaps instead of messages
    #[arg(long)]
    pub(crate) summary: bool,
    /// Print one JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
    /// Write the messages to a BinaryFILE instead, those of all lines once and in order; `-` for standard output.
    /// An existing file is replaced
    #[arg(long, value_name = "OUT", conflicts_with_all = ["datagrams", "summary", "json", "symbol", "locate", "types", "count"])]
    pub(crate) binaryfile: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MarketProtocol {
    /// TotalView-ITCH 5.0 in MoldUDP64
    Itch,
    /// The layout of CME MDP 3.0, by the views of our schema
    Mdp,
}

#[derive(Clone, Debug, Default, Args)]
pub(crate) struct DecodeFilter {
    /// Only messages about these instruments
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = symbol)]
    pub(crate) symbol: Vec<Symbol>,
    /// Only messages with these stock locates
    #[arg(long, value_name = "N", value_delimiter = ',')]
    pub(crate) locate: Vec<u16>,
    /// Only messages of these types: their letters, as AFEX
    #[arg(long = "type", value_name = "LETTERS", default_value = "", hide_default_value = true)]
    pub(crate) types: String,
    /// Only datagrams to this group, or to this group and port
    #[arg(long, value_name = "ADDRESS[:PORT]")]
    pub(crate) group: Option<Destination>,
    /// Only datagrams to this UDP port
    #[arg(long, value_name = "PORT", conflicts_with = "group")]
    pub(crate) port: Option<u16>,
    /// Stop after this many messages
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
}

const REPLAY_HELP: &str = "\
A replay has the recorded times: it makes the same log on each run, at any speed. What no line has
brought cannot be asked for again; it is told as lost. With --to nothing is decoded: the datagrams
are sent to the first group given if they are of the first line of the file, and so on.

Exit codes: 3 messages were lost.";

#[derive(Debug, Args)]
#[command(after_help = REPLAY_HELP)]
pub(crate) struct MarketReplay {
    /// A capture (pcap, pcapng), as of `sidestep market record`; `-` for standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Write each message, and each change of the feed, as a line with the best bid and offer after it; `-` for standard output. An existing file is replaced
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
    /// 1 for the recorded pace, 8 for eight times as fast, `max` for no pauses
    #[arg(long, value_name = "FACTOR", default_value = "max", value_parser = speed)]
    pub(crate) speed: Speed,
    /// How long a missing message is waited for until it is lost, by the recorded times
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = duration)]
    pub(crate) gap_wait: Duration,
    /// Send the datagrams of a line again, to INTERFACE:GROUP:PORT; one for each line of the file
    #[arg(long, value_name = "LINE", value_parser = super::market_feed::line, conflicts_with_all = ["log", "parquet"])]
    pub(crate) to: Vec<Line>,
    /// Write the messages to a Parquet file, by the program sidestep-parquet
    #[arg(long, value_name = "FILE", conflicts_with = "log")]
    pub(crate) parquet: Option<PathBuf>,
    /// Only datagrams to this UDP port
    #[arg(long, value_name = "PORT")]
    pub(crate) port: Option<u16>,
}

#[derive(Debug, Args)]
pub(crate) struct MarketGenerate {
    /// The schema: SBE 1.0, XML
    #[arg(value_name = "SCHEMA.xml")]
    pub(crate) schema: PathBuf,
    /// The folder to write to: a module of your crate
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: PathBuf,
    /// Path of the runtime in the code
    #[arg(long, value_name = "PATH", default_value = "sidestep::market::sbe")]
    pub(crate) runtime: String,
}

/// The pace of a replay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Speed {
    /// So many times the recorded one.
    Times(f64),
    /// Without pauses.
    Max,
}

fn speed(text: &str) -> Result<Speed, String> {
    if text == "max" {
        return Ok(Speed::Max);
    }
    let factor = text.parse::<f64>().ok().filter(|factor| (0.001..=1e6).contains(factor));
    factor.map(Speed::Times).ok_or_else(|| format!("{text:?} is no factor from 0.001 to 1000000, and not `max`"))
}

/// The name of an instrument: up to eight letters.
pub(crate) fn symbol(text: &str) -> Result<Symbol, String> {
    Symbol::new(text).filter(|_| !text.is_empty()).ok_or_else(|| format!("{text:?} is no symbol of up to 8 letters"))
}

/// An address, with or without a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Destination {
    pub(crate) address: IpAddr,
    pub(crate) port: Option<u16>,
}

impl FromStr for Destination {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bare = text.trim_matches(['[', ']']).parse().map(|address| Self { address, port: None });
        let full = text.parse().map(|socket: SocketAddr| Self { address: socket.ip(), port: Some(socket.port()) });
        bare.or(full).map_err(|_| format!("{text:?} is no address, like 239.192.0.1 or 239.192.0.1:26400"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destinations_may_leave_the_port_out() {
        let of = |text: &str| text.parse::<Destination>();
        let address: IpAddr = "239.192.0.1".parse().unwrap();
        assert_eq!(of("239.192.0.1"), Ok(Destination { address, port: None }));
        assert_eq!(of("239.192.0.1:7"), Ok(Destination { address, port: Some(7) }));
        assert_eq!(of("[ff15::1]:7").map(|one| one.port), Ok(Some(7)));
        assert!(of("239.192.0").is_err_and(|why| why.contains("239.192.0.1:26400")));
    }

    #[test]
    fn a_speed_is_a_factor_or_none() {
        assert_eq!(
            (speed("max"), speed("8"), speed("0.5")),
            (Ok(Speed::Max), Ok(Speed::Times(8.0)), Ok(Speed::Times(0.5)))
        );
        for wrong in ["", "0", "-1", "nan", "inf", "fast"] {
            assert!(speed(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn symbols_have_a_length() {
        assert_eq!(symbol("AAPL").map(|name| name.to_string()), Ok("AAPL".to_owned()));
        assert!(symbol("").is_err() && symbol("NINELONGX").is_err());
    }
}
