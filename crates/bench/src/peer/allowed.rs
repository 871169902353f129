//! Rights of a measuring end, beyond having its messages answered. Another program of the same run may ask for
//! everything; a client over the network, for what the flags of `bench serve` allow.

use sidestep_report::cmdline::redact_host;
use sidestep_report::schema::Host;
use sidestep_sys::Problem;
use std::net::Ipv4Addr;

/// The rights of one session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowed {
    /// The right to choose the CPU of pinned paths.
    pub cpu: bool,
    /// The number of bytes to stream beyond those received.
    pub stream_bytes: u64,
    /// The right to the host's name, kernel version and kernel command line.
    pub facts: bool,
    /// The right to groups that are routed beyond the site.
    pub any_group: bool,
    /// The right to have acceptors of FIX started, with their stores in a folder that goes with the session.
    pub fix: bool,
}

impl Allowed {
    /// All rights, for the other end of the same run.
    pub const EVERYTHING: Self = Self { cpu: true, stream_bytes: u64::MAX, facts: true, any_group: true, fix: true };

    /// Returns the facts about the host that may be sent.
    pub(super) fn told(&self, mut host: Host) -> Host {
        if self.facts {
            redact_host(&mut host);
            return host;
        }
        let version = host.kernel.split(|c: char| c != '.' && !c.is_ascii_digit()).next().unwrap_or_default();
        let kernel = version.split('.').take(2).collect::<Vec<_>>().join(".");
        let (hostname, cmdline) = ("(not told)".into(), "(not told)".into());
        Host { hostname, cmdline, kernel, ..host }
    }

    /// Returns the CPU of a pinned path: `own`, unless another one was asked for and is allowed.
    pub(super) fn cpu(&self, asked: Option<u32>, own: u32) -> Result<u32, Problem> {
        match asked {
            Some(other) if other != own && !self.cpu => Err(Problem::usage(
                format!("cannot pin to CPU {other}"),
                "clients may not choose the CPUs of this host",
            )
            .next("leave the second number of --cpus out, or start it with --allow-cpu")),
            asked => Ok(asked.unwrap_or(own)),
        }
    }

    /// Refuses to start acceptors.
    pub(super) fn check_fix(&self) -> Result<(), Problem> {
        if self.fix {
            return Ok(());
        }
        Err(Problem::usage("cannot start an acceptor of FIX", "clients may not start programs on this host")
            .next("start it with --fix"))
    }

    /// Checks a group: only administratively scoped ones (RFC 2365), so that nobody can read other traffic of this host.
    pub(super) fn check_group(&self, group: Ipv4Addr) -> Result<(), Problem> {
        if self.any_group || group.octets()[0] == 239 {
            return Ok(());
        }
        Err(Problem::usage(format!("cannot join {group}"), "it is not an administratively scoped group")
            .next("use one of 239.0.0.0/8"))
    }
}

/// Bytes streamed in a session, in both directions.
#[derive(Debug, Default)]
pub(super) struct Streamed {
    /// A message from the measuring end.
    pub(super) received: u64,
    /// To it.
    pub(super) sent: u64,
}

impl Streamed {
    /// Returns the bytes that may be sent now; an error if that is less than one message.
    pub(super) fn budget(&self, allowed: &Allowed, size: u32) -> Result<u64, Problem> {
        let left = allowed.stream_bytes.saturating_add(self.received).saturating_sub(self.sent);
        if left >= u64::from(size) {
            return Ok(left);
        }
        Err(Problem::usage("cannot send a stream", "it sends no more bytes than it has received, plus --stream-bytes")
            .next("start it with --stream-bytes, such as --stream-bytes 100000000000 for a trusted network"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Allowed = Allowed { cpu: false, stream_bytes: 0, facts: false, any_group: false, fix: false };

    #[test]
    fn a_stranger_hears_what_a_measurement_needs() {
        let host = Host {
            hostname: "secret".into(),
            kernel: "6.18.44-fc-v657".into(),
            cmdline: "root=/dev/sda password=x".into(),
            cpus: 2,
            ..Host::default()
        };
        let told = NOTHING.told(host.clone());
        assert_eq!((told.kernel.as_str(), told.cpus), ("6.18", 2));
        assert!(!format!("{told:?}").contains("secret") && !format!("{told:?}").contains("sda"));
        let all = Allowed::EVERYTHING.told(host);
        assert_eq!((all.hostname.as_str(), all.cmdline.as_str(), all.cmdline_left_out), ("secret", "", 2));
    }

    #[test]
    fn nothing_is_sent_beyond_what_came_and_what_flags_allow() {
        let mut streamed = Streamed::default();
        assert!(streamed.budget(&NOTHING, 64).is_err());
        streamed.received = 640;
        assert_eq!(streamed.budget(&NOTHING, 64).unwrap(), 640);
        streamed.sent = 600;
        assert!(streamed.budget(&NOTHING, 64).is_err());
        assert_eq!(streamed.budget(&Allowed { stream_bytes: 100, ..NOTHING }, 64).unwrap(), 140);
        assert!(streamed.budget(&Allowed::EVERYTHING, 65_536).is_ok());
    }

    #[test]
    fn a_stranger_chooses_neither_cpus_nor_groups() {
        assert_eq!(NOTHING.cpu(None, 3).unwrap(), 3);
        assert_eq!(NOTHING.cpu(Some(3), 3).unwrap(), 3);
        assert!(NOTHING.cpu(Some(0), 3).is_err());
        assert_eq!(Allowed::EVERYTHING.cpu(Some(0), 3).unwrap(), 0);
        assert!(NOTHING.check_fix().is_err() && Allowed::EVERYTHING.check_fix().is_ok());
        assert!(NOTHING.check_group(Ipv4Addr::new(239, 1, 2, 3)).is_ok());
        assert!(NOTHING.check_group(Ipv4Addr::new(224, 0, 1, 1)).is_err());
    }
}
