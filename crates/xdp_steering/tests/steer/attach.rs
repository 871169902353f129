//! Attachment to an interface: attached, adopted, refused, removed; nothing is left.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use libbpf_rs::libbpf_sys::{BPF_PROG_TYPE_XDP, BPF_XDP, bpf_insn, bpf_link_update, bpf_prog_load, bpf_prog_load_opts};
use libbpf_rs::{MapCore, MapFlags, MapHandle, ProgramHandle, Xdp, XdpFlags};
use sidestep_lab::Side;
use sidestep_lab::{Lab, Options};
use sidestep_sys::Problem;
use sidestep_xdp_steering::{Attach, AttachMode, Protocol, Reason, Steering, Vlan, VlanMatch};

use crate::support::{Pins, attached_program, can_run, flow, ifindex, listener, stack, wait_until};

/// Tells the restarted test binary that it is the process that attaches and is killed.
const CHILD: &str = "SIDESTEP_STEER_TEST_DIRECTORY";

fn attach(directory: PathBuf) -> Result<Steering, Problem> {
    Steering::attach(&Attach { ifindex: ifindex("lab0"), mode: AttachMode::Native, directory })
}

/// Runs a test on host A of a lab, with a directory for pins.
fn on_a_host(test: impl FnOnce(&Pins) -> Result<(), Problem> + Send) {
    let pins = Pins::new();
    let lab = Lab::up(&Options::default()).unwrap();
    lab.host(Side::A).within(|| test(&pins)).unwrap();
}

fn assert_nothing_is_left(directory: &Path, program_id: u32) {
    assert!(!directory.exists());
    assert_eq!(attached_program(ifindex("lab0")), 0);
    // Programs are freed after a grace period.
    wait_until("the program's end", || ProgramHandle::from_prog_id(program_id).is_err());
}

#[test]
fn attached_it_is_seen_and_removed_nothing_is_left() {
    if !can_run() {
        return;
    }
    on_a_host(|pins| {
        let steering = attach(pins.directory())?;
        let facts = steering.facts().clone();
        assert_eq!((facts.mode, facts.downgrade, facts.generation), (AttachMode::Native, None, 1));
        assert_eq!((facts.ifindex, facts.interface.as_str()), (ifindex("lab0"), "lab0"));
        assert_eq!(attached_program(facts.ifindex), facts.program_id);
        assert!(steering.is_attached()?);
        // This process still holds it: removal detaches it anyway.
        assert!(Steering::remove(&pins.directory())?);
        assert!(!steering.is_attached()?);
        assert_eq!(attached_program(facts.ifindex), 0);
        drop(steering);
        assert_nothing_is_left(&pins.directory(), facts.program_id);
        assert!(!Steering::remove(&pins.directory())?);
        Ok(())
    });
}

#[test]
fn dropped_it_stays_and_the_next_one_adopts_everything() {
    if !can_run() {
        return;
    }
    on_a_host(|pins| {
        let entry = flow(Protocol::Tcp, "198.18.0.1:5", "198.18.0.2:6", Vlan::Untagged);
        let first = attach(pins.directory())?;
        let program_id = first.facts().program_id;
        let (owner, _) = stack(first.tables(), "pid 7");
        first.tables().add(owner, &entry)?;
        drop(first);
        assert_eq!(attached_program(ifindex("lab0")), program_id);
        for generation in 2..5 {
            let next = Steering::adopt(&pins.directory(), ifindex("lab0"))?;
            assert_eq!((next.facts().program_id, next.facts().generation), (program_id, generation));
            assert_eq!(next.tables().entries()?, [(entry, owner)]);
            assert_eq!(next.tables().stack(owner)?.label, "pid 7");
            next.tables().heartbeat(owner)?;
        }
        assert!(Steering::remove(&pins.directory())?);
        assert_nothing_is_left(&pins.directory(), program_id);
        Ok(())
    });
}

