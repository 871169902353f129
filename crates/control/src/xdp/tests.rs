//! Adoption, attachment and release.

use super::*;
use crate::mirror::Mirror;
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use sidestep_control_api::message::Protocol;
use sidestep_lab::{Lab, Options, Side};

/// Pins of another release cannot be read: their rows have another layout.
#[test]
fn pins_of_another_layout_make_way_and_are_said_to() {
    if !sidestep_sys::process::is_root() {
        return eprintln!("skipped: needs root");
    }
    let lab = Lab::up(&Options::default()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let pins = folder.path().join("bpf");
    let work = || {
        let mirror = Mirror::open(1, None).unwrap();
        let link = mirror.links().iter().find(|link| link.name == "lab0").unwrap().clone();
        let program = || sidestep_sys::xdp::device("lab0").unwrap().xdp_program;
        let start = || Xdp::start(&pins, &[], false, mirror.links()).unwrap();
        let mut before = start();
        before.program_on(&link, Mode::Copy).unwrap();
        let directory = before.directory(link.index);
        drop(before);
        let adopted = start();
        assert_eq!(adopted.programs().len(), 1, "of this layout it is taken over");
        drop(adopted);
        // The layout's number follows the magic; the other release has a map that this one does not know.
        let mut config = MapHandle::from_pinned_path(directory.join("config")).unwrap();
        let mut bytes = config.lookup(&[0; 4], MapFlags::ANY).unwrap().unwrap();
        bytes[4] += 1;
        config.update(&[0; 4], &bytes, MapFlags::ANY).unwrap();
        config.pin(directory.join("of_another_release")).unwrap();
        let refused = Steering::adopt(&directory, link.index).unwrap_err().to_string();
        assert!(refused.contains("layout") && refused.contains("this version understands"), "{refused}");
        assert!(program().is_some());
        let mut after = start();
        assert!(after.programs().is_empty() && !directory.exists());
        assert_eq!(program(), None, "nobody would look after it");
        assert!(after.adopt(&crate::testing::stack_facts(1, "lab0", 0)).is_err());
        after.program_on(&link, Mode::Copy).unwrap();
        assert!(program().is_some());
        after.end().unwrap();
        assert_eq!(program(), None);
        Ok(())
    };
    lab.host(Side::A).within(work).unwrap();
}

#[test]
fn who_asks_for_generic_mode_does_not_choose_it_for_others() {
    if !sidestep_sys::process::is_root() {
        return eprintln!("skipped: needs root");
    }
    let lab = Lab::up(&Options::default()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let pins = folder.path().join("bpf");
    let work = || {
        let mirror = Mirror::open(1, None).unwrap();
        let link = mirror.links().iter().find(|link| link.name == "lab0").unwrap().clone();
        let mut xdp = Xdp::start(&pins, &[], false, mirror.links()).unwrap();
        assert_eq!(xdp.program_on(&link, Mode::Generic).unwrap().mode(), Mode::ZeroCopy, "better than asked for");
        let native = xdp.programs();
        assert_eq!(xdp.program_on(&link, Mode::Copy).unwrap().mode(), Mode::ZeroCopy);
        assert_eq!(xdp.programs(), native, "not attached anew");
        xdp.end().unwrap();
        Ok(())
    };
    lab.host(Side::A).within(work).unwrap();
}

#[test]
fn entries_come_back_as_they_went() {
    let at = |text: &str| text.parse().unwrap();
    for vlan in [None, Some(7)] {
        for entry in [
            Entry::Flow { protocol: Protocol::Tcp, local: at("198.18.0.1:7"), remote: at("198.18.0.2:8"), vlan },
            Entry::Listener { protocol: Protocol::Udp, local: at("[::]:7"), vlan },
            Entry::Multicast { group: at("239.1.1.1:7"), source: Some([198, 18, 0, 2].into()), vlan },
        ] {
            assert_eq!(theirs(&ours(&entry)), Some(entry));
        }
    }
}
