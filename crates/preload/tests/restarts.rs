//! A server that is started anew binds its ports again at once, as with the kernel: after its process has ended, after exec(3), and after
//! close(2).

#[path = "support/host.rs"]
mod host;
mod support;

use host::Hosts;

const PORT: &str = "9000";

/// Starts of one server, one after the other.
const STARTS: u32 = 30;

#[test]
fn the_ports_of_a_server_are_free_when_it_has_ended() {
    let Some(hosts) = Hosts::up() else { return };
    let address = hosts.ours().ipv4.to_string();
    for manner in ["reuse", "plain"] {
        let mut accelerated = 0;
        for start in 0..STARTS {
            let (out, told) = hosts.start_ours("restarts.c", &[&address, PORT, "exit", manner, "1"]).finish();
            assert_eq!(out, "1\n", "{manner}, start {start}: {told}");
            accelerated += told.matches("accelerated").count();
        }
        println!("{manner}: {accelerated} accelerated");
        assert_ne!(accelerated, 0);
    }
}

#[test]
fn the_ports_of_a_server_are_free_after_exec_and_close() {
    let Some(hosts) = Hosts::up() else { return };
    let address = hosts.ours().ipv4.to_string();
    let expected: String = (1..=STARTS).rev().map(|left| format!("{left}\n")).collect();
    for manner in ["reuse", "plain"] {
        for how in ["exec", "close"] {
            let arguments = [&address, PORT, how, manner, &STARTS.to_string()];
            let (out, told) = hosts.start_ours("restarts.c", &arguments).finish();
            assert_eq!(out, expected, "{how}, {manner}: {told}");
            println!("{how}, {manner}: {} accelerated", told.matches("accelerated").count());
            assert!(told.contains("accelerated"), "{told}");
        }
    }
}