#[test]
fn an_older_program_is_renewed_in_its_place() {
    if !can_run() {
        return;
    }
    on_a_host(|pins| {
        let mut steering = attach(pins.directory())?;
        assert!(!steering.update_program()?);
        let (owner, _) = stack(steering.tables(), "survivor");
        drop(steering);
        // Stands for the program of an older version.
        let link = libbpf_rs::Link::open(pins.directory().join("link")).unwrap();
        let (link, older) = (link.as_fd().as_raw_fd(), somebody_elses_program());
        // SAFETY: both descriptors are open, and no options are passed.
        assert_eq!(unsafe { bpf_link_update(link, older.as_raw_fd(), std::ptr::null()) }, 0);
        drop(older);
        let mut steering = Steering::adopt(&pins.directory(), ifindex("lab0"))?;
        let old = steering.facts().program_id;
        assert!(steering.update_program()?);
        assert_ne!(steering.facts().program_id, old);
        assert_eq!(attached_program(ifindex("lab0")), steering.facts().program_id);
        assert_eq!(steering.tables().stacks()?[0].id, owner);
        // The new program works with the old tables.
        steering.tables().set_enabled(false)?;
        let before = steering.tables().counter(Reason::Disabled)?;
        wake_the_peer();
        wait_until("a frame", || steering.tables().counter(Reason::Disabled).unwrap() > before);
        Ok(())
    });
}

/// Makes the other host send a frame: its answer to an ARP request.
fn wake_the_peer() {
    let socket = UdpSocket::bind("198.18.0.1:0").unwrap();
    socket.send_to(b"anybody there", "198.18.0.2:9").unwrap();
}

#[test]
fn what_a_killed_process_attached_is_adopted() {
    if let Some(directory) = env::var_os(CHILD) {
        attach_and_wait(PathBuf::from(directory));
    }
    if !can_run() {
        return;
    }
    let pins = Pins::new();
    let lab = Lab::up(&Options::default()).unwrap();
    let mut command = lab.host(Side::A).command(env::current_exe().unwrap()).unwrap();
    command.args(["--exact", "--nocapture", "attach::what_a_killed_process_attached_is_adopted"]);
    command.env(CHILD, pins.directory()).stdout(Stdio::piped());
    sidestep_sys::process::die_with_parent(&mut command);
    let mut child = command.spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.take_while(|line| !line.contains("failed")).any(|line| line.ends_with("attached")));
    child.kill().unwrap();
    child.wait().unwrap();
    lab.host(Side::A)
        .within(|| {
            let steering = Steering::adopt(&pins.directory(), ifindex("lab0"))?;
            assert_eq!(attached_program(ifindex("lab0")), steering.facts().program_id);
            assert_eq!(steering.tables().stacks()?[0].label, "to be killed");
            assert_eq!(steering.tables().entries()?.len(), 1);
            let program_id = steering.facts().program_id;
            drop(steering);
            assert!(Steering::remove(&pins.directory())?);
            assert_nothing_is_left(&pins.directory(), program_id);
            Ok(())
        })
        .unwrap();
}

fn attach_and_wait(directory: PathBuf) -> ! {
    let steering = attach(directory).unwrap();
    let (owner, _page) = stack(steering.tables(), "to be killed");
    steering.tables().add(owner, &listener(Protocol::Udp, "0.0.0.0:5", VlanMatch::Any)).unwrap();
    println!("attached");
    loop {
        thread::sleep(Duration::from_secs(1));
    }
}

/// A program of two instructions: pass everything.
fn somebody_elses_program() -> OwnedFd {
    let load_two = bpf_insn { code: 0xb7, imm: 2, ..Default::default() };
    let exit = bpf_insn { code: 0x95, ..Default::default() };
    let program = [load_two, exit];
    let mut options = bpf_prog_load_opts {
        sz: size_of::<bpf_prog_load_opts>() as _,
        expected_attach_type: BPF_XDP,
        ..Default::default()
    };
    // SAFETY: name and licence are C strings, the instructions are two as said, and the options have the size they say.
    let descriptor = unsafe {
        bpf_prog_load(
            BPF_PROG_TYPE_XDP,
            c"somebody_else".as_ptr(),
            c"GPL".as_ptr(),
            program.as_ptr(),
            program.len() as _,
            &raw mut options,
        )
    };
    assert!(descriptor >= 0, "{}", std::io::Error::last_os_error());
    // SAFETY: the kernel has just returned this descriptor and nobody else owns it.
    unsafe { OwnedFd::from_raw_fd(descriptor) }
}

