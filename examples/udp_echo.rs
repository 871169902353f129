//! An echo server past the kernel, or by it where that cannot be had; it says which, and why.
//!
//! ```text
//! sidestep control &                                   (as root, once)
//! cargo run --release --example udp_echo -- eth1 0.0.0.0:7000
//! ```

use sidestep::engine::{Engine, EngineOptions, Path, Queues, Reason};
use sidestep::udp::{Handle, UdpOptions};
use std::error::Error;
use std::net::SocketAddr;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().collect();
    let [_, interface, address] = &words[..] else {
        return Err("usage: udp_echo INTERFACE ADDRESS:PORT".into());
    };
    let address: SocketAddr = address.parse()?;

    // ANCHOR: open
    // An engine with every queue of the interface, as packets to a port may come by any; in the hands of this thread.
    let mut engine = Engine::open(&EngineOptions { queues: Queues::Every, ..EngineOptions::on(interface) })?;
    if let Some((_, why)) = engine.refusal() {
        eprintln!("not past the kernel: {why}");
    }
    let socket = engine.bind(address, &UdpOptions::default())?;
    // Control is asked, and has usually answered by now.
    while engine.path(socket)? == Path::Kernel(Reason::Opening) {
        engine.poll()?;
    }
    eprintln!("{} is {}", engine.local(socket)?, engine.path(socket)?);
    // ANCHOR_END: open
    serve(&mut engine, socket)
}

// ANCHOR: serve
fn serve(engine: &mut Engine, socket: Handle) -> Result<(), Box<dyn Error>> {
    loop {
        // Spins: a datagram past the kernel is found without a system call, and answered in the memory it came in.
        let Some(datagram) = engine.receive(socket)? else { continue };
        let (source, by_kernel) = (datagram.source(), datagram.by_kernel());
        if let Err(error) = engine.reply(socket, datagram) {
            eprintln!("cannot answer {source}: {error}");
        }
        if by_kernel {
            eprintln!("{source} came by the kernel");
        }
    }
}
// ANCHOR_END: serve
