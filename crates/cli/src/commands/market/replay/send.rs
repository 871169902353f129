//! Recorded datagrams, sent again onto an interface.

use sidestep_feed_handler::Line;
use sidestep_socket::{Engine, EngineOptions, Handle, SendError, UdpOptions};
use sidestep_sys::socket::bind_to_interface;
use sidestep_sys::{Problem, interface};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

/// The longest wait for room in a socket's buffer.
const ROOM_MAX: Duration = Duration::from_secs(1);

/// A socket for each line.
pub(super) struct Senders {
    sockets: Vec<(Engine, Handle, SocketAddr)>,
}

impl Senders {
    pub(super) fn open(lines: &[Line]) -> Result<Self, Problem> {
        let open = |line: &Line| -> Result<_, Problem> {
            interface::check(&line.interface)?;
            let mut engine = Engine::open(&EngineOptions { accelerate: false, ..EngineOptions::on(&line.interface) })?;
            let any: IpAddr =
                if line.group.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
            // Receivers on this host are to get it, too.
            let options = UdpOptions { multicast_loop: true, ..UdpOptions::default() };
            let socket = engine.bind(SocketAddr::new(any, 0), &options)?;
            let failed = |error: &dyn std::fmt::Display| {
                Problem::failed(format!("cannot send by {}", line.interface), error)
                    .next("name an interface that is up")
            };
            // Groups need no route then.
            let twin = engine.twin(socket).map_err(|error| failed(&error))?;
            bind_to_interface(twin, interface::index(&line.interface)?).map_err(|error| failed(&error))?;
            Ok((engine, socket, line.group))
        };
        Ok(Self { sockets: lines.iter().map(open).collect::<Result<_, _>>()? })
    }

    /// Sends a datagram of a line; those of lines without a group are left out. Returns whether it was sent.
    pub(super) fn send(&mut self, line: usize, payload: &[u8]) -> Result<bool, Problem> {
        let Some((engine, socket, group)) = self.sockets.get_mut(line) else { return Ok(false) };
        let until = Instant::now() + ROOM_MAX;
        loop {
            match engine.send_to(*socket, payload, *group) {
                Ok(()) => return Ok(true),
                Err(SendError::Full) if Instant::now() < until => std::thread::yield_now(),
                Err(error) => {
                    let next = format!("see the route: ip route get {}", group.ip());
                    return Err(Problem::failed(format!("cannot send to {group}"), error).next(next));
                }
            }
        }
    }
}