#[test]
fn another_program_is_named_and_left_alone() {
    if !can_run() {
        return;
    }
    on_a_host(|pins| {
        let index = ifindex("lab0");
        let program = somebody_elses_program();
        let xdp = Xdp::new(program.as_fd());
        for flags in [XdpFlags::DRV_MODE, XdpFlags::SKB_MODE] {
            xdp.attach(index.cast_signed(), XdpFlags::from_bits_retain(flags.bits())).unwrap();
            let id = attached_program(index);
            let problem = attach(pins.directory()).unwrap_err().to_string();
            assert!(problem.contains(&format!("somebody_else (id {id})")), "{problem}");
            assert!(problem.contains("lab0") && problem.contains("next:"), "{problem}");
            assert!(!pins.directory().exists());
            assert_eq!(attached_program(index), id);
            xdp.detach(index.cast_signed(), flags).unwrap();
        }
        attach(pins.directory())?;
        Ok(())
    });
}

#[test]
fn two_control_planes_do_not_share_an_interface() {
    if !can_run() {
        return;
    }
    on_a_host(|pins| {
        let first = attach(pins.directory())?;
        let problem = attach(pins.other_directory()).unwrap_err().to_string();
        assert!(problem.contains("sidestep_steer") && problem.contains("--cleanup"), "{problem}");
        assert!(!pins.other_directory().exists());
        assert!(first.is_attached()?);
        Ok(())
    });
}

#[test]
fn an_interface_without_native_xdp_gets_generic_with_the_reason() {
    if !can_run() {
        return;
    }
    on_a_host(|pins| {
        let directory = pins.directory();
        let steering = Steering::attach(&Attach {
            ifindex: ifindex("lo"),
            mode: AttachMode::Native,
            directory: directory.clone(),
        })?;
        assert_eq!(steering.facts().mode, AttachMode::Generic);
        let reason = steering.facts().downgrade.clone().unwrap();
        assert!(reason.contains("lo") && reason.contains("not supported"), "{reason}");
        let adopted = Steering::adopt(&directory, ifindex("lo"))?;
        assert_eq!((adopted.facts().mode, adopted.facts().downgrade.clone()), (AttachMode::Generic, None));
        Ok(())
    });
}

#[test]
fn what_is_not_ours_to_adopt_is_refused_unchanged() {
    if !can_run() {
        return;
    }
    on_a_host(|pins| {
        let index = ifindex("lab0");
        let refused = |part: &str| {
            let problem = Steering::adopt(&pins.directory(), index).unwrap_err().to_string();
            assert!(problem.contains(part), "{problem}");
        };
        refused("lab0/config");
        let steering = attach(pins.directory())?;
        let problem = Steering::adopt(&pins.directory(), ifindex("lo")).unwrap_err().to_string();
        assert!(problem.contains("not to lo"), "{problem}");
        let config = MapHandle::from_pinned_path(pins.directory().join("config")).unwrap();
        let sound = config.lookup(&[0; 4], MapFlags::ANY).unwrap().unwrap();
        // The magic number, then the layout's.
        for (at, part) in [(0, "not pinned by sidestep"), (4, "layout")] {
            let mut other = sound.clone();
            other[at] ^= 0x40;
            config.update(&[0; 4], &other, MapFlags::ANY).unwrap();
            refused(part);
            assert_eq!(config.lookup(&[0; 4], MapFlags::ANY).unwrap().unwrap(), other);
        }
        config.update(&[0; 4], &sound, MapFlags::ANY).unwrap();
        fs::remove_file(pins.directory().join("groups")).unwrap();
        refused("lab0/groups");
        assert!(steering.is_attached()?);
        Ok(())
    });
}

