//! Several readers of one multicast feed, each on a thread of its own: the kernel copies each packet into a ring once, and every
//! reader polls that ring. None holds up another, and each knows exactly what it lost.
//!
//! ```text
//! sidestep control &                                   (as root, once)
//! cargo run --release --example ring_flow -- eth1 239.1.1.1:5000 2 [MESSAGES]
//! ```

use sidestep::idle::IdleStrategy;
use sidestep::ring::flow::{Flow, FlowOptions, Verdict};
use std::error::Error;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// The readers of this name, of one user, share their rings.
const FEED: &str = "example";

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (interface, group, readers, messages) = match &words[..] {
        [interface, group, readers] => (interface, group, readers, u64::MAX),
        [interface, group, readers, messages] => (interface, group, readers, messages.parse()?),
        _ => return Err("usage: ring_flow INTERFACE GROUP:PORT READERS [MESSAGES]".into()),
    };
    let (group, readers): (SocketAddr, u32) = (group.parse()?, readers.parse()?);
    std::thread::scope(|scope| {
        let read = |reader| move || read(reader, interface, group, messages);
        let threads: Vec<_> = (0..readers).map(|reader| scope.spawn(read(reader))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("a reader does not panic"))
    })?;
    Ok(())
}

// ANCHOR: read
fn read(reader: u32, interface: &str, group: SocketAddr, messages: u64) -> Result<(), sidestep::error::Problem> {
    let mut flow = Flow::open(&FlowOptions::on(interface).feed(FEED))?;
    // Nobody else on this host needs the group: the kernel is spared the packets. If somebody does, the path says so.
    let entry = flow.join(group, None, Verdict::Drop)?;
    eprintln!("reader {reader}: {group} on {interface}: {}", flow.path(entry));
    let (mut bytes, mut told) = (0, Instant::now());
    while flow.statistics().packets() + flow.statistics().lost() < messages {
        // A reader with a CPU of its own uses IdleStrategy::SPIN.
        let soon = Instant::now() + Duration::from_secs(1);
        if flow.wait(IdleStrategy::SPIN_THEN_YIELD, Some(soon)).is_ok()
            && let Some(packet) = flow.receive()
        {
            bytes += packet.payload().len();
        }
        if told.elapsed() > Duration::from_secs(1) {
            println!("reader {reader}: {} packets, {bytes} bytes", flow.statistics().packets());
            told = Instant::now();
        }
    }
    let statistics = flow.statistics();
    println!("reader {reader}: {} packets, {} lost, {bytes} bytes", statistics.packets(), statistics.lost());
    Ok(())
}
// ANCHOR_END: read
