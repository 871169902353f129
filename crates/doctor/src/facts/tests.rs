//! Facts of made-up folders.

use super::*;
use std::fs;
use std::path::Path;

fn put(root: &Path, name: &str, text: &str) {
    let path = root.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn sources(root: &Path) -> Sources {
    Sources {
        roots: Roots { proc: root.join("proc"), sys: root.join("sys") },
        root: root.to_owned(),
        path: root.join("bin").into_os_string(),
    }
}

#[test]
fn a_host_without_proc_and_sys_has_no_facts_and_no_fault() {
    let folder = tempfile::tempdir().unwrap();
    let facts = Facts::read(&sources(folder.path()), &[]);
    assert!(facts.user.capabilities.is_none() && facts.user.group.is_none() && facts.programs.is_empty());
    assert!(facts.machine.lockdown.is_none() && facts.machine.container.is_none() && !facts.machine.has_cpusets);
    // What the kernel tells by a call is known all the same.
    assert!(facts.machine.version.is_some() && !facts.machine.cpus.is_empty());
    assert!(facts.machine.is_at_least(Version(2, 6)));
}

#[test]
fn files_of_the_kernel_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    for (name, text) in [
        ("proc/sys/kernel/osrelease", "5.10.0-8-amd64\n"),
        ("proc/sys/kernel/io_uring_disabled", "2\n"),
        ("proc/sys/kernel/perf_event_paranoid", "3\n"),
        ("proc/self/status", "Gid:\t7\t7\t7\t7\nGroups:\t8 990\nCapEff:\t0000000000001000\nSeccomp:\t2\n"),
        ("proc/self/mountinfo", "1 0 0:1 / /proc rw - proc proc rw\n2 0 0:2 / /sys ro - sysfs sysfs ro\n"),
        ("proc/filesystems", "nodev\tsysfs\nnodev\tbpf\n"),
        ("proc/1/cgroup", "0::/kubepods/besteffort/pod1\n"),
        ("sys/kernel/security/lockdown", "none integrity [confidentiality]\n"),
        ("sys/devices/system/cpu/isolated", "2-3\n"),
        ("sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "12\n"),
        ("sys/fs/cgroup/cgroup.controllers", "cpuset cpu io\n"),
        ("etc/group", "root:x:0:\nsidestep:x:990:alice\n"),
        ("bin/apt-get", ""),
        ("bin/sudo", ""),
    ] {
        put(root, name, text);
    }
    let facts = Facts::read(&sources(root), &[]);
    let (user, machine) = (&facts.user, &facts.machine);
    assert_eq!(machine.version, Some(Version(5, 10)));
    assert!(!machine.is_at_least(Version(5, 14)));
    assert_eq!((machine.io_uring_disabled, machine.perf_event_paranoid), (Some(2), Some(3)));
    assert_eq!((machine.sys, machine.settings), (Access::ReadOnly, Access::Writable));
    assert_eq!(
        (machine.container.as_deref(), machine.lockdown.as_deref()),
        (Some("kubepods"), Some("confidentiality"))
    );
    assert_eq!((machine.isolated.as_str(), machine.huge_pages_free), ("2-3", Some(12)));
    assert!(machine.has_cpusets);
    assert!(user.has(Capability::NetAdmin) && !user.has(Capability::SysAdmin) && user.seccomp == Some(2));
    assert_eq!(user.group, Some(Group { gid: 990, is_member: true }));
    assert!(facts.has("apt-get") && !facts.has("ip"));
    put(root, ".dockerenv", "");
    assert_eq!(Facts::read(&sources(root), &[]).machine.container.as_deref(), Some("Docker"));
}

#[test]
fn garbage_in_files_is_no_fact() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    for name in [
        "proc/sys/kernel/osrelease",
        "proc/self/status",
        "proc/self/mountinfo",
        "proc/1/cgroup",
        "sys/kernel/security/lockdown",
        "sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages",
        "etc/group",
    ] {
        put(root, name, "sidestep:::\n[\u{0}]]\nCapEff: zz\nGid: -1\n\u{1b}[2J 99999999999999999999.7");
    }
    let facts = Facts::read(&sources(root), &[]);
    assert!(facts.user.capabilities.is_none() && facts.user.group.is_none() && facts.machine.version.is_none());
    assert!(facts.machine.is_at_least(Version(6, 1)), "an unknown kernel is taken for new");
}

#[test]
fn commands_are_those_of_the_user_and_the_system() {
    let with = |uid, programs: &[&str]| Facts {
        user: User { uid, ..User::default() },
        programs: programs.iter().map(|name| (*name).to_owned()).collect(),
        ..Facts::default()
    };
    assert_eq!(with(0, &["sudo"]).as_root("x"), "x");
    assert_eq!(with(7, &["sudo"]).as_root("x"), "sudo x");
    assert_eq!(with(7, &[]).as_root("x"), "as root: x");
    assert_eq!(with(7, &["sudo", "apt-get"]).install("gdb"), "sudo apt-get install gdb");
    assert!(with(7, &[]).install("gdb").starts_with("install gdb by"));
    assert!(with(0, &[]).more_rights("x", "NET_ADMIN BPF").contains("--cap-add NET_ADMIN --cap-add BPF"));
}
