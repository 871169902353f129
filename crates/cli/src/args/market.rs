//! The flags of `sidestep market`.

use super::{MarketDecode, MarketGenerate, MarketRecord, MarketReplay, MarketWatch};
use crate::args_fix::Thread;
use crate::values::duration;
use clap::{Args, Subcommand};
use sidestep_venue::tape::MESSAGES_PER_PACKET_MAX;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

#[derive(Debug, Subcommand)]
pub(crate) enum Market {
    /// Run an exchange: books, a load by seed, ITCH on two lines, re-requests, GLIMPSE, OUCH, FIX
    Exchange(Box<MarketExchange>),
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

/// Remarks on `market exchange`.
const NOTES: &str = "\
ITCH 5.0 goes to two groups by MoldUDP64, in datagrams of different boundaries. GLIMPSE and OUCH are
over SoupBinTCP 3.00, with any user and password; an OUCH client resumes by the sequence number of
its login. Equal seeds give equal orders of the load. The first Ctrl-C ends the session, which is
told for 2.5 s; re-requests are answered meanwhile. Do not connect it to a market.

--profile replay:FILE enters the orders of a recorded day of ITCH 5.0 (BinaryFILE), with its
instruments and times; --symbols, --live-orders and --rate do not count then. An execution becomes
an order of the other side. A message that does not fit is skipped; how many were, and why, is told
at the end, which comes with the file's. A capture becomes such a file by:
sidestep market decode day.pcapng --binaryfile FILE

Exit codes: 1 the recording cannot be read to its end.";

#[derive(Debug, Args)]
#[command(after_help = NOTES)]
pub(crate) struct MarketExchange {
    /// Interface that the feed leaves by. PORTs are opened on 127.0.0.1 with lo, else on all addresses
    #[arg(long, default_value = "lo", value_name = "IF")]
    pub(crate) interface: String,
    /// Group and port of line A
    #[arg(long, default_value = "239.192.0.1:26400", value_name = "GROUP:PORT", help_heading = "Feed", value_parser = group)]
    pub(crate) group_a: SocketAddr,
    /// Group and port of line B
    #[arg(long, default_value = "239.192.0.2:26400", value_name = "GROUP:PORT", help_heading = "Feed", value_parser = group)]
    pub(crate) group_b: SocketAddr,
    /// Hops that the feed may go
    #[arg(long, default_value_t = 1, value_name = "N", help_heading = "Feed", value_parser = clap::value_parser!(u32).range(0..=255))]
    pub(crate) ttl: u32,
    /// Messages of a datagram of line A at most; line B has half as many again, plus one
    #[arg(long, default_value_t = 4, value_name = "N", help_heading = "Feed",
          value_parser = clap::value_parser!(u16).range(1..=i64::from(MESSAGES_PER_PACKET_MAX)))]
    pub(crate) messages_per_packet: u16,
    /// Part of line A's datagrams that are dropped on purpose, such as 0.5%
    #[arg(long, default_value = "0%", value_name = "PART", help_heading = "Feed", value_parser = loss)]
    pub(crate) loss_a: u32,
    /// Part of line B's datagrams that are dropped on purpose
    #[arg(long, default_value = "0%", value_name = "PART", help_heading = "Feed", value_parser = loss)]
    pub(crate) loss_b: u32,
    /// Messages that are kept for re-requests
    #[arg(long, default_value = "1M", value_name = "N", help_heading = "Feed", value_parser = history)]
    pub(crate) history: u64,
    /// Port of re-requests, or ADDRESS:PORT
    #[arg(long, default_value = "26401", value_name = "PORT", help_heading = "Servers")]
    pub(crate) rerequest: String,
    /// Port of GLIMPSE; HOST:PORT, unix:PATH, shm:PATH or xdp:INTERFACE:ADDRESS:PORT
    #[arg(long, default_value = "26402", value_name = "PORT", help_heading = "Servers")]
    pub(crate) glimpse: String,
    /// Port of OUCH, or an address as of --glimpse
    #[arg(long, default_value = "26403", value_name = "PORT", help_heading = "Servers")]
    pub(crate) ouch: String,
    /// Take orders by FIX, too, at this port or address
    #[arg(long, value_name = "PORT", help_heading = "Servers")]
    pub(crate) fix: Option<String>,
    /// Cancel the orders of an OUCH user whose connection is lost
    #[arg(long, help_heading = "Servers")]
    pub(crate) cancel_on_disconnect: bool,
    /// Instruments: AAAA, AAAB, ...
    #[arg(long, default_value_t = 8_000, value_name = "N", help_heading = "Load", value_parser = clap::value_parser!(u32).range(1..=65_535))]
    pub(crate) symbols: u32,
    /// Live orders that the load keeps, at least 8 for each instrument
    #[arg(long, default_value = "200k", value_name = "N", help_heading = "Load", value_parser = live_orders)]
    pub(crate) live_orders: u64,
    /// Messages per second of the load; 0: none after the opening
    #[arg(long, default_value = "10k", value_name = "N", help_heading = "Load", value_parser = rate)]
    pub(crate) rate: u64,
    /// Course of the rate: `steady`; `open`, eight times the rate at first, falling to once within --burst; `sparse`, a hundredth;
    /// `replay:FILE`, the orders and times of a recording, `-` for standard input
    #[arg(long, default_value = "steady", value_name = "PROFILE", help_heading = "Load")]
    pub(crate) profile: LoadProfile,
    /// Length of the opening burst
    #[arg(long, default_value = "10s", value_name = "TIME", help_heading = "Load", value_parser = duration)]
    pub(crate) burst: Duration,
    /// How many times faster than the profile, or the recording, messages come
    #[arg(long, default_value_t = 1, value_name = "N", help_heading = "Load", value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub(crate) speed: u64,
    /// The time of day from which a recording's times are waited for, such as 09:30 [default: its first order's]
    #[arg(long, value_name = "HH:MM[:SS]", help_heading = "Load", value_parser = time_of_day)]
    pub(crate) from: Option<u64>,
    /// Seed of the load and of the losses
    #[arg(long, default_value_t = 1, value_name = "N", help_heading = "Load")]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) thread: Thread,
    /// End after this time [default: at Ctrl-C]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) duration: Option<Duration>,
    /// Write the counts at the end as JSON; `-` for standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

