//! The rules that choose which sockets are accelerated.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::str::FromStr;

/// The most rules: each is compared with every socket that is made.
const RULES_MAX: usize = 256;

/// The protocol of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// The choice of sockets to accelerate: rules, of which the first that matches decides. The default accelerates all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accelerate(Vec<Rule>);

/// A rule; what it leaves open matches everything.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    excludes: bool,
    transport: Option<Transport>,
    /// An address and the length of its prefix, bits.
    network: Option<(IpAddr, u8)>,
    ports: Option<RangeInclusive<u16>>,
}

impl Accelerate {
    /// Returns whether a socket with these ends is to be accelerated. An end that is not known yet matches no rule that
    /// names an address or a port.
    pub fn admits(&self, transport: Transport, local: Option<SocketAddr>, remote: Option<SocketAddr>) -> bool {
        let decisive = self.0.iter().find(|rule| rule.matches(transport, local, remote));
        decisive.map_or_else(|| self.0.iter().all(|rule| rule.excludes), |rule| !rule.excludes)
    }
}

impl Rule {
    const EVERYTHING: Self = Self { excludes: false, transport: None, network: None, ports: None };

    fn matches(&self, transport: Transport, local: Option<SocketAddr>, remote: Option<SocketAddr>) -> bool {
        let names_no_end = self.network.is_none() && self.ports.is_none();
        self.transport.is_none_or(|wanted| wanted == transport)
            && (names_no_end || [local, remote].into_iter().flatten().any(|end| self.matches_end(end)))
    }

    fn matches_end(&self, end: SocketAddr) -> bool {
        self.ports.as_ref().is_none_or(|ports| ports.contains(&end.port()))
            && self.network.is_none_or(|(address, prefix)| is_inside(end.ip().to_canonical(), address, prefix))
    }
}

/// Returns whether an address is inside a network.
fn is_inside(address: IpAddr, network: IpAddr, prefix: u8) -> bool {
    match (address, network) {
        (IpAddr::V4(address), IpAddr::V4(network)) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
            address.to_bits() & mask == network.to_bits() & mask
        }
        (IpAddr::V6(address), IpAddr::V6(network)) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
            address.to_bits() & mask == network.to_bits() & mask
        }
        _ => false,
    }
}

impl FromStr for Accelerate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "all" => return Ok(Self::default()),
            "none" => return Ok(Self(vec![Rule { excludes: true, ..Rule::EVERYTHING }])),
            _ => {}
        }
        let rules = text.split(',').map(|rule| rule.trim().parse().map_err(|why| format!("{rule:?}: {why}")));
        let rules: Vec<Rule> = rules.collect::<Result<_, String>>()?;
        if rules.len() > RULES_MAX { Err(format!("there are more than {RULES_MAX} rules")) } else { Ok(Self(rules)) }
    }
}

impl FromStr for Rule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (excludes, rest) = text.strip_prefix('!').map_or((false, text), |rest| (true, rest));
        let (transport, rest) = if let Some(rest) = rest.strip_prefix("tcp") {
            (Some(Transport::Tcp), rest)
        } else if let Some(rest) = rest.strip_prefix("udp") {
            (Some(Transport::Udp), rest)
        } else {
            (None, rest)
        };
        let rest = match (transport, rest.strip_prefix(':')) {
            (Some(_), Some(rest)) => rest,
            (Some(_), None) if !rest.is_empty() => return Err("a colon follows tcp or udp".into()),
            _ => rest,
        };
        let (network, ports) = split_ports(rest)?;
        let network = (!network.is_empty()).then(|| parse_network(network)).transpose()?;
        let ports = ports.map(parse_ports).transpose()?;
        if transport.is_none() && network.is_none() && ports.is_none() {
            return Err("a rule names a protocol, an address or a port".into());
        }
        Ok(Self { excludes, transport, network, ports })
    }
}

/// Splits `ADDRESS/PREFIX:PORTS`; an IPv6 address is in brackets.
fn split_ports(text: &str) -> Result<(&str, Option<&str>), String> {
    let Some(inner) = text.strip_prefix('[') else {
        return Ok(text.split_once(':').map_or((text, None), |(network, ports)| (network, Some(ports))));
    };
    let (network, rest) = inner.split_once(']').ok_or("a bracket is not closed")?;
    match rest.strip_prefix(':') {
        Some(ports) => Ok((network, Some(ports))),
        None if rest.is_empty() => Ok((network, None)),
        None => Err("only a port may follow the address".into()),
    }
}

fn parse_network(text: &str) -> Result<(IpAddr, u8), String> {
    let (address, prefix) = text.split_once('/').map_or((text, None), |(address, prefix)| (address, Some(prefix)));
    let address: IpAddr = address.parse().map_err(|_| format!("{address:?} is no address; names are not looked up"))?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let prefix = prefix.map_or(Some(most), |prefix| prefix.parse().ok().filter(|prefix| *prefix <= most));
    Ok((address, prefix.ok_or_else(|| format!("a prefix has 0 to {most} bits"))?))
}

