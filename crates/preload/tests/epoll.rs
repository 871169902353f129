//! epoll(7) of unmodified programs past the kernel, with Linux at the other end.

#[path = "support/host.rs"]
mod host;
mod support;

use host::Hosts;

const MANNERS: [&str; 3] = ["level", "edge", "oneshot"];
/// Connections of one set.
const CONNECTIONS: &str = "40";
const ECHOED: &str = "echoed 1600 True\n";

#[test]
fn a_client_of_many_connections_in_one_set() {
    let Some(hosts) = Hosts::up() else { return };
    for (manner, port) in MANNERS.iter().zip(["9001", "9002", "9003"]) {
        let address = hosts.linux().ipv4.to_string();
        let mut server = hosts.start_linux("epoll_echo.py", &["server", &address, port, CONNECTIONS, manner]);
        server.wait_for("listening");
        let (out, told) = hosts.start_ours("epoll_echo.py", &["client", &address, port, CONNECTIONS, manner]).finish();
        assert_eq!(out, ECHOED, "{manner}: {told}");
        assert!(told.contains("accelerated"), "{told}");
        server.finish();
    }
}

#[test]
fn a_server_of_many_connections_in_one_set() {
    let Some(hosts) = Hosts::up() else { return };
    for (manner, port) in MANNERS.iter().zip(["9001", "9002", "9003"]) {
        let address = hosts.ours().ipv6.expect("this kernel has IPv6").to_string();
        let mut server = hosts.start_ours("epoll_echo.py", &["server", &address, port, CONNECTIONS, manner]);
        server.wait_for("listening");
        let (out, _) = hosts.start_linux("epoll_echo.py", &["client", &address, port, CONNECTIONS, manner]).finish();
        assert_eq!(out, ECHOED, "{manner}");
        let (out, told) = server.finish();
        assert!(out.ends_with("served 40 True\n"), "{out}");
        assert!(told.contains("accelerated"), "{told}");
    }
}

/// The kernel is asked first; whatever it says of a rule, the library says.
#[test]
fn the_rules_are_the_kernels() {
    let Some(hosts) = Hosts::up() else { return };
    for address in [hosts.linux().ipv4.to_string(), hosts.linux().ipv6.expect("this kernel has IPv6").to_string()] {
        let mut peer = hosts.start_linux("epoll_peer.py", &[&address, "9000"]);
        peer.wait_for("listening");
        let (of_kernel, _) = hosts.start_bare("epoll_rules.py", &[&address, "9000"]).finish();
        let (of_ours, told) = hosts.start_ours("epoll_rules.py", &[&address, "9000"]).finish();
        assert!(of_kernel.contains("listeners 3"), "{of_kernel}");
        assert_eq!(of_ours, of_kernel, "{told}");
        assert!(told.contains("accelerated"), "{told}");
    }
}
