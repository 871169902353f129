//! `sidestep tune run` as a user types it: what the command finds itself under.

mod support;

use std::io::Read;
use support::{Finished, finish, is_root, run, send_signal, sidestep};

/// Runs a shell's command under `options`.
fn under(options: &[&str], shell: &str) -> Finished {
    let arguments = ["tune", "run"].into_iter().chain(options.iter().copied()).chain(["--", "sh", "-c", shell]);
    run(&arguments.collect::<Vec<_>>())
}

/// A CPU that this test may run on, and not the only one if there are more.
fn last_cpu() -> String {
    sidestep_sys::cpu::allowed().last().expect("a thread runs somewhere").to_string()
}

#[test]
fn the_command_is_pinned_and_its_exit_code_is_ours() {
    let cpu = last_cpu();
    let told = under(&["--cpu", &cpu], "grep Cpus_allowed_list /proc/self/status; exit 7");
    assert_eq!(
        (told.code, told.stdout.as_str()),
        (7, format!("Cpus_allowed_list:\t{cpu}\n").as_str()),
        "{}",
        told.stderr
    );
}

#[test]
fn signals_are_the_commands_own() {
    let script = "trap 'echo caught; exit 3' TERM; echo ready; while :; do sleep 0.05; done";
    let mut child =
        sidestep(&["tune", "run", "--cpu", &last_cpu(), "--", "sh", "-c", script]).spawn().expect("it starts");
    let mut ready = [0; 6];
    child.stdout.as_mut().expect("a pipe").read_exact(&mut ready).expect("it is ready");
    send_signal(child.id(), "TERM");
    let ended = finish(child);
    assert_eq!((ended.code, ended.stdout.as_str()), (3, "caught\n"));
}

#[test]
fn memory_comes_from_one_node() {
    if std::fs::read_to_string("/proc/self/numa_maps").is_err() {
        eprintln!("skipped: this kernel has no NUMA");
        return;
    }
    let told = under(&["--node", "0"], "head -n 1 /proc/self/numa_maps");
    assert!(told.stdout.contains(" bind:0 "), "{} {}", told.stdout, told.stderr);
}

#[test]
fn priority_and_locked_memory() {
    if !is_root() {
        return;
    }
    // Fields 40 and 41 of proc_pid_stat(5): the priority, and the class, of which SCHED_FIFO is 1.
    let told = under(
        &["--fifo", "5", "--memlock"],
        "cut -d' ' -f40,41 /proc/self/stat; ulimit -l; grep CapEff /proc/self/status",
    );
    let lines: Vec<&str> = told.stdout.lines().collect();
    let [priority, limit, capabilities] = lines[..] else { panic!("{told:?}") };
    assert_eq!(priority, "5 1");
    // A container may keep root from lifting the limit, which does not hold for whoever has CAP_IPC_LOCK (bit 14).
    let mask = capabilities.rsplit('\t').next().and_then(|mask| u64::from_str_radix(mask, 16).ok()).expect("a mask");
    assert!(limit == "unlimited" || mask & (1 << 14) != 0, "{told:?}");
}

#[test]
fn the_latency_limit_lasts_as_long_as_the_command() {
    if !is_root() {
        return;
    }
    if !std::path::Path::new("/dev/cpu_dma_latency").exists() {
        eprintln!("skipped: this kernel has no CPU latency limit");
        return;
    }
    // The value read there is the limit of the whole host: the least that any process asks for.
    let limit = "od -An -t d4 -N4 /dev/cpu_dma_latency";
    let told = under(&["--latency-qos", "7"], &format!("ls -l /proc/self/fd; {limit}"));
    assert!(told.stdout.contains("/dev/cpu_dma_latency"), "{} {}", told.stdout, told.stderr);
    let least: i32 = told.stdout.lines().last().and_then(|line| line.trim().parse().ok()).expect("a number");
    assert!(least <= 7, "{}", told.stdout);
}

#[test]
fn what_cannot_be_is_named() {
    let told = under(&["--cpu", "1021"], "true");
    assert_eq!(told.code, 2);
    assert!(told.stderr.contains("CPU 1021") && told.stderr.contains("choose from"), "{}", told.stderr);
    let told = under(&["--node", "999"], "true");
    assert!(told.code == 2 && told.stderr.contains("node 999"), "{}", told.stderr);
    let told = run(&["tune", "run", "--", "/no/such/program"]);
    assert_eq!(told.code, 127, "as of a shell");
    assert!(told.stderr.contains("/no/such/program") && told.stderr.contains("next:"), "{}", told.stderr);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let script = |name: &str, text: &str, mode: u32| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("it can be written");
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(mode)).expect("it is ours");
        path.to_str().expect("text").to_owned()
    };
    for (path, words) in [
        (script("closed", "#!/bin/sh\n", 0o644), "chmod +x"),
        (folder.path().to_str().expect("text").to_owned(), "name a program or a script"),
        (script("orphan", "#!/no/such/interpreter\n", 0o755), "interpreter"),
    ] {
        let told = run(&["tune", "run", "--", &path]);
        assert!(told.code == 126 && told.stderr.contains(words), "{path}: {told:?}");
    }
    for bad in [&["--fifo", "0"], &["--fifo", "100"], &["--cpu", "x"], &["--latency-qos", "-1"], &["--node", "x"]] {
        assert_eq!(under(bad, "true").code, 2, "{bad:?}");
    }
    let told = under(&["--isolate"], "true");
    assert!(told.code == 2 && told.stderr.contains("--cpu"), "{}", told.stderr);
}
