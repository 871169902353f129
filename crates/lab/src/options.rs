//! Options of a lab.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use sidestep_sys::Problem;

use super::name::LabName;
use crate::wire::{Directions, Impairment};

/// The most queues. The kernel allows 4096, but a queue without a CPU of its own measures nothing.
const QUEUES_MAX: u32 = 128;
/// The default MTU of a veth, as of Ethernet.
pub const MTU_USUAL: u32 = 1_500;
/// The smallest MTU for IPv6 (RFC 8200).
const MTU_MIN: u32 = 1_280;
/// The largest MTU that network devices commonly support.
const MTU_MAX: u32 = 9_216;

/// The options of a lab. The default is a lab that ends with its owner, with a perfect wire.
#[derive(Clone, Debug)]
pub struct Options {
    /// Its name (`a-z`, `0-9`, `-`, at most 32); `None` for a random one.
    pub name: Option<String>,
    /// Its lifetime.
    pub lifetime: Lifetime,
    /// The state of checksums in the frames between the hosts.
    pub checksums: Checksums,
    /// The impairment of the wire; `None` for a perfect one, a single veth pair without a relay.
    pub impairment: Option<Directions<Impairment>>,
    /// Set for a second pair beside the wire ([`super::Lab::by_frames`]), over which the kernel sends and receives frame by
    /// frame, as over a cable: nothing is segmented or merged by its devices. It is never impaired.
    pub frames_pair: bool,
    /// Transmit and receive queues of each end of the veth.
    pub queues: u32,
    /// The MTU of the wire, bytes.
    pub mtu: u32,
    /// The program that a persistent lab with an impaired wire starts as `PROGRAM lab wire NAME`; it calls
    /// [`crate::wire::run`]. An ephemeral lab runs the wire on a thread of this process.
    pub relay_program: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            name: None,
            lifetime: Lifetime::Ephemeral,
            checksums: Checksums::Offloaded,
            impairment: None,
            frames_pair: false,
            queues: 1,
            mtu: MTU_USUAL,
            relay_program: None,
        }
    }
}

/// The lifetime of a lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// Until its value is dropped. If the process is killed first, the next [`super::Lab::up`] removes it.
    Ephemeral,
    /// Until [`super::Lab::down`].
    Persistent,
}

/// The state of checksums in the frames between the hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Checksums {
    /// The veth's default: checksums are not computed, and segments of up to 64 KiB cross the wire in one piece.
    Offloaded,
    /// Offloads are off on both ends, those of VLAN tags, too: every frame is as on a cable, for user-space stacks and
    /// captures. An impaired wire always has this, because only real checksums reveal a flipped bit.
    True,
}

impl Options {
    /// Refuses impossible options before anything is changed.
    pub(crate) fn check(&self) -> Result<(), Problem> {
        if let Some(name) = &self.name {
            LabName::new(name)?;
        }
        if !(1..=QUEUES_MAX).contains(&self.queues) {
            return Err(Problem::usage(format!("cannot give a veth {} queues", self.queues), "out of range")
                .next(format!("ask for 1 to {QUEUES_MAX} queues")));
        }
        if !(MTU_MIN..=MTU_MAX).contains(&self.mtu) {
            return Err(Problem::usage(format!("cannot give a veth an MTU of {}", self.mtu), "out of range")
                .next(format!("ask for {MTU_MIN} (IPv6 needs it) to {MTU_MAX} bytes")));
        }
        if let Some(directions) = &self.impairment {
            directions.a_to_b.check()?;
            directions.b_to_a.check()?;
        }
        if self.lifetime == Lifetime::Persistent && self.impairment.is_some() && self.relay_program.is_none() {
            return Err(Problem::usage("cannot impair the wire of a persistent lab", "no program to run the wire")
                .next("set Options::relay_program to a program that calls sidestep_lab::wire::run"));
        }
        Ok(())
    }

    /// The effective state of checksums: an impaired wire forces real ones.
    pub(crate) fn effective_checksums(&self) -> Checksums {
        if self.impairment.is_some() { Checksums::True } else { self.checksums }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_possible() {
        Options::default().check().unwrap();
    }

    #[test]
    fn impossible_wishes_are_refused_by_name() {
        let wire = Some(Directions::<Impairment>::default());
        let contradiction = Impairment { jitter_ns: 1, ..Impairment::default() };
        for (options, named) in [
            (Options { name: Some("A".into()), ..Options::default() }, "'A'"),
            (Options { queues: 0, ..Options::default() }, "0 queues"),
            (Options { queues: 129, ..Options::default() }, "129 queues"),
            (Options { mtu: 1_279, ..Options::default() }, "MTU of 1279"),
            (Options { mtu: 9_217, ..Options::default() }, "MTU of 9217"),
            (
                Options { impairment: wire.clone(), lifetime: Lifetime::Persistent, ..Options::default() },
                "relay_program",
            ),
            (
                Options {
                    impairment: wire.map(|wire| Directions { b_to_a: contradiction, ..wire }),
                    ..Options::default()
                },
                "jitter",
            ),
        ] {
            let problem = options.check().unwrap_err();
            assert!(problem.to_string().contains(named), "{problem}");
        }
    }

    #[test]
    fn an_impaired_wire_forces_true_checksums() {
        let options = Options { impairment: Some(Directions::default()), ..Options::default() };
        assert_eq!(options.effective_checksums(), Checksums::True);
    }
}
