//! Programs whose connections all go to the kernel while data flows both ways: the control plane ends, or `sidestep ps --release`.

#[path = "support/host.rs"]
mod host;
mod support;

use host::{Hosts, Running};
use sidestep_control_api::client::Client;
use sidestep_control_api::place;

const CONNECTIONS: usize = 12;

/// The client under the library, and the peer, which echoes.
fn start(hosts: &Hosts, address: &str) -> (Running, Running) {
    let mut server = hosts.start_linux("echo_threads.py", &[address, "9000"]);
    server.wait_for("listening");
    let mut client = hosts.start_ours("steady_client.py", &[address, "9000", &CONNECTIONS.to_string()]);
    client.wait_for("going");
    (server, client)
}

fn addresses(hosts: &Hosts) -> [String; 2] {
    [hosts.linux().ipv4.to_string(), hosts.linux().ipv6.expect("this kernel has IPv6").to_string()]
}

/// Ends the client; every byte arrived, and every connection began past the kernel.
fn end(mut client: Running) -> String {
    client.say("end");
    let (out, told) = client.finish();
    assert_eq!(out, "all good\n", "{told}");
    assert_eq!(told.matches("accelerated").count(), CONNECTIONS, "{told}");
    told
}

fn established_in_kernel(hosts: &Hosts) -> usize {
    hosts
        .ours()
        .within(|| {
            let tables = ["/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"]
                .map(|path| std::fs::read_to_string(path).unwrap_or_default());
            Ok(tables.iter().flat_map(|table| table.lines()).filter(|line| line.contains(":2328 01 ")).count())
        })
        .expect("root can enter")
}

#[test]
fn a_control_plane_that_ends_leaves_connections_to_the_kernel() {
    for family in 0..2 {
        let Some(mut hosts) = Hosts::up() else { return };
        let (_server, client) = start(&hosts, &addresses(&hosts)[family]);
        assert_eq!(established_in_kernel(&hosts), 0);
        hosts.end_control();
        assert_eq!(established_in_kernel(&hosts), CONNECTIONS);
        end(client);
    }
}

#[test]
fn a_release_leaves_the_connections_of_one_process_to_the_kernel() {
    let Some(hosts) = Hosts::up() else { return };
    for address in addresses(&hosts) {
        let (_server, client) = start(&hosts, &address);
        let path = hosts.ours().within(place::socket).expect("it has a place");
        let mut control = Client::connect_to(&path, "test").expect("it runs");
        let refused = control.release_process(std::process::id()).expect_err("this process has no stack");
        assert!(refused.to_string().contains("it has no stack"), "{refused}");
        control.release_process(client.pid()).expect("root may");
        assert_eq!(established_in_kernel(&hosts), CONNECTIONS);
        end(client);
    }
}
