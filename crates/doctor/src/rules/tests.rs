//! Rules on made-up hosts.

use crate::Examination;
use crate::check::{Check, Group, State};
use crate::facts::{Access, Facts, Group as UserGroup, Interface, Machine, Ready, User, Version};
use crate::trials::{Control, FileSystem, Journal, Settings, Trials};
use sidestep_sys::Problem;
use sidestep_tune::XdpFeatures;
use std::time::Duration;

/// All capabilities.
const ALL: Option<u64> = Some(u64::MAX);

/// A host on which everything works for root.
fn good() -> (Facts, Trials) {
    let ok = || Ok("it works".to_owned());
    let facts = Facts {
        user: User {
            uid: 0,
            capabilities: ALL,
            group: Some(UserGroup { gid: 990, is_member: false }),
            files_max: Some(1 << 20),
            ..User::default()
        },
        machine: Machine {
            release: "6.12.5".into(),
            version: Some(Version(6, 12)),
            cpus: vec![0, 1, 2, 3],
            isolated: "2-3".into(),
            sys: Access::Writable,
            settings: Access::Writable,
            huge_pages_free: Some(64),
            has_cpusets: true,
            has_bpf_files: true,
            ..Machine::default()
        },
        programs: ["ip", "ethtool", "bpftool", "gdb", "sudo", "apt-get"].map(str::to_owned).into(),
        interfaces: vec![interface(
            "eth0",
            Some(XdpFeatures { native: true, zero_copy: false, several_buffers: true }),
        )],
        more_interfaces: 0,
    };
    let trials = Trials {
        loopback: ok(),
        lab: ok(),
        steering: ok(),
        af_xdp: ok(),
        io_uring: ok(),
        tracepoints: ok(),
        shared_memory: ok(),
        clock: ok(),
        settings: Ok(Settings { read: 90, unwanted: 3, needs_root: 0 }),
        snapshots: ok(),
        latency_device: ok(),
        control: Control::Serves(77),
        library: ok(),
        journal: Ok(Journal {
            folder: "/srv".into(),
            file_system: FileSystem::Disk("XFS"),
            is_mapped: true,
            sync: Duration::from_millis(1),
            free_bytes: 1 << 40,
        }),
    };
    (facts, trials)
}

fn interface(name: &str, xdp: Option<XdpFeatures>) -> Interface {
    Interface { name: name.into(), is_ethernet: true, mtu: 1500, queues: Some(4), xdp, ..Interface::default() }
}

/// A user without rights on the same host, where no control plane runs.
fn nobody() -> (Facts, Trials) {
    let (mut facts, mut trials) = good();
    (facts.user.uid, facts.user.capabilities) = (1000, Some(0));
    let refused = || Err(Problem::failed("cannot make a network namespace", "Operation not permitted"));
    (trials.lab, trials.af_xdp, trials.steering) = (refused(), refused(), refused());
    trials.control = Control::NotRunning("cannot reach the control plane".into());
    trials.settings = Ok(Settings { read: 80, unwanted: 3, needs_root: 9 });
    (facts, trials)
}

fn found(of: &(Facts, Trials)) -> Examination {
    Examination::of(&of.0, &of.1)
}

fn check<'e>(examination: &'e Examination, id: &str) -> &'e Check {
    examination.checks.iter().find(|check| check.id == id).unwrap_or_else(|| panic!("no check {id}"))
}

fn state(examination: &Examination, verb: Group) -> State {
    examination.verdicts.iter().find(|verdict| verdict.verb == verb).unwrap().state
}

fn next<'e>(examination: &'e Examination, id: &str) -> &'e str {
    check(examination, id).next.as_deref().unwrap_or_default()
}

#[test]
fn on_a_good_host_all_is_ok() {
    let examination = found(&good());
    let not_ok: Vec<_> = examination.checks.iter().filter(|check| check.state != State::Ok).collect();
    assert!(not_ok.is_empty(), "{not_ok:?}");
    assert!(examination.verdicts.iter().all(|verdict| verdict.state == State::Ok) && examination.is_usable());
    assert!(examination.verdicts[2].sentence.contains("ready for it: eth0"), "{:?}", examination.verdicts[2]);
}

