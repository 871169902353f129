//! Programs that fork, execute and start others, under the library and on the bare kernel: both get the same.

#[path = "support/host.rs"]
mod host;
mod support;

use host::Hosts;

/// The steps of `children.c`, and whether the kernel gets a connection in the middle.
const STEPS: [(&str, bool); 16] = [
    ("child_connects", false),
    ("child_waits_by_an_older_set", false),
    ("child_leaves_it_alone", false),
    ("child_uses_it", true),
    ("both_use_it_at_once", true),
    ("parent_closes_it", true),
    ("parent_closes_it_in_a_call", true),
    ("parent_closes_it_after_an_untold_fork", true),
    ("parent_replaces_it", true),
    ("parent_exits", false),
    ("other_ways_to_fork", true),
    ("programs_have_it", true),
    ("spawned_programs_have_it", true),
    ("child_of_vfork", true),
    ("becomes_another", true),
    ("leaves_the_namespace", false),
];

#[test]
fn children_have_the_connections_of_their_parents() {
    let Some(hosts) = Hosts::up() else { return };
    for address in [hosts.linux().ipv4.to_string(), hosts.linux().ipv6.expect("this kernel has IPv6").to_string()] {
        let mut server = hosts.start_linux("echo_all.py", &[&address, "9000"]);
        server.wait_for("listens");
        for (step, is_moved) in STEPS {
            eprintln!("{step}, {address}");
            hosts.start_bare("children.c", &[&address, "9000", step]).finish();
            let (_, told) = hosts.start_ours("children.c", &[&address, "9000", step]).finish();
            assert!(told.contains("accelerated"), "{step}: {told}");
            assert_eq!(told.contains("to the kernel"), is_moved, "{step}: {told}");
        }
    }
}

#[test]
fn what_a_call_still_uses_ends_with_it_as_its_closing_has_said() {
    let Some(hosts) = Hosts::up() else { return };
    let address = hosts.linux().ipv4.to_string();
    let mut server = hosts.start_linux("endings.py", &[&address, "9000"]);
    assert_eq!(server.line(), "listens");
    let arguments = [address.as_str(), "9000", "resets_it_in_a_call"];
    let _bare = hosts.start_bare("children.c", &arguments);
    assert_eq!(server.line(), "0 bytes, reset", "by the kernel");
    let _ours = hosts.start_ours("children.c", &arguments);
    assert_eq!(server.line(), "0 bytes, reset");
}

#[test]
fn what_exec_closes_ends_as_by_the_kernel() {
    let Some(hosts) = Hosts::up() else { return };
    let address = hosts.linux().ipv4.to_string();
    let mut server = hosts.start_linux("endings.py", &[&address, "9000"]);
    assert_eq!(server.line(), "listens");
    for (state, bytes) in [("open", "0"), ("open", "1000000"), ("closed", "1000000")] {
        let _sleeps = hosts.start_ours("becomes_sleep.py", &[&address, "9000", state, bytes]);
        assert_eq!(server.line(), format!("{bytes} bytes, finished"), "{state}");
    }
}

#[test]
fn a_server_that_forks_for_each_connection_gives_what_the_kernel_gives() {
    let Some(hosts) = Hosts::up() else { return };
    let address = hosts.ours().ipv4.to_string();
    let server = hosts.start_ours("forking_server.py", &[&address, "9000", "6"]);
    let (out, _) = hosts.start_linux("stream_client.py", &[&address, "9000"]).finish();
    assert!(out.lines().count() == 8 && out.lines().all(|line| line.ends_with(" good")), "{out}");
    let (_, told) = server.finish();
    assert!(told.contains("accelerated"), "{told}");
    assert!(told.contains("to the kernel: the program closes it, and another process may have it"), "{told}");
}

#[test]
fn a_daemon_accepts_past_the_kernel_what_its_parent_has_listened_for() {
    let Some(hosts) = Hosts::up() else { return };
    let address = hosts.ours().ipv4.to_string();
    let mut server = hosts.start_ours("daemon.c", &[&address, "9000"]);
    assert_eq!(server.line(), "a daemon");
    let (out, _) = hosts.start_linux("one_talk.py", &[&address, "9000"]).finish();
    assert_eq!(out, "good\n");
    let (out, told) = server.finish();
    assert_eq!(out, "the peer has finished\n", "{told}");
    assert_eq!(told.matches("TCP listener at").count(), 2, "the parent's, then the daemon's: {told}");
}

