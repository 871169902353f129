//! An echo server and its client over any transport and any way to wait.
//!
//! ```text
//! cargo run --release --example echo -- tcp spin
//! cargo run --release --example echo -- unix block
//! ```

use sidestep::stream::blocking::Listener;
use sidestep::stream::{Address, Backend, Link, Options, Waiting, connect, is_retry, send_all};
use std::error::Error;
use std::io;
use std::time::{Duration, Instant};

const MESSAGES: u32 = 10_000;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let address = match words.first().map(String::as_str) {
        Some("unix") => Address::Unix(std::env::temp_dir().join(format!("echo-{}", std::process::id()))),
        _ => Address::Tcp("127.0.0.1:0".parse()?),
    };
    let (waiting, backend) = match words.get(1).map(String::as_str) {
        Some("spin") => (Waiting::Spin, Backend::Kernel),
        Some("uring") => (Waiting::Block, Backend::Uring),
        _ => (Waiting::Block, Backend::Kernel),
    };
    let options = Options { waiting, backend, ..Options::default() };

    let listener = Listener::bind(&address, &options)?;
    let at = listener.address()?;
    let server = std::thread::spawn(move || -> io::Result<()> {
        let mut link = listener.accept(Duration::from_secs(5))?.link;
        let mut message = [0; 64];
        while receive(link.as_mut(), &mut message)? {
            send_all(link.as_mut(), &message)?;
        }
        Ok(())
    });

    let mut link = connect(&at, &options)?;
    let (message, mut answer) = ([7; 64], [0; 64]);
    let begin = Instant::now();
    for _ in 0..MESSAGES {
        send_all(link.as_mut(), &message)?;
        receive(link.as_mut(), &mut answer)?;
    }
    println!("{:?} for each of {MESSAGES} round trips", begin.elapsed() / MESSAGES);
    link.shutdown()?;
    server.join().expect("the server does not panic")?;
    Ok(())
}

/// Fills `message`; false at the end of the stream.
fn receive(link: &mut dyn Link, message: &mut [u8]) -> io::Result<bool> {
    let mut filled = 0;
    while filled < message.len() {
        match link.recv(&mut message[filled..]) {
            Ok(0) => return Ok(false),
            Ok(count) => filled += count,
            Err(error) if is_retry(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}