#[test]
fn a_user_without_rights_is_told_what_root_has_to_do() {
    let of = nobody();
    let examination = found(&of);
    assert_eq!(state(&examination, Group::Bypass), State::Missing);
    assert!(!examination.is_usable());
    assert_eq!(next(&examination, "af-xdp"), "sudo sidestep control --background --allow-uid 1000");
    assert_eq!(
        (state(&examination, Group::Tune), next(&examination, "check")),
        (State::Partly, "sudo sidestep tune check")
    );
    assert_eq!((state(&examination, Group::Measure), next(&examination, "lab")), (State::Partly, "sudo sidestep demo"));
    assert!(check(&examination, "lab").reason.contains("loopback alone"));
    // With a control plane that serves this user it works.
    let (facts, trials) = of;
    let served = Examination::of(&facts, &Trials { control: Control::Serves(5), ..trials });
    assert_eq!(check(&served, "af-xdp").state, State::Ok);
    assert!(served.is_usable());
}

#[test]
fn a_control_plane_that_refuses_says_why() {
    let refusing = |is_other_version| {
        let (facts, trials) = nobody();
        let control = Control::Refuses { is_other_version, reason: "user 1000 cannot bypass the kernel".into() };
        Examination::of(&facts, &Trials { control, ..trials })
    };
    assert_eq!(next(&refusing(false), "af-xdp"), "sudo usermod -aG sidestep $USER");
    assert!(next(&refusing(true), "control").contains("restart"));
    assert_eq!(state(&refusing(true), Group::Bypass), State::Missing);
}

#[test]
fn an_old_kernel_has_no_bypass_and_all_else() {
    let (mut facts, trials) = good();
    (facts.machine.release, facts.machine.version) = ("5.10.0-8".into(), Some(Version(5, 10)));
    let examination = Examination::of(&facts, &trials);
    assert_eq!(state(&examination, Group::Bypass), State::Missing);
    assert!(check(&examination, "af-xdp").reason.contains("older than 5.14"));
    for verb in [Group::Measure, Group::Tune, Group::Trade] {
        assert_ne!(state(&examination, verb), State::Missing, "{verb:?}");
    }
    assert_eq!(check(&examination, "isolate").state, State::Missing);
    facts.machine.version = Some(Version(6, 1));
    let newer = Examination::of(&facts, &trials);
    let features = check(&newer, "kernel-features");
    assert!(features.state == State::Partly && features.reason.contains("6.6") && !features.reason.contains("5.18"));
    assert_eq!(check(&newer, "isolate").state, State::Ok);
}

#[test]
fn root_in_a_container_is_told_which_rights_are_missing() {
    let (mut facts, mut trials) = nobody();
    (facts.user.uid, facts.user.capabilities) = (0, Some(1 << 13));
    (facts.machine.settings, facts.machine.sys) = (Access::ReadOnly, Access::ReadOnly);
    facts.machine.container = Some("Docker".into());
    facts.user.memlock_bytes = Some(64 << 10);
    trials.latency_device = Err(Problem::failed("cannot write /dev/cpu_dma_latency", "No such file"));
    let examination = Examination::of(&facts, &trials);
    let way = check(&examination, "af-xdp");
    assert!(
        way.reason.contains("CAP_NET_ADMIN, CAP_BPF, CAP_SYS_ADMIN") && !way.reason.contains("CAP_NET_RAW,"),
        "{way:?}"
    );
    assert!(next(&examination, "af-xdp").contains("--cap-add NET_ADMIN"));
    assert!(next(&examination, "apply").contains("on the host"));
    assert_eq!(check(&examination, "locked-memory").state, State::Partly);
    assert_eq!(check(&examination, "container").state, State::Ok);
    assert_eq!(state(&examination, Group::Tune), State::Partly);
}

#[test]
fn interfaces_are_told_apart() {
    let (mut facts, mut trials) = good();
    let features = |native, zero_copy| Some(XdpFeatures { native, zero_copy, several_buffers: false });
    facts.interfaces = vec![
        interface("zc0", features(true, true)),
        interface("gen0", features(false, false)),
        interface("old0", None),
        Interface { xdp_program: Some(9), ..interface("used0", features(true, false)) },
        Interface { mtu: 9000, ..interface("jumbo0", features(true, false)) },
        Interface { ready: Ready::Down, is_named: true, ..interface("down0", features(true, true)) },
        Interface { ready: Ready::Down, ..interface("idle0", features(true, true)) },
        Interface { is_ethernet: false, ..interface("tun0", None) },
    ];
    trials.control = Control::NotRunning("none".into());
    let examination = Examination::of(&facts, &trials);
    let of = |name: &str| check(&examination, &format!("interface-{name}"));
    assert!(of("zc0").state == State::Ok && of("zc0").reason.contains("zero copy"));
    assert!(of("gen0").state == State::Partly && of("gen0").reason.contains("generic"));
    assert!(of("old0").state == State::Partly && of("old0").reason.contains("known when tried"));
    assert_eq!(of("old0").next.as_deref(), Some("sidestep control --interface old0"));
    assert!(of("used0").reason.contains("program 9") && next(&examination, "interface-used0").contains("id 9"));
    assert!(of("jumbo0").reason.contains("9000"));
    assert_eq!(next(&examination, "interface-down0"), "ip link set down0 up");
    assert!(check(&examination, "other-interfaces").reason.contains("idle0, tun0"));
    facts.interfaces.clear();
    assert_eq!(check(&Examination::of(&facts, &trials), "interfaces").state, State::Partly);
}

