//! The flags of `sidestep market decode`, `replay` and `generate`: commands on files.

use clap::{Args, ValueEnum};
use sidestep_market::units::Symbol;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

const DECODE_HELP: &str = "\
Captures are pcap or pcapng, of any byte order; BinaryFILE has messages alone, each behind its length.
For packed files: zcat FILE.gz | sidestep market decode -. Streams of TCP (OUCH, GLIMPSE) are skipped.

Exit codes: 1 something could not be decoded, or the file is cut off; what could be is printed.";

#[derive(Debug, Args)]
#[command(after_help = DECODE_HELP)]
pub(crate) struct MarketDecode {
    /// A capture (pcap, pcapng) or a file of messages (BinaryFILE); `-` for standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
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

/// The kind of what is replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Depth {
    /// Price levels
    Levels,
    /// Price levels, and the orders of each in their priority
    Orders,
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
    fn symbols_have_a_length() {
        assert_eq!(symbol("AAPL").map(|name| name.to_string()), Ok("AAPL".to_owned()));
        assert!(symbol("").is_err() && symbol("NINELONGX").is_err());
    }
}
