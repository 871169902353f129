//! One interface with the steering program on it.

use sidestep_control_api::message::{Code, Downgrade, Entry, Mode, Protocol, Refusal};
use sidestep_control_api::table::Link;
use sidestep_sys::interface::name_of_index;
use sidestep_sys::offload::{self, Offload};
use sidestep_sys::problem::{note, say};
use sidestep_sys::xdp;
use sidestep_xdp_steering::{self as steer, Attach, Steering};
use std::path::PathBuf;
use std::time::Duration;

/// The time for an interface to come up again after the program was attached; a veth pair takes milliseconds.
const UP_WAIT: Duration = Duration::from_secs(3);

/// A program, and the settings passed to it.
pub(super) struct Interface {
    pub(super) steering: Steering,
    mac: Option<[u8; 6]>,
}

impl Interface {
    pub(super) fn new(steering: Steering) -> Self {
        Self { steering, mac: None }
    }

    /// Attaches the program in the best mode that is wanted and possible.
    pub(super) fn attach(link: &Link, mode: Mode, directory: PathBuf) -> Result<Self, Refusal> {
        let mode = if mode == Mode::Generic { steer::AttachMode::Generic } else { steer::AttachMode::Native };
        let steering = Steering::attach(&Attach { ifindex: link.index, mode, directory }).map_err(|problem| {
            let is_taken = xdp::device(&link.name).is_ok_and(|device| device.xdp_program.is_some());
            let code = if is_taken { Code::ProgramAttached } else { Code::Unsupported };
            Refusal::of(code, format!("cannot serve {}", link.name), &problem)
        })?;
        let facts = steering.facts();
        note(format!("attached to {} ({} mode), program {}", facts.interface, facts.mode, facts.program_id));
        if let Err(problem) = xdp::wait_until_up(&link.name, UP_WAIT) {
            say(problem.brief());
        }
        Ok(Self { mac: Some(link.mac), ..Self::new(steering) })
    }

    /// The best mode that a socket can have here.
    pub(super) fn mode(&self) -> Mode {
        match self.steering.facts().mode {
            steer::AttachMode::Native => Mode::ZeroCopy,
            steer::AttachMode::Generic => Mode::Generic,
        }
    }

    /// Its name; the last one if it is gone.
    pub(super) fn name(&self) -> String {
        let facts = self.steering.facts();
        name_of_index(facts.ifindex).unwrap_or_else(|_| facts.interface.clone())
    }

    /// The downgrade of a stack because of the program.
    pub(super) fn downgrade(&self, wish: Mode) -> Option<Downgrade> {
        if wish == Mode::Generic || self.mode() != Mode::Generic {
            return None;
        }
        let others = || "the program was attached in generic mode before, for another stack".to_owned();
        let reason = self.steering.facts().downgrade.clone().unwrap_or_else(others);
        Some(Downgrade { from: Mode::Copy, to: Mode::Generic, reason })
    }

    /// Refuses traffic that the program would not see as sent: modified frames would pass to the kernel, which resets
    /// unknown connections, and a frame whose VLAN tag is stripped looks untagged. A setting that cannot be read counts
    /// as a conflict.
    pub(super) fn refuse_unseen(&self, entry: &Entry, has_vlans: bool) -> Result<(), Refusal> {
        let name = &self.steering.facts().interface;
        let refuse = |reason: &str, offload: &str| {
            let refusal = Refusal::new(Code::Offload, format!("cannot steer {entry}"), reason);
            Err(refusal.next(format!("ethtool -K {name} {offload} off")))
        };
        let address = entry.local().ip();
        let is_of_any = has_vlans && (address.is_unspecified() || address.is_multicast());
        if (entry.vlan().is_some() || is_of_any) && offload::takes_tags_out(name).unwrap_or(true) {
            let is_veth = offload::driver(name).is_ok_and(|driver| driver == "veth");
            let and_there = if is_veth { "rxvlan off, and at the other end of the veth txvlan" } else { "rxvlan" };
            return refuse("the device takes the tags of VLANs out of frames before they are seen", and_there);
        }
        if entry.protocol() == Protocol::Tcp { self.refuse_merged(&format!("cannot steer {entry}")) } else { Ok(()) }
    }