fn parse_ports(text: &str) -> Result<RangeInclusive<u16>, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let port = |text: &str| text.parse().ok().filter(|port| *port > 0);
    let ports = port(first).zip(port(last)).filter(|(first, last)| first <= last);
    ports.map(|(first, last)| first..=last).ok_or_else(|| format!("{text:?} is no port; ports are 1 to 65535"))
}

impl fmt::Display for Accelerate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0[..] {
            [] => f.write_str("all"),
            [Rule { excludes: true, transport: None, network: None, ports: None }] => f.write_str("none"),
            [first, rest @ ..] => {
                write!(f, "{first}")?;
                rest.iter().try_for_each(|rule| write!(f, ",{rule}"))
            }
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.excludes { "!" } else { "" })?;
        let has_end = self.network.is_some() || self.ports.is_some();
        match self.transport {
            Some(Transport::Tcp) => f.write_str(if has_end { "tcp:" } else { "tcp" })?,
            Some(Transport::Udp) => f.write_str(if has_end { "udp:" } else { "udp" })?,
            None => {}
        }
        match self.network {
            Some((IpAddr::V4(address), prefix)) => write!(f, "{address}/{prefix}")?,
            Some((IpAddr::V6(address), prefix)) => write!(f, "[{address}/{prefix}]")?,
            None => {}
        }
        match &self.ports {
            Some(ports) if ports.start() == ports.end() => write!(f, ":{}", ports.start()),
            Some(ports) => write!(f, ":{}-{}", ports.start(), ports.end()),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn admits(rules: &str, transport: Transport, local: &str, remote: &str) -> bool {
        let end = |text: &str| (!text.is_empty()).then(|| text.parse().unwrap());
        rules.parse::<Accelerate>().unwrap().admits(transport, end(local), end(remote))
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        use Transport::{Tcp, Udp};
        assert!(admits("all", Udp, "", "") && !admits("none", Tcp, "10.0.0.1:1", "10.0.0.2:2"));
        assert!(admits("tcp", Tcp, "", "") && !admits("tcp", Udp, "", ""));
        assert!(admits("tcp::6379", Tcp, "0.0.0.0:6379", "") && admits(":6379", Tcp, "", "10.0.0.2:6379"));
        assert!(!admits("tcp::6379", Tcp, "", ""), "an end that is not known matches nothing");
        assert!(
            !admits("!10.0.0.0/8", Tcp, "192.0.2.1:5", "10.9.9.9:1") && admits("!10.0.0.0/8", Tcp, "", "11.0.0.1:1")
        );
        assert!(
            !admits("!:22,10.0.0.0/8", Tcp, "", "10.0.0.1:22") && admits("!:22,10.0.0.0/8", Tcp, "", "10.0.0.1:23")
        );
        assert!(!admits("!:22,10.0.0.0/8", Tcp, "", "11.0.0.1:23"));
        assert!(admits("[2001:db8::/32]:80-90", Tcp, "", "[2001:db8::9]:85"));
        assert!(!admits("[2001:db8::/32]:80-90", Tcp, "", "[2001:db8::9]:91"));
        assert!(admits("10.0.0.0/8", Udp, "[::ffff:10.0.0.1]:1", ""), "an address of IPv4 in a socket of IPv6");
        assert!(admits("0.0.0.0/0", Udp, "", "1.2.3.4:5") && admits("[::/0]", Udp, "", "[::1]:5"));
    }

    #[test]
    fn what_is_no_rule_is_refused() {
        for wrong in [
            "",
            ",",
            "!",
            "tcpx",
            "example.org",
            "10.0.0.0/33",
            ":0",
            ":9-8",
            ":65536",
            "[::1",
            "[::1]x",
            "::1",
            "tcp:,",
        ] {
            assert!(wrong.parse::<Accelerate>().is_err(), "{wrong}");
        }
        assert!(vec![":1"; RULES_MAX + 1].join(",").parse::<Accelerate>().is_err());
    }

    proptest! {
        #[test]
        fn rules_read_back_as_they_are_written(text in "!?(tcp:|udp:)?(10\\.1\\.2\\.3(/[0-9])?|\\[2001:db8::1(/6[0-4])?\\])(:[1-9][0-9]{0,3})?(,!?:[1-9]-[1-9][0-9])?") {
            let rules: Accelerate = text.parse().unwrap();
            prop_assert_eq!(rules.to_string().parse::<Accelerate>().unwrap(), rules);
        }

        #[test]
        fn no_text_is_too_strange(text in ".{0,64}") {
            let _ = text.parse::<Accelerate>();
        }
    }
}
