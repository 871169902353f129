//! A line as a user names it: a group, the interface that it comes by, its sources.

use sidestep_sys::Problem;
use std::fmt::{self, Display, Formatter};
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

/// Lines of one handler: A and B at each of four sites.
pub const LINES_MAX: usize = 8;
/// Sources of one line. The kernel allows ten for each socket (igmp_max_msf).
pub const SOURCES_MAX: usize = 8;

/// One of the ways by which the same messages come: a multicast group on an interface.
///
/// Written `INTERFACE:GROUP:PORT`, with the sources behind it for source-specific multicast: `eth1:239.192.0.1:26400@192.0.2.7`,
/// `eth1:239.192.0.1:26400@192.0.2.7,192.0.2.8`, `eth1:[ff15::1]:26400`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The interface that it comes by.
    pub interface: String,
    /// The group and its port. An address that is none of a group is bound instead: a line of unicast datagrams.
    pub group: SocketAddr,
    /// The senders that are received; everyone, if none is given.
    pub sources: Vec<IpAddr>,
}

impl Line {
    /// A line from everyone.
    pub fn new(interface: impl Into<String>, group: SocketAddr) -> Self {
        Self { interface: interface.into(), group, sources: Vec::new() }
    }
}

impl FromStr for Line {
    type Err = Problem;

    fn from_str(text: &str) -> Result<Self, Problem> {
        let wrong = |why: &str| {
            Problem::usage(format!("cannot use the line {text}"), why)
                .next("write INTERFACE:GROUP:PORT, as eth1:239.192.0.1:26400, and @SOURCE behind it for one sender")
        };
        let (place, sources) = text.split_once('@').map_or((text, None), |(place, sources)| (place, Some(sources)));
        let (interface, group) = place.split_once(':').ok_or_else(|| wrong("it has no interface"))?;
        let group: SocketAddr = group.parse().map_err(|_| wrong("it has no group with a port"))?;
        if interface.is_empty() {
            return Err(wrong("it has no interface"));
        }
        if group.port() == 0 {
            return Err(wrong("port 0 is no port of a group"));
        }
        let parse = |one: &str| one.parse::<IpAddr>().map_err(|_| wrong(&format!("{one:?} is no address of a sender")));
        let sources: Vec<IpAddr> =
            sources.into_iter().flat_map(|list| list.split(',')).map(parse).collect::<Result<_, _>>()?;
        if sources.len() > SOURCES_MAX {
            return Err(wrong(&format!("it has more than {SOURCES_MAX} sources")));
        }
        if sources.iter().any(|source| source.is_ipv4() != group.is_ipv4()) {
            return Err(wrong("group and sources are of different families"));
        }
        if !sources.is_empty() && !group.ip().is_multicast() {
            return Err(wrong("sources select the senders of a group, and the address is none of a group"));
        }
        Ok(Self { interface: interface.to_owned(), group, sources })
    }
}

impl Display for Line {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}", self.interface, self.group)?;
        for (number, source) in self.sources.iter().enumerate() {
            write!(out, "{}{source}", if number == 0 { '@' } else { ',' })?;
        }
        Ok(())
    }
}

/// The name of a line by its place: A, B, C.
pub fn name(place: usize) -> char {
    u8::try_from(place).ok().filter(|place| *place < 26).map_or('?', |place| char::from(b'A' + place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_reads_back_as_it_was_written() {
        for text in [
            "eth1:239.192.0.1:26400",
            "eth1:239.192.0.1:26400@192.0.2.7",
            "eth1:239.192.0.1:26400@192.0.2.7,192.0.2.8",
            "eth1:[ff15::1]:26400@2001:db8::1",
            "lo:127.0.0.1:26400",
        ] {
            assert_eq!(text.parse::<Line>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_no_line_is_refused_with_its_reason() {
        let why = |text: &str| text.parse::<Line>().unwrap_err().to_string();
        assert!(why("239.192.0.1:26400").contains("no group with a port"));
        assert!(why("eth1").contains("no interface"));
        assert!(why(":239.192.0.1:26400").contains("no interface"));
        assert!(why("eth1:239.192.0.1:0").contains("port 0"));
        assert!(why("eth1:239.192.0.1:1@x").contains("no address of a sender"));
        assert!(why("eth1:239.192.0.1:1@::1").contains("different families"));
        assert!(why("eth1:192.0.2.1:1@192.0.2.7").contains("none of a group"));
        assert!(why(&format!("eth1:239.192.0.1:1@{}", ["192.0.2.1"; 9].join(","))).contains("more than 8 sources"));
    }

    #[test]
    fn lines_are_named_by_letters() {
        assert_eq!([0, 1, 25, 26, usize::MAX].map(name), ['A', 'B', 'Z', '?', '?']);
    }
}