#[test]
fn one_cpu_no_uring_and_no_tracepoints_leave_measuring_in_part() {
    let (mut facts, mut trials) = good();
    facts.machine.cpus = vec![0];
    facts.machine.isolated.clear();
    facts.machine.io_uring_disabled = Some(2);
    facts.machine.perf_event_paranoid = Some(4);
    facts.machine.lockdown = Some("confidentiality".into());
    facts.user.seccomp = Some(2);
    trials.io_uring = Err(Problem::failed("cannot make an io_uring", "Operation not permitted"));
    trials.tracepoints = Err(Problem::failed("cannot read the kernel's tracepoints", "x").next("run as root"));
    trials.clock = Err(Problem::failed("the TSC is not used", "it is not invariant"));
    let examination = Examination::of(&facts, &trials);
    assert_eq!(state(&examination, Group::Measure), State::Partly);
    assert!(check(&examination, "cpus").reason.contains("1 CPU") && next(&examination, "cpus").contains("bench serve"));
    assert_eq!(next(&examination, "io-uring"), "sysctl kernel.io_uring_disabled=0");
    assert!(check(&examination, "causes").reason.contains("perf_event_paranoid is 4"));
    assert!(check(&examination, "clock").reason.contains("not invariant"));
    for id in ["lockdown", "seccomp"] {
        assert_eq!(check(&examination, id).state, State::Partly);
    }
    trials.loopback = Err(Problem::failed("cannot use the loopback interface", "lo is down").next("ip link set lo up"));
    let dead = Examination::of(&facts, &trials);
    assert_eq!((state(&dead, Group::Measure), state(&dead, Group::Trade)), (State::Missing, State::Missing));
}

#[test]
fn journals_in_memory_or_elsewhere_and_full_disks_are_told() {
    let (facts, trials) = good();
    let with = |change: fn(&mut Journal)| {
        let mut journal = trials.journal.clone().unwrap();
        change(&mut journal);
        Examination::of(&facts, &Trials { journal: Ok(journal), ..trials.clone() })
    };
    for (examination, words) in [
        (with(|journal| journal.file_system = FileSystem::Memory("tmpfs")), "gone after a reboot"),
        (with(|journal| journal.file_system = FileSystem::Remote("NFS")), "other end"),
        (with(|journal| journal.is_mapped = false), "system calls"),
    ] {
        let journal = check(&examination, "journal");
        assert!(journal.state == State::Partly && journal.reason.contains(words), "{journal:?}");
        assert_eq!(state(&examination, Group::Trade), State::Partly);
    }
    assert_eq!(check(&with(|journal| journal.free_bytes = 5 << 20), "disk").state, State::Partly);
    assert_eq!(check(&with(|journal| journal.sync = Duration::from_millis(80)), "disk").state, State::Partly);
    let none = Err(Problem::failed("cannot write a journal in /", "Read-only file system").next("change to a folder"));
    let examination = Examination::of(&facts, &Trials { journal: none, ..trials.clone() });
    assert_eq!(
        (check(&examination, "journal").state, state(&examination, Group::Trade)),
        (State::Missing, State::Partly)
    );
}

#[test]
fn every_lack_has_a_next_step_or_none_is_possible() {
    let mut without = Vec::new();
    for of in [good(), nobody()] {
        let (mut facts, mut trials) = of;
        facts.programs.clear();
        facts.machine.huge_pages_free = Some(0);
        facts.user.group = None;
        trials.library = Err(Problem::failed("cannot find libsidestep.so", "x"));
        let examination = Examination::of(&facts, &trials);
        without.extend(examination.checks.into_iter().filter(|one| one.state != State::Ok && one.next.is_none()));
    }
    // The verdict of the kernel's features is the kernel; own-tcp names the place of the next step.
    without.retain(|one| one.id != "own-tcp");
    assert!(without.is_empty(), "{without:?}");
}