#[test]
fn pins_need_a_bpf_file_system_and_a_place_of_their_own() {
    if !can_run() {
        return;
    }
    on_a_host(|pins| {
        let plain = env::temp_dir().join(format!("sidestep-xdp-steering-plain-{}", std::process::id()));
        let problem = attach(plain.clone()).unwrap_err().to_string();
        assert!(problem.contains("not on a BPF file system"), "{problem}");
        assert!(!plain.exists());
        assert_eq!(attached_program(ifindex("lab0")), 0);
        // A crash before the link was pinned leaves maps without a link: they are removed.
        drop(attach(pins.directory())?);
        fs::remove_file(pins.directory().join("link")).unwrap();
        wait_until("detaching", || attached_program(ifindex("lab0")) == 0);
        drop(attach(pins.directory())?);
        // Files of others stay, and are named.
        fs::create_dir(pins.directory().join("foreign")).unwrap();
        let problem = Steering::remove(&pins.directory()).unwrap_err().to_string();
        assert!(problem.contains("lab0") && problem.contains("not empty"), "{problem}");
        assert_eq!(attached_program(ifindex("lab0")), 0);
        fs::remove_dir(pins.directory().join("foreign")).unwrap();
        Ok(())
    });
}

#[test]
fn link_down_and_up_do_not_detach() {
    if !can_run() {
        return;
    }
    on_a_host(|pins| {
        let steering = attach(pins.directory())?;
        for state in ["down", "up"] {
            let status = Command::new("ip").args(["link", "set", "dev", "lab0", state]).status().unwrap();
            assert!(status.success());
            assert!(steering.is_attached()?);
        }
        Ok(())
    });
}

#[test]
fn a_namespace_that_goes_away_takes_the_link_along() {
    if !can_run() {
        return;
    }
    let pins = Pins::new();
    let lab = Lab::up(&Options::default()).unwrap();
    let steering = lab.host(Side::A).within(|| attach(pins.directory())).unwrap();
    let index = steering.facts().ifindex;
    let (owner, _) = stack(steering.tables(), "orphan");
    drop(lab);
    wait_until("the interface's end", || !steering.is_attached().unwrap());
    // The tables still exist and can be read.
    assert_eq!(steering.tables().stacks().unwrap()[0].id, owner);
    drop(steering);
    let other = Lab::up(&Options::default()).unwrap();
    other
        .host(Side::A)
        .within(|| {
            let problem = Steering::adopt(&pins.directory(), index).unwrap_err().to_string();
            assert!(problem.contains("cannot adopt"), "{problem}");
            assert!(Steering::remove(&pins.directory())?);
            Ok(())
        })
        .unwrap();
    assert!(!pins.directory().exists());
}

/// Without a mount at /sys/fs/bpf, iproute2 takes the first BPF file system that it finds: it leaves these files.
#[test]
fn what_iproute2_leaves_goes_and_what_it_pins_is_named() {
    if !can_run() {
        return;
    }
    let pins = Pins::new();
    let root = pins.directory().parent().unwrap().to_owned();
    fs::create_dir_all(root.join("tc/globals")).unwrap();
    for link in ["ip", "xdp"] {
        std::os::unix::fs::symlink(root.join("tc/"), root.join(link)).unwrap();
    }
    let options = libbpf_rs::libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_rs::libbpf_sys::bpf_map_create_opts>() as _,
        ..Default::default()
    };
    let mut map = MapHandle::create(libbpf_rs::MapType::Array, Some("jmp_tc"), 4, 4, 1, &options).unwrap();
    let pin = root.join("tc/globals/jmp_tc");
    map.pin(&pin).unwrap();
    let refused = sidestep_xdp_steering::unmount(&root).unwrap_err();
    assert!(refused.to_string().contains("tc/globals/jmp_tc is pinned there by another program"), "{refused}");
    assert_eq!(refused.next_step(), format!("remove it if it is not needed: rm {}", pin.display()));
    assert!(pin.exists(), "nothing was lost");
    fs::remove_file(&pin).unwrap();
    // The end of `pins` unmounts it, with folders and links.
}
