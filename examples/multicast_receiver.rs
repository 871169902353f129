//! Receives a multicast group past the kernel and counts what comes; the kernel speaks IGMP or MLD for it.
//!
//! ```text
//! sidestep control &                                   (as root, once)
//! cargo run --release --example multicast_receiver -- eth1 239.1.1.1:7000 [SOURCE]
//! ```

use sidestep::engine::{Engine, EngineOptions, Path, Queues, Reason};
use sidestep::udp::UdpOptions;
use std::error::Error;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().collect();
    let (interface, group, source) = match &words[..] {
        [_, interface, group] => (interface, group, None),
        [_, interface, group, source] => (interface, group, Some(source.parse::<IpAddr>()?)),
        _ => return Err("usage: multicast_receiver INTERFACE GROUP:PORT [SOURCE]".into()),
    };
    let group: SocketAddr = group.parse()?;
    let any: IpAddr = if group.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };

    // ANCHOR: join
    // With every queue of the interface: packets to a group may come by any.
    let mut engine = Engine::open(&EngineOptions { queues: Queues::Every, ..EngineOptions::on(interface) })?;
    if let Some((_, why)) = engine.refusal() {
        eprintln!("not past the kernel: {why}");
    }
    // Several programs may receive a group's port; past the kernel only one does.
    let options = UdpOptions { reuse_address: true, receive_buffer: 8 << 20, ..UdpOptions::default() };
    let socket = engine.bind(SocketAddr::new(any, group.port()), &options)?;
    let index = std::fs::read_to_string(format!("/sys/class/net/{interface}/ifindex"))?.trim().parse()?;
    let mut path = engine.join(socket, group.ip(), index, source)?;
    // Control is asked, and has usually answered by now.
    while path == Path::Kernel(Reason::Opening) {
        engine.poll()?;
        path = engine.path(socket)?;
    }
    eprintln!("{group} on {interface}: {path}");
    // ANCHOR_END: join

    let (mut messages, mut bytes, mut told) = (0_u64, 0, Instant::now());
    loop {
        if let Some(datagram) = engine.receive(socket)? {
            (messages, bytes) = (messages + 1, bytes + engine.payload(&datagram).len());
            engine.release(datagram);
        } else if told.elapsed() > Duration::from_secs(1) {
            println!("{messages} messages, {bytes} bytes");
            (messages, bytes, told) = (0, 0, Instant::now());
        }
    }
}