    /// Refuses segments that the program would not see as sent.
    pub(super) fn refuse_merged(&self, thing: &str) -> Result<(), Refusal> {
        let name = &self.steering.facts().interface;
        if self.mode() != Mode::Generic || !offload::read(name, Offload::Gro).unwrap_or(true) {
            return Ok(());
        }
        let reason = "in generic mode segments are merged to longer ones before they are seen";
        Err(Refusal::new(Code::Offload, thing, reason).next(format!("ethtool -K {name} gro off")))
    }

    /// Returns whether the program is attached. If that cannot be read it counts as attached: a failed query takes
    /// nothing away.
    pub(super) fn is_attached(&self) -> bool {
        self.steering.is_attached().unwrap_or(true)
    }

    /// Passes changes of the interface to the program.
    pub(super) fn follow(&mut self, link: &Link) {
        if self.mac == Some(link.mac) {
            return;
        }
        match self.steering.tables().set_mac(link.mac) {
            Ok(()) => self.mac = Some(link.mac),
            Err(problem) => say(problem),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mirror::Mirror;
    use sidestep_lab::{Lab, Options, Side};

    #[test]
    fn what_the_device_changes_before_it_is_seen_is_not_steered() {
        if !sidestep_sys::process::is_root() {
            return eprintln!("skipped: needs root");
        }
        let lab = Lab::up(&Options::default()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let pins = folder.path().join("bpf");
        let name = "lab0";
        let attach = |mode| {
            let mirror = Mirror::open(1, None).unwrap();
            let link = mirror.links().iter().find(|link| link.name == name).unwrap().clone();
            Interface::attach(&link, mode, pins.join("1")).unwrap()
        };
        let flow = |protocol, vlan| {
            let (local, remote) = ("198.18.0.1:7".parse().unwrap(), "198.18.0.2:8".parse().unwrap());
            Entry::Flow { protocol, local, remote, vlan }
        };
        let code = |interface: &Interface, protocol, vlan| {
            interface.refuse_unseen(&flow(protocol, vlan), true).err().map(|refusal| refusal.code)
        };
        let code_of = |interface: &Interface, local: &str, has_vlans| {
            let entry = Entry::Listener { protocol: Protocol::Udp, local: local.parse().unwrap(), vlan: None };
            interface.refuse_unseen(&entry, has_vlans).err().map(|refusal| refusal.code)
        };
        let work = || {
            steer::mount(&pins).unwrap();
            let native = attach(Mode::Copy);
            assert_eq!(native.mode(), Mode::ZeroCopy, "veth has XDP of its own");
            offload::take_tags_out(name, true).unwrap();
            assert_eq!(code(&native, Protocol::Udp, Some(5)), Some(Code::Offload));
            assert_eq!(code(&native, Protocol::Tcp, None), None);
            for any in ["0.0.0.0:7", "[::]:7"] {
                assert_eq!(code_of(&native, any, true), Some(Code::Offload), "VLANs have addresses, too");
                assert_eq!(code_of(&native, any, false), None, "there are none");
            }
            assert_eq!(code_of(&native, "198.18.0.1:7", true), None);
            offload::take_tags_out(name, false).unwrap();
            assert_eq!(code_of(&native, "0.0.0.0:7", true), None);
            assert_eq!(code(&native, Protocol::Udp, Some(5)), None);
            drop(native);
            Steering::remove(&pins.join("1")).unwrap();
            let generic = attach(Mode::Generic);
            offload::set(name, Offload::Gro, true).unwrap();
            let refusal = generic.refuse_unseen(&flow(Protocol::Tcp, None), false).unwrap_err();
            assert_eq!((refusal.code, refusal.next.as_str()), (Code::Offload, "ethtool -K lab0 gro off"));
            assert_eq!(code(&generic, Protocol::Udp, None), None, "merged datagrams go by the twin");
            offload::set(name, Offload::Gro, false).unwrap();
            assert_eq!(code(&generic, Protocol::Tcp, None), None);
            drop(generic);
            Steering::remove(&pins.join("1")).unwrap();
            steer::unmount(&pins).unwrap();
            Ok(())
        };
        lab.host(Side::A).within(work).unwrap();
    }
}
