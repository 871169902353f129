//! Connections of unmodified programs past the kernel, with Linux at the other end.

#[path = "support/host.rs"]
mod host;
mod support;

use host::Hosts;

const STEPS: [&str; 8] =
    ["blocking", "timeouts", "nonblocking", "bulk", "file", "refusal", "bad_descriptors", "loopback"];
/// Connections that the client makes to the server.
const CONNECTIONS: &str = "6";

fn good() -> String {
    STEPS.iter().map(|step| format!("{step} good\n")).collect()
}

#[test]
fn a_client_gets_what_it_gets_from_the_kernel() {
    let Some(hosts) = Hosts::up() else { return };
    for address in [hosts.linux().ipv4.to_string(), hosts.linux().ipv6.expect("this kernel has IPv6").to_string()] {
        let server = hosts.start_linux("echo_server.py", &[&address, "9000", CONNECTIONS]);
        let (out, told) = hosts.start_ours("stream_client.py", &[&address, "9000"]).finish();
        assert_eq!(out, good(), "{told}");
        assert!(told.contains("accelerated"), "{told}");
        server.finish();
    }
}

#[test]
fn a_server_gives_what_the_kernel_gives() {
    let Some(hosts) = Hosts::up() else { return };
    for address in [hosts.ours().ipv4.to_string(), hosts.ours().ipv6.expect("this kernel has IPv6").to_string()] {
        let server = hosts.start_ours("echo_server.py", &[&address, "9000", CONNECTIONS]);
        let (out, _) = hosts.start_linux("stream_client.py", &[&address, "9000"]).finish();
        assert_eq!(out, good());
        let (_, told) = server.finish();
        assert!(told.contains("accelerated"), "{told}");
    }
}

#[test]
fn connections_outlive_fork_passing_urgent_data_and_exec() {
    let Some(hosts) = Hosts::up() else { return };
    for address in [hosts.linux().ipv4.to_string(), hosts.linux().ipv6.expect("this kernel has IPv6").to_string()] {
        let server = hosts.start_linux("echo_server.py", &[&address, "9000", "4"]);
        let (out, told) = hosts.start_ours("leaving_client.py", &[&address, "9000"]).finish();
        let steps = ["forked", "passed", "urgent", "executed"];
        assert_eq!(out, steps.iter().map(|step| format!("{step} good\n")).collect::<String>(), "{told}");
        assert!(told.contains("to the kernel: control or another process has asked for it"), "{told}");
        server.finish();
    }
}

#[test]
fn what_is_unsent_at_exit_arrives() {
    let Some(hosts) = Hosts::up() else { return };
    let address = hosts.linux().ipv4.to_string();
    for how in ["exit", "_exit", "close"] {
        let sink = hosts.start_linux("slow_sink.py", &[&address, "9000"]);
        hosts.start_ours("last_words.py", &[&address, "9000", how]).finish();
        assert_eq!(sink.finish().0, "6000000 bytes, and the end\n", "{how}");
    }
}

#[test]
fn a_connection_outlives_its_listener_at_a_port_of_the_kernels_choice() {
    let Some(hosts) = Hosts::up() else { return };
    for address in [hosts.ours().ipv4.to_string(), hosts.ours().ipv6.expect("this kernel has IPv6").to_string()] {
        let mut server = hosts.start_ours("closing_server.py", &[&address]);
        let port = server.line();
        let (out, _) = hosts.start_linux("closing_server.py", &[&address, &port]).finish();
        assert_eq!(out, "echoed\n");
        let (_, told) = server.finish();
        assert!(told.contains("accelerated"), "{told}");
    }
}

#[test]
fn a_connection_that_does_not_wait_has_a_port_at_once() {
    let Some(hosts) = Hosts::up() else { return };
    let (ours, linux) = (hosts.ours(), hosts.linux());
    let nobody_6 = linux.ipv6.expect("this kernel has IPv6").to_string().replace("::2", "::99");
    let own_6 = ours.ipv6.expect("this kernel has IPv6").to_string();
    for (nobody, own) in [("198.18.0.99".to_owned(), ours.ipv4.to_string()), (nobody_6, own_6)] {
        let (out, told) = hosts.start_ours("named_at_once.py", &[&nobody, &own]).finish();
        assert_eq!(out, "EINPROGRESS True True EALREADY\n", "{told}");
        assert!(told.contains("the program asks for its port before it has one"), "{told}");
    }
}

