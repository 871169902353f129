//! `bench serve` and `--to`: a peer on another machine, who may ask what of it, and how it ends.

mod support;

use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::time::Duration;
use support::result::{check_schema, rows};
use support::{finish, my_turn, run, send_signal, sidestep};

/// A serving peer, killed at the end of a test that leaves it running.
struct Server(Child, String);

impl Server {
    fn start(arguments: &[&str]) -> Self {
        let mut child = sidestep(arguments).stderr(Stdio::piped()).spawn().expect("the binary is built");
        let mut line = String::new();
        BufReader::new(child.stderr.take().expect("piped")).read_line(&mut line).expect("it says where it listens");
        let address =
            line.split_whitespace().nth(3).unwrap_or_else(|| panic!("{line}")).trim_end_matches(';').to_owned();
        Self(child, address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_serving_peer_is_measured_against_and_ends_in_order() {
    let _turn = my_turn();
    let mut server = Server::start(&["bench", "serve", "--listen", "127.0.0.1:0"]);
    let finished = run(&[
        "bench",
        "rr",
        "--to",
        &server.1,
        "--transport",
        "tcp,udp",
        "--paths",
        "kernel-spin,kernel-epoll",
        "--duration",
        "60ms",
        "--json",
        "-",
    ]);
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    let document = finished.json();
    check_schema(&document);
    assert_eq!((rows(&document).len(), &document["setup"]["place"]), (4, &Value::from("remote")));
    assert!(document["peer"]["kernel"].is_string());
    send_signal(server.0.id(), "INT");
    assert_eq!(server.0.wait().expect("it ends").code(), Some(0));
}

#[test]
fn a_peer_that_dies_in_mid_run_leaves_partial_results() {
    let _turn = my_turn();
    // How long it takes until something is measured depends on who else runs.
    let rows_of = |wait_s| {
        let document = measured_until_the_peer_dies(Duration::from_secs(wait_s));
        rows(&document).len()
    };
    assert!([4, 15, 45].into_iter().any(|wait_s| rows_of(wait_s) == 1), "what was measured is kept");
}

fn measured_until_the_peer_dies(wait: Duration) -> Value {
    let server = Server::start(&["bench", "serve", "--listen", "127.0.0.1:0"]);
    let client =
        sidestep(&["bench", "rr", "--to", &server.1, "--paths", "kernel-spin", "--duration", "90s", "--json", "-"])
            .spawn()
            .expect("the binary is built");
    std::thread::sleep(wait);
    drop(server);
    let finished = finish(client);
    assert_eq!(finished.code, 1, "{}", finished.stderr);
    assert!(finished.stderr.contains("peer") && finished.stderr.contains("next:"), "{}", finished.stderr);
    let document = finished.json();
    assert_eq!(document["interrupted"], true);
    check_schema(&document);
    document
}

#[test]
fn strangers_are_turned_away() {
    let _turn = my_turn();
    use std::io::{Read, Write};
    let server = Server::start(&["bench", "serve", "--listen", "127.0.0.1:0", "--sessions", "8"]);
    for greeting in [
        &b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"[..],
        &[0xff; 64],
        &frame(br#"{"request":"hello","magic":"other","protocol":6,"version":"1"}"#),
        &frame(br#"{"request":"echo"}"#),
    ] {
        let mut stranger = std::net::TcpStream::connect(&server.1).expect("it listens");
        stranger.set_read_timeout(Some(Duration::from_secs(10))).expect("a time-out");
        stranger.write_all(greeting).expect("it reads");
        let mut answer = Vec::new();
        let closed = stranger.read_to_end(&mut answer);
        assert!(closed.is_ok() || closed.is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset));
        assert!(answer.is_empty(), "nothing is told to a stranger");
    }
    let mut other = std::net::TcpStream::connect(&server.1).expect("it listens");
    other
        .write_all(&frame(br#"{"request":"hello","magic":"sidestep-bench","protocol":999,"version":"9"}"#))
        .expect("it reads");
    let mut answer = Vec::new();
    other.read_to_end(&mut answer).expect("it answers and closes");
    assert!(String::from_utf8_lossy(&answer).contains("\"protocol\":6"), "it says which protocol it speaks");
}

/// One who has greeted as a measuring end would, and asks for more than it gives.
#[test]
fn a_stranger_gets_no_more_than_it_sends_and_hears_nothing_of_the_host() {
    use std::io::{Read, Write};
    let _turn = my_turn();
    let server = Server::start(&["bench", "serve", "--listen", "127.0.0.1:0", "--cpu", "0"]);
    let mut stranger = std::net::TcpStream::connect(&server.1).expect("it listens");
    stranger.set_read_timeout(Some(Duration::from_secs(20))).expect("a time-out");
    let mut ask = |request: &[u8]| {
        stranger.write_all(&frame(request)).expect("it reads");
        let mut length = [0; 4];
        stranger.read_exact(&mut length).expect("it answers");
        let mut answer = vec![0; u32::from_le_bytes(length) as usize];
        stranger.read_exact(&mut answer).expect("it answers");
        serde_json::from_slice::<Value>(&answer).expect("it speaks JSON")
    };
    let hello = ask(br#"{"request":"hello","magic":"sidestep-bench","protocol":6,"version":"1"}"#);
    let host = &hello["host"];
    assert_eq!((host["hostname"].as_str(), host["cmdline"].as_str()), (Some("(not told)"), Some("(not told)")));
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("any Linux has it");
    assert!(!hello.to_string().contains(kernel.trim()), "{hello}");
    // Ninety-eight bytes that were once worth six gigabytes.
    let bulk = ask(br#"{"request":"bulk","path":"kernel-spin","size":65536,"cpu":null,"send_for_ns":8000000000}"#);
    assert!(bulk["reply"] == "refused" && bulk["next"].as_str().unwrap().contains("--stream-bytes"), "{bulk}");
    let pinned = ask(br#"{"request":"accept","path":"kernel-pinned","size":64,"cpu":1}"#);
    assert!(pinned["reply"] == "refused" && pinned["next"].as_str().unwrap().contains("--allow-cpu"), "{pinned}");
    let joined = ask(
        br#"{"request":"sink","path":"kernel-spin","size":64,"cpu":null,"port":9,"group":"224.0.1.1","reflect_every":1,"batch":1}"#,
    );
    assert!(joined["reply"] == "refused" && joined["reason"].as_str().unwrap().contains("224.0.1.1"), "{joined}");
    // A batch of 280 TB: one call receives no more than a megabyte of it.
    let batch = ask(
        br#"{"request":"sink","path":"kernel-spin","size":65507,"cpu":null,"port":9,"group":null,"reflect_every":1,"batch":4294967295}"#,
    );
    assert_eq!(batch["reply"], "ready", "{batch}");
}

#[test]
fn streams_are_measured_against_a_peer_that_may_send_them() {
    let _turn = my_turn();
    let server = Server::start(&["bench", "serve", "--listen", "127.0.0.1:0", "--stream-bytes", "1000000000000"]);
    let options = ["--paths", "kernel-spin", "--duration", "60ms", "--json", "-"];
    let finished = run(&[&["bench", "bulk", "--to", &server.1][..], &options].concat());
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    assert!(!rows(&finished.json()).is_empty());
}

#[test]
fn a_busy_peer_says_so() {
    use std::io::{Read, Write};
    let _turn = my_turn();
    let server = Server::start(&["bench", "serve", "--listen", "127.0.0.1:0"]);
    let mut first = std::net::TcpStream::connect(&server.1).expect("it listens");
    first
        .write_all(&frame(br#"{"request":"hello","magic":"sidestep-bench","protocol":6,"version":"1"}"#))
        .expect("it reads");
    assert_ne!(first.read(&mut [0; 4]).expect("it answers"), 0, "the first has the session");
    let second = run(&["bench", "rr", "--to", &server.1]);
    assert_eq!(second.code, 1);
    assert!(second.stderr.contains("busy") && second.stderr.contains("--sessions"), "{}", second.stderr);
}

fn frame(body: &[u8]) -> Vec<u8> {
    let mut frame = (body.len() as u32).to_le_bytes().to_vec();
    frame.extend(body);
    frame
}

#[test]
fn a_peer_of_another_version_is_refused() {
    let _turn = my_turn();
    use std::io::{Read, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback can be bound");
    let address = listener.local_addr().expect("it is bound").to_string();
    let peer = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("the client connects");
        let _ = stream.read(&mut [0; 4096]);
        let hello = br#"{"reply":"hello","protocol":999,"version":"9.9.9","host":HOST}"#;
        let host = r#"{"hostname":"","kernel":"","cpu":"","cpus":1,"clocksource":"","clock":"","clock_error_ppm":0.0,"timer_cost_ns":0.0,"timer_resolution_ns":0.0,"cmdline":"","noise":{},"virtualised":null,"tsc_hz":null,"governor":null}"#;
        let body = String::from_utf8_lossy(hello).replace("HOST", host);
        stream.write_all(&frame(body.as_bytes())).expect("the client reads");
    });
    let finished = run(&["bench", "rr", "--to", &address]);
    peer.join().expect("the peer does not panic");
    assert_eq!(finished.code, 1);
    assert!(finished.stderr.contains("9.9.9") && finished.stderr.contains("same version"), "{}", finished.stderr);
}
