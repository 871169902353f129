//! An echo server of TCP past the kernel, or by it where that cannot be had; it says which, and why.
//!
//! ```text
//! sidestep control &                                   (as root, once)
//! cargo run --release --example tcp_echo -- eth1 0.0.0.0:7000
//! ```

use sidestep::engine::{Engine, EngineOptions, Path, Queues, Reason};
use sidestep::tcp::{TcpError, TcpListener, TcpStream};
use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;

/// The most that is read from one stream before the others have their turn.
const TURN_BYTES: usize = 64 << 10;

/// A stream, and what was read from it and has not been sent back yet.
struct Connection {
    stream: TcpStream,
    unsent: Vec<u8>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().collect();
    let [_, interface, address] = &words[..] else {
        return Err("usage: tcp_echo INTERFACE ADDRESS:PORT".into());
    };
    let address: SocketAddr = address.parse()?;

    // ANCHOR: open
    let mut engine = Engine::open(&EngineOptions { queues: Queues::Every, ..EngineOptions::on(interface) })?;
    if let Some((_, why)) = engine.refusal() {
        eprintln!("not past the kernel: {why}");
    }
    let options = engine.tcp().defaults();
    let listener = engine.tcp().listen(address, 128, options)?;
    // Control is asked, and has usually answered by now.
    while engine.tcp().listener_path(listener)? == Path::Kernel(Reason::Opening) {
        engine.poll()?;
    }
    eprintln!("{} is {}", engine.tcp().local(listener)?, engine.tcp().listener_path(listener)?);
    // ANCHOR_END: open
    serve(&mut engine, listener)
}

// ANCHOR: serve
fn serve(engine: &mut Engine, listener: TcpListener) -> Result<(), Box<dyn Error>> {
    let mut connections: Vec<Connection> = Vec::new();
    loop {
        engine.poll()?;
        while let Some(stream) = engine.tcp().accept(listener)? {
            eprintln!("accepted: {}", engine.tcp().path(stream)?);
            connections.push(Connection { stream, unsent: Vec::new() });
        }
        connections.retain_mut(|connection| match echo(engine, connection) {
            Ok(is_open) => is_open,
            Err(error) => {
                eprintln!("a connection has ended: {error}");
                let _ = engine.tcp().abort(connection.stream);
                false
            }
        });
        if connections.is_empty() {
            // Nothing to spin for. A packet ends the sleep.
            engine.sleep(Duration::from_millis(100))?;
        }
    }
}

/// Reads what has come and sends it back. Returns whether the connection is open.
fn echo(engine: &mut Engine, connection: &mut Connection) -> Result<bool, TcpError> {
    let Connection { stream, unsent } = connection;
    if unsent.is_empty() {
        // The bytes are shown where they stand: in the stream's buffer, or in the kernel's copy.
        let take = |bytes: &[u8]| {
            let taken = &bytes[..bytes.len().min(TURN_BYTES - unsent.len())];
            unsent.extend_from_slice(taken);
            taken.len()
        };
        match engine.tcp().read_with(*stream, take) {
            Ok((_, true)) => {
                engine.tcp().close(*stream)?; // A FIN leaves after all that was sent.
                return Ok(false);
            }
            Err(error) if !error.is_would_block() => return Err(error),
            _ => {}
        }
    }
    if !unsent.is_empty() {
        match engine.tcp().send(*stream, unsent) {
            Ok(sent) => _ = unsent.drain(..sent),
            Err(error) if error.is_would_block() => {} // The peer does not read: neither do we.
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}
// ANCHOR_END: serve
