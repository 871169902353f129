//! UDP of unmodified programs past the kernel, with Linux at the other end.

#[path = "support/host.rs"]
mod host;
mod support;

use host::Hosts;
use sidestep_lab::Options;

const MANNERS: [&str; 5] = ["blocking", "nonblocking", "poll", "epoll", "connected"];
const COUNT: &str = "210";
const ECHOED: &str = "echoed 210\n";

fn addresses(host: &sidestep_lab::Host) -> [String; 2] {
    [host.ipv4.to_string(), host.ipv6.expect("this kernel has IPv6").to_string()]
}

/// Runs it until so many sockets went past the kernel, a few times at most: where control answers late a socket is the kernel's at
/// first, as it should be.
fn until_accelerated(sockets: usize, mut run: impl FnMut() -> String) {
    let mut told = String::new();
    for _ in 0..8 {
        told = run();
        if told.matches("accelerated").count() >= sockets {
            return;
        }
    }
    panic!("{told}");
}

#[test]
fn a_client_in_every_manner_gets_every_answer() {
    let Some(hosts) = Hosts::up() else { return };
    for address in addresses(hosts.linux()) {
        for (manner, port) in MANNERS.iter().zip(["9001", "9002", "9003", "9004", "9005"]) {
            until_accelerated(1, || {
                let mut server = hosts.start_linux("udp_echo.py", &["server", &address, port, COUNT, "blocking"]);
                server.wait_for("listening");
                let client = hosts.start_ours("udp_echo.py", &["client", &address, port, COUNT, manner, "3"]);
                let (out, told) = client.finish();
                assert_eq!(out, ECHOED, "{manner}: {told}");
                assert!(server.finish().0.ends_with("served True\n"), "{manner}");
                told
            });
        }
    }
}

#[test]
fn a_server_in_every_manner_answers_everybody() {
    let Some(hosts) = Hosts::up() else { return };
    for address in addresses(hosts.ours()) {
        for (manner, port) in MANNERS[..4].iter().zip(["9001", "9002", "9003", "9004"]) {
            until_accelerated(1, || {
                let mut server = hosts.start_ours("udp_echo.py", &["server", &address, port, COUNT, manner]);
                server.wait_for("listening");
                let client = hosts.start_linux("udp_echo.py", &["client", &address, port, COUNT, "blocking", "70"]);
                assert_eq!(client.finish().0, ECHOED, "{manner}");
                let (out, told) = server.finish();
                assert!(out.ends_with("served True\n"), "{manner}: {out} {told}");
                told
            });
        }
    }
}

#[test]
fn a_thousand_peers_of_a_device_of_several_queues() {
    for queues in [2, 4] {
        let Some(hosts) = Hosts::up_with(&Options { queues, ..Options::default() }) else { return };
        for (address, manner) in addresses(hosts.ours()).iter().zip(["epoll", "blocking"]) {
            until_accelerated(1, || serve_a_thousand(&hosts, address, manner));
        }
        let [ipv4, ipv6] = addresses(hosts.linux());
        // With one queue of several it is not known by which the answers come: the kernel has them.
        let told = connect_21(&hosts, &ipv4, "any");
        assert!(!told.contains("accelerated"), "{told}");
        until_accelerated(21, || connect_21(&hosts, &ipv6, "every"));
    }
}

fn serve_a_thousand(hosts: &Hosts, address: &str, manner: &str) -> String {
    let arguments = ["server", address, "9001", "2000", manner];
    let mut server = hosts.start_with("udp_echo.py", &arguments, "every");
    server.wait_for("listening");
    let arguments = ["client", address, "9001", "2000", "blocking", "1000"];
    assert_eq!(hosts.start_linux("udp_echo.py", &arguments).finish().0, "echoed 2000\n", "{manner}");
    let (out, told) = server.finish();
    assert!(out.ends_with("served True\n"), "{manner}: {out} {told}");
    told
}

