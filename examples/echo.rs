//! An echo server and its client over any kind of stream and any kind of waiting.
//!
//! ```text
//! cargo run --release --example echo -- tcp spin
//! cargo run --release --example echo -- unix block
//! cargo run --release --example echo -- shm epoll
//! cargo run --release --example echo -- xdp:lo:127.0.0.1:0 block
//! ```

use sidestep::stream::{Backend, Endpoint, Io, Listener, Options, Stream, Waiting, connect, is_retry};
use std::error::Error;
use std::io;
use std::time::{Duration, Instant};

const MESSAGES: u32 = 10_000;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let file = std::env::temp_dir().join(format!("echo-{}", std::process::id()));
    // ANCHOR: endpoint
    let endpoint = match words.first().map(String::as_str) {
        None | Some("tcp") => Endpoint::parse("127.0.0.1:0")?,
        Some("unix") => Endpoint::Unix(file),
        Some("shm") => Endpoint::Shm(file),
        Some(endpoint) => Endpoint::parse(endpoint)?,
    };
    let (waiting, backend) = match words.get(1).map(String::as_str) {
        Some("spin") => (Waiting::Spin, Backend::Kernel),
        Some("epoll") => (Waiting::Epoll, Backend::Kernel),
        Some("uring") => (Waiting::Block, Backend::Uring),
        _ => (Waiting::Block, Backend::Kernel),
    };
    let options = Options { waiting, backend, ..Options::default() };
    // ANCHOR_END: endpoint

    // ANCHOR: server
    let mut there = Io::default();
    let mut listener = Listener::bind(&mut there, &endpoint, &options)?;
    let to = listener.endpoint().clone();
    let server = std::thread::spawn(move || -> io::Result<()> {
        let mut stream = listener.accept_within(&mut there, Duration::from_secs(5))?.stream;
        let mut message = [0; 64];
        while receive(&mut there, &mut stream, &mut message)? {
            stream.write_all(&mut there, &message)?;
        }
        Ok(())
    });
    // ANCHOR_END: server

    // ANCHOR: client
    let mut io = Io::default();
    let mut stream = connect(&mut io, &to, &options)?;
    let (message, mut answer) = ([7; 64], [0; 64]);
    let begin = Instant::now();
    for _ in 0..MESSAGES {
        stream.write_all(&mut io, &message)?;
        receive(&mut io, &mut stream, &mut answer)?;
    }
    println!("{:?} for each of {MESSAGES} round trips", begin.elapsed() / MESSAGES);
    stream.shutdown(&mut io)?;
    while !server.is_finished() {
        io.poll()?; // Past the kernel the FIN leaves, and is acknowledged, in polls.
    }
    // ANCHOR_END: client
    server.join().expect("the server does not panic")?;
    Ok(())
}

// ANCHOR: receive
/// Fills `message`; false at the end of the stream.
fn receive(io: &mut Io, stream: &mut Stream, message: &mut [u8]) -> io::Result<bool> {
    let mut filled = 0;
    while filled < message.len() {
        match stream.read(io, &mut message[filled..]) {
            Ok(0) => return Ok(false),
            Ok(count) => filled += count,
            Err(error) if is_retry(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}
// ANCHOR_END: receive