/// The parent has not waited for a connection, so that none is answered that the child would not have.
#[test]
fn connections_that_begin_between_listen_and_fork_are_the_childs() {
    let Some(hosts) = Hosts::up() else { return };
    let (ours, port) = (hosts.ours(), "9000");
    let addresses = [ours.ipv4.to_string(), ours.ipv6.expect("this kernel has IPv6").to_string()];
    let mut server = hosts.start_ours("prefork_server.py", &[port, "2"]);
    server.wait_for("listens");
    let mut peer = hosts.start_linux("prefork_peer.py", &[port, &addresses[0], &addresses[1]]);
    peer.wait_for("has begun");
    server.say("fork");
    server.wait_for("forked");
    peer.say("go on");
    assert_eq!(peer.finish().0, "good\n");
    let (out, told) = server.finish();
    assert_eq!(out, "the child ended with 0\n", "{told}");
    assert!(told.contains("TCP listener at [::]:9000: accelerated"), "{told}");
}

#[test]
fn nginx_serves_past_the_kernel_in_a_worker() {
    if !support::is_installed("nginx") && !std::path::Path::new("/usr/sbin/nginx").exists() {
        return eprintln!("skipped: nginx is not installed");
    }
    let Some(hosts) = Hosts::up() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let (address, end) = (hosts.ours().ipv4.to_string(), folder.path().join("end"));
    let mut server = hosts.start_ours("nginx.py", &[&address, end.to_str().expect("it is text")]);
    // A connection that the kernel had already would keep the port from going past it.
    server.wait_for("serves");
    let (out, _) = hosts.start_linux("fetch.py", &[&address, "8080"]).finish();
    std::fs::write(&end, "").expect("it can be written");
    let (ended, told) = server.finish();
    assert_eq!((out.as_str(), ended.as_str()), ("wrong: []\n", "nginx ended with 0\n"), "{told}");
    assert!(told.contains(&format!("TCP listener at {address}:8080: accelerated")), "{told}");
    assert!(told.contains(&format!("TCP from {address}:8080")), "{told}");
}

/// A program of ours that is accelerated, which needs the queue.
fn is_served(hosts: &Hosts, address: &str) {
    let (out, told) = hosts.start_ours("one_talk.py", &[address, "9000"]).finish();
    assert_eq!(out, "good\n");
    assert!(told.contains("accelerated"), "{told}");
}

#[test]
fn a_killed_program_leaves_nothing_whether_it_has_children_or_not() {
    let Some(hosts) = Hosts::up() else { return };
    let address = hosts.linux().ipv4.to_string();
    let mut server = hosts.start_linux("echo_all.py", &[&address, "9000"]);
    server.wait_for("listens");
    for manner in ["alone", "child", "alone", "child"] {
        let mut holder = hosts.start_ours("holder.py", &[&address, "9000", manner, "100000", "3"]);
        holder.wait_for("holds");
        // SIGKILL. The child lives on.
        drop(holder);
        is_served(&hosts, &address);
    }
}

#[test]
fn cancelled_threads_end_where_nothing_of_the_library_is_left() {
    let Some(hosts) = Hosts::up() else { return };
    let (address, own) = (hosts.linux().ipv4.to_string(), hosts.ours().ipv4.to_string());
    let mut server = hosts.start_linux("echo_all.py", &[&address, "9000"]);
    server.wait_for("listens");
    let log = tempfile::NamedTempFile::new().expect("a file");
    let (out, _) = hosts.start_logging("cancelled.c", &[&address, "9000", &own, "9001"], log.path()).finish();
    let told = std::fs::read_to_string(log.path()).expect("it can be read");
    assert_eq!(out, "listened\ngood\n", "{told}");
    assert!(told.contains("accelerated"), "{told}");
}

#[test]
fn a_program_that_was_stopped_goes_on() {
    let Some(hosts) = Hosts::up() else { return };
    let address = hosts.linux().ipv4.to_string();
    let mut server = hosts.start_linux("echo_all.py", &[&address, "9000"]);
    server.wait_for("listens");
    let mut holder = hosts.start_ours("holder.py", &[&address, "9000", "alone", "150"]);
    holder.wait_for("holds");
    for _ in 0..3 {
        holder.stop();
        std::thread::sleep(std::time::Duration::from_millis(700));
        holder.go_on();
        std::thread::sleep(std::time::Duration::from_millis(300));
    }
    let (out, told) = holder.finish();
    assert_eq!(out, "good\n", "{told}");
}