/// The course of the load's rate, or the file that has its orders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LoadProfile {
    Steady,
    Open,
    Sparse,
    Replay(PathBuf),
}

impl FromStr for LoadProfile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.strip_prefix("replay:")) {
            ("steady", _) => Ok(Self::Steady),
            ("open", _) => Ok(Self::Open),
            ("sparse", _) => Ok(Self::Sparse),
            (_, Some(file)) if !file.is_empty() => Ok(Self::Replay(file.into())),
            _ => Err("write steady, open, sparse or replay:FILE".to_owned()),
        }
    }
}

/// A time of day, as ns since midnight.
fn time_of_day(text: &str) -> Result<u64, String> {
    let part = |digits: &str, end: u64| {
        let is_number = digits.len() == 2 && digits.bytes().all(|byte| byte.is_ascii_digit());
        digits.parse::<u64>().ok().filter(|number| is_number && *number < end)
    };
    let parts: Vec<&str> = text.split(':').collect();
    let seconds = match parts[..] {
        [hours, minutes] => part(hours, 24).zip(part(minutes, 60)).map(|(hours, minutes)| hours * 3_600 + minutes * 60),
        [hours, minutes, seconds] => part(hours, 24)
            .zip(part(minutes, 60))
            .zip(part(seconds, 60))
            .map(|((hours, minutes), seconds)| hours * 3_600 + minutes * 60 + seconds),
        _ => None,
    };
    seconds
        .map(|seconds| seconds * 1_000_000_000)
        .ok_or_else(|| "write a time of day, such as 09:30 or 09:29:55".to_owned())
}

/// A number with k or M behind it, up to `max`.
fn number(text: &str, max: u64) -> Result<u64, String> {
    let (digits, factor) = match text.strip_suffix(['k', 'M']) {
        Some(digits) if text.ends_with('k') => (digits, 1_000),
        Some(digits) => (digits, 1_000_000),
        None => (text, 1),
    };
    let number = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    number.filter(|number| *number <= max).ok_or_else(|| format!("write a number up to {max}, such as 500 or 100k"))
}

fn rate(text: &str) -> Result<u64, String> {
    number(text, 10_000_000)
}

fn live_orders(text: &str) -> Result<u64, String> {
    number(text, 4_000_000)
}

fn history(text: &str) -> Result<u64, String> {
    number(text, 100_000_000)
        .and_then(|count| if count == 0 { Err("at least 1 is kept".to_owned()) } else { Ok(count) })
}

/// A part in percent, as parts of a million.
fn group(text: &str) -> Result<SocketAddr, String> {
    let group: SocketAddr = text.parse().map_err(|_| format!("{text:?} is no GROUP:PORT, as 239.192.0.1:26400"))?;
    match group.ip().is_multicast() && group.port() != 0 {
        true => Ok(group),
        false => Err(format!("{group} is no port of a multicast group (224.0.0.0/4, ff00::/8), as 239.192.0.1:26400")),
    }
}

fn loss(text: &str) -> Result<u32, String> {
    let percent = text.strip_suffix('%').and_then(|number| number.parse::<f64>().ok());
    let percent = percent.filter(|percent| (0.0..=100.0).contains(percent));
    percent.map(|percent| (percent * 10_000.0).round() as u32).ok_or_else(|| "write a part such as 0.5%".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_parts_have_their_units() {
        assert_eq!((rate("0"), rate("10k"), rate("1M")), (Ok(0), Ok(10_000), Ok(1_000_000)));
        assert_eq!((loss("0.5%"), loss("100%")), (Ok(5_000), Ok(1_000_000)));
        for wrong in ["", "k", "-1", "11M", "1G", "99999999999999999999k"] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
        for wrong in ["", "1", "%", "101%", "-1%", "NaN%"] {
            assert!(loss(wrong).is_err(), "{wrong}");
        }
        assert!(history("0").is_err());
    }

    #[test]
    fn a_profile_is_a_course_or_a_file() {
        assert_eq!("open".parse(), Ok(LoadProfile::Open));
        assert_eq!("replay:day:1.itch".parse(), Ok(LoadProfile::Replay("day:1.itch".into())));
        for wrong in ["", "replay", "replay:", "Steady", "day.itch"] {
            assert!(wrong.parse::<LoadProfile>().is_err_and(|why| why.contains("replay:FILE")), "{wrong}");
        }
    }

    #[test]
    fn a_time_of_day_has_hours_and_minutes() {
        assert_eq!((time_of_day("09:30"), time_of_day("23:59:59")), (Ok(34_200_000_000_000), Ok(86_399_000_000_000)));
        for wrong in ["", "9:30", "09", "24:00", "09:60", "09:30:60", "09:30:00:00", "-1:00", "+9:30"] {
            assert!(time_of_day(wrong).is_err(), "{wrong}");
        }
    }
}