fn connect_21(hosts: &Hosts, address: &str, queues: &str) -> String {
    let mut server = hosts.start_linux("udp_echo.py", &["server", address, "9002", COUNT, "blocking"]);
    server.wait_for("listening");
    let arguments = ["client", address, "9002", COUNT, "connected", "21"];
    let (out, told) = hosts.start_with("udp_echo.py", &arguments, queues).finish();
    assert_eq!(out, ECHOED, "{told}");
    server.finish();
    told
}

const MEMBERS: [&str; 4] = ["early 300", "number 300", "group 300", "six 300"];

#[test]
fn every_member_of_a_group_gets_its_copy() {
    let Some(hosts) = Hosts::up() else { return };
    let (ours, theirs) = (hosts.ours().ipv4.to_string(), hosts.linux().ipv4.to_string());
    let mut members = hosts.start_ours("udp_groups.py", &["member", &ours, "300"]);
    members.wait_for("joined");
    hosts.start_linux("udp_groups.py", &["send", &theirs, "300"]).finish();
    let (out, told) = members.finish();
    assert!(MEMBERS.iter().all(|member| out.contains(member)), "{out}{told}");
    assert!(told.contains("accelerated") && !told.contains("another program"), "{told}");
}

#[test]
fn a_member_of_another_program_gets_its_copy() {
    let Some(hosts) = Hosts::up() else { return };
    let (ours, theirs) = (hosts.ours().ipv4.to_string(), hosts.linux().ipv4.to_string());
    let mut members = hosts.start_ours("udp_groups.py", &["member", &ours, "300"]);
    members.wait_for("joined");
    let mut guest = hosts.start_bare("udp_groups.py", &["guest", &ours, "300"]);
    guest.wait_for("joined");
    // Twice the time that the library takes to find it.
    std::thread::sleep(std::time::Duration::from_secs(1));
    hosts.start_linux("udp_groups.py", &["send", &theirs, "300"]).finish();
    assert_eq!(guest.finish().0, "guest 300\n");
    let (out, told) = members.finish();
    assert!(MEMBERS.iter().all(|member| out.contains(member)), "{out}{told}");
    assert!(told.contains("another program has a socket"), "{told}");
}

/// The link has far fewer frames than that.
#[test]
fn a_receive_buffer_holds_what_the_program_has_asked_for_and_counts_the_rest() {
    let Some(hosts) = Hosts::up() else { return };
    let address = hosts.ours().ipv4.to_string();
    for (bytes, port) in [("8000000", "9001"), ("0", "9002")] {
        let mut reader = hosts.start_ours("udp_buffer.py", &["full", &address, port, bytes]);
        reader.wait_for("bound");
        hosts.start_linux("udp_buffer.py", &["send", &address, port, "3000"]).finish();
        let (out, told) = reader.finish();
        let numbers: Vec<u32> = out.trim().rsplit(' ').take(2).map(|number| number.parse().unwrap()).collect();
        let [dropped, count] = numbers[..] else { panic!("{out}") };
        assert!(told.contains("accelerated"), "{told}");
        if bytes == "0" {
            assert!(count < 3000 && dropped > 0 && count + dropped <= 3000, "{out}");
        } else {
            assert_eq!((count, dropped), (3000, 0), "{told}");
        }
    }
}

#[test]
fn neither_side_starves_the_other() {
    let Some(hosts) = Hosts::up() else { return };
    let address = hosts.ours().ipv4.to_string();
    let mut reader = hosts.start_ours("udp_buffer.py", &["fair", &address, "9001"]);
    reader.wait_for("bound");
    let _floods = [
        hosts.start_linux("udp_buffer.py", &["flood", &address, "9001"]),
        hosts.start_bare("udp_buffer.py", &["flood", &address, "9001"]),
    ];
    let (out, told) = reader.finish();
    assert_eq!(out, "fair True\n", "{told}");
    assert!(told.contains("accelerated"), "{told}");
}
