//! Clients of the metrics that mean harm.

use super::daemon::{Series, Watch, rounds, value};
use crate::support::my_turn;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

/// The most that such clients may add to the memory of a watch: their connections, and the requests that it has begun to read.
const GROWTH_MAX: f64 = 8e6;

/// A connection from another address of loopback, so that its limit is its own.
fn connect_from(from: &str, to: &str) -> std::io::Result<TcpStream> {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)?;
    socket.bind(&SocketAddr::new(from.parse().expect("an address"), 0).into())?;
    socket.connect(&to.parse::<SocketAddr>().expect("an address").into())?;
    Ok(socket.into())
}

#[test]
fn hostile_clients_stop_neither_scrapes_nor_probes_and_take_no_memory() {
    let _turn = my_turn();
    let watch = Watch::serving(&["--tune-every", "never"]);
    let address = watch.address();
    let resident = |series: &Series| value(series, "sidestep_watch_resident_memory_bytes", &[]);
    let before = watch.series_where("five rounds", |series| rounds(series) >= 5.0);
    let mut held = Vec::new();
    for number in 0..1_000_u32 {
        let from = format!("127.0.{}.{}", 1 + number / 200, 1 + number % 200);
        let Ok(mut stream) = connect_from(&from, &address) else { continue };
        // Silent, slow, never ending, and deaf ones in turn. Some are closed by the watch meanwhile.
        let _ = match number % 4 {
            0 => Ok(()),
            1 => stream.write_all(b"GET /metrics HTTP/1.1\r\nHo"),
            2 => stream.write_all(format!("GET / HTTP/1.1\r\nX: {}\r\n", "x".repeat(60_000)).as_bytes()),
            _ => stream.write_all(b"GET / HTTP/1.1\r\n\r\n"),
        };
        held.push(stream);
    }
    assert!(held.len() > 900, "{} connections", held.len());
    let after = watch.series_where("five more rounds", |series| rounds(series) >= rounds(&before) + 5.0);
    let growth = resident(&after) - resident(&before);
    assert!(growth < GROWTH_MAX, "{growth} bytes more");
    assert_eq!(value(&after, "sidestep_probe_up", &["path=\"kernel-spin\""]), 1.0);
    drop(held);
    assert_eq!(watch.end("TERM"), 0);
}

#[test]
fn what_is_no_request_gets_no_metrics() {
    let _turn = my_turn();
    let watch = Watch::serving(&["--tune-every", "never", "--hiccup-cpus", "none"]);
    for request in ["POST /metrics HTTP/1.1\r\n\r\n", "\u{0}\u{1}\u{2}\r\n\r\n", "\r\n\r\n"] {
        let mut stream = TcpStream::connect(watch.address()).expect("it listens");
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut answer = String::new();
        // It may reset what it does not understand.
        let _ = stream.read_to_string(&mut answer);
        assert!(!answer.contains("sidestep_"), "{request:?}: {answer}");
    }
    assert!(watch.series().contains_key("sidestep_watch_rounds_total"));
}