#[test]
fn a_listener_of_both_families_is_accelerated_in_both() {
    let Some(hosts) = Hosts::up() else { return };
    let mut server = hosts.start_ours("dual_stack_server.py", &[]);
    let port = server.line();
    let ours = hosts.ours();
    let addresses = [ours.ipv4.to_string(), ours.ipv6.expect("this kernel has IPv6").to_string()];
    let clients: Vec<_> = addresses.iter().map(|at| hosts.start_linux("closing_server.py", &[at, &port])).collect();
    for client in clients {
        assert_eq!(client.finish().0, "echoed\n");
    }
    let (out, told) = server.finish();
    let mut shown: Vec<&str> = out.lines().collect();
    shown.sort_unstable();
    assert_eq!(shown, ["2001:2::2 2001:2::1", "::ffff:198.18.0.2 ::ffff:198.18.0.1"], "{told}");
    for address in [addresses[0].clone(), format!("[{}]", addresses[1])] {
        let connection = format!("TCP from {address}:{port} to");
        assert!(told.lines().any(|line| line.contains(&connection) && line.contains("accelerated")), "{told}");
    }
}

#[test]
fn a_program_that_clears_its_environment_keeps_the_options_that_it_was_started_with() {
    let Some(hosts) = Hosts::up() else { return };
    let address = hosts.linux().ipv4.to_string();
    let mut server = hosts.start_linux("echo_all.py", &[&address, "9000"]);
    server.wait_for("listens");
    let arguments = ["one_talk.py", &address, "9000"];
    for (control, path) in [("", "accelerated"), ("/nowhere", "kernel: the control plane is not running")] {
        let (out, told) =
            hosts.start_where("forgetful.py", &arguments, &[("SIDESTEP_CONTROL", control.to_owned())]).finish();
        assert!(out == "good\n" && told.contains(path), "{told}");
    }
}

#[test]
fn a_thread_with_a_small_stack_has_connections() {
    let Some(hosts) = Hosts::up() else { return };
    let address = hosts.linux().ipv4.to_string();
    let mut server = hosts.start_linux("echo_all.py", &[&address, "9000"]);
    server.wait_for("listens");
    hosts.start_bare("small_stack.c", &[&address, "9000", "64"]).finish();
    let (_, told) = hosts.start_ours("small_stack.c", &[&address, "9000", "64"]).finish();
    assert!(told.contains("accelerated"), "{told}");
}

#[test]
fn connections_with_options_that_the_kernel_alone_follows_are_its_own() {
    let Some(hosts) = Hosts::up() else { return };
    let address = hosts.linux().ipv4.to_string();
    let mut server = hosts.start_linux("echo_all.py", &[&address, "9000"]);
    server.wait_for("listens");
    let (bare, _) = hosts.start_bare("odd_options.py", &[&address, "9000"]).finish();
    let (ours, told) = hosts.start_ours("odd_options.py", &[&address, "9000"]).finish();
    assert_eq!(ours, bare, "{told}");
    assert!(bare.contains("zerocopy True [8]\nzerocopy False [8]\n"), "{bare}");
    let (early, late) = ("kernel: the program has set an option", "to the kernel: the program has set an option");
    assert_eq!((told.matches(early).count(), told.matches(late).count()), (7, 3), "{told}");
}

#[test]
fn congestion_control_is_the_hosts_or_what_the_program_has_chosen() {
    let Some(hosts) = Hosts::up() else { return };
    let (linux, ours) = (hosts.linux().ipv4.to_string(), hosts.ours().ipv4.to_string());
    let mut server = hosts.start_linux("echo_all.py", &[&linux, "9000"]);
    server.wait_for("listens");
    let mut program = hosts.start_ours("congestion.py", &[&linux, "9000", &ours]);
    for line in ["host good", "chosen good", "listens"] {
        assert_eq!(program.line(), line);
    }
    assert_eq!(hosts.start_linux("one_talk.py", &[&ours, "9000"]).finish().0, "good\n");
    let (out, told) = program.finish();
    assert_eq!(out, "inherited good\n", "{told}");
    assert!(told.contains("accelerated") && !told.contains("an option"), "{told}");
}
