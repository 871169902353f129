//! Segments that are not plain on the wire: with IP options, and in fragments. The kernel beside us knows nothing of the
//! connection and would reset it, so it must not have them.

use crate::peer::{ask, join, receive, serving};
use crate::support::{is_root_or_say, wait};
use sidestep_lab::Side;
use sidestep_lab::{Host, Lab, Options};
use sidestep_sys::packet::{FrameBuffer, PacketSocket};
use sidestep_wire::checksum::Sum;
use std::net::SocketAddr;

const ETHERNET: usize = 14;
const IP: usize = 20;
const TCP: usize = 20;
const MORE_FRAGMENTS: u16 = 0x2000;

/// How far the clock of a forged segment is ahead of the peer's that was echoed last. The peer acknowledged the echo with its
/// clock of then: on a busy machine that is later, and what is older than that is an old duplicate (PAWS, RFC 7323 section 5).
const AHEAD_MS: u32 = 600_000;

/// What the next segment of the peer would have in its header.
#[derive(Clone, Copy, Debug)]
struct Next {
    from: SocketAddr,
    to: SocketAddr,
    sequence: u32,
    acknowledgment: u32,
    /// Timestamps (RFC 7323): a segment without would be ignored.
    value: u32,
    echo: u32,
}

/// What was said from a port.
#[derive(Clone, Copy, Debug)]
struct Said {
    port: u16,
    sequence: u32,
    acknowledgment: u32,
    flags: u8,
    payload: u32,
    value: u32,
    echo: u32,
}

const RESET: u8 = 4;

/// A segment of the peer's with this payload, header included.
fn segment(next: Next, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(next.from.port().to_be_bytes());
    bytes.extend(next.to.port().to_be_bytes());
    bytes.extend(next.sequence.to_be_bytes());
    bytes.extend(next.acknowledgment.to_be_bytes());
    bytes.extend([0x80, 0x18, 0x10, 0, 0, 0, 0, 0]);
    bytes.extend([1, 1, 8, 10]);
    bytes.extend(next.value.to_be_bytes());
    bytes.extend(next.echo.to_be_bytes());
    bytes.extend(payload);
    let mut pseudo = [octets(next.from), octets(next.to)].concat();
    pseudo.extend([0, 6]);
    pseudo.extend((bytes.len() as u16).to_be_bytes());
    let checksum = Sum::ZERO.with(&pseudo).with(&bytes).checksum();
    bytes[16..18].copy_from_slice(&checksum.to_be_bytes());
    bytes
}

fn octets(at: SocketAddr) -> [u8; 4] {
    let SocketAddr::V4(at) = at else { panic!("{at}") };
    at.ip().octets()
}

/// A frame from one host to the other: with options, at a place of a larger packet (eights of bytes, and whether more comes).
fn frame(hosts: (&Host, &Host), next: Next, options: &[u8], place: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = [hosts.1.mac, hosts.0.mac].concat();
    frame.extend([8, 0]);
    let total = (IP + options.len() + payload.len()) as u16;
    frame.push(0x45 + options.len() as u8 / 4);
    frame.push(0);
    frame.extend(total.to_be_bytes());
    frame.extend([0x12, 0x34]);
    frame.extend(place.to_be_bytes());
    frame.extend([64, 6, 0, 0]);
    frame.extend(octets(next.from));
    frame.extend(octets(next.to));
    frame.extend(options);
    let checksum = Sum::ZERO.with(&frame[ETHERNET..]).checksum();
    frame[ETHERNET + 10..ETHERNET + 12].copy_from_slice(&checksum.to_be_bytes());
    frame.extend(payload);
    frame
}

/// Sees what comes to a host's end of the wire, and puts frames on it.
struct Wire {
    socket: PacketSocket,
    buffer: FrameBuffer,
}

impl Wire {
    fn open(host: &Host) -> Self {
        let socket = host.within(|| PacketSocket::open(&host.interface)).expect("root can");
        Self { socket, buffer: FrameBuffer::new() }
    }

    /// The next segment that has come.
    fn segment(&mut self) -> Option<Said> {
        while let Some(frame) = self.socket.receive(&mut self.buffer).expect("the wire is up") {
            let is_tcp = frame[12..14] == [8, 0] && frame[14] == 0x45 && frame[23] == 6;
            if is_tcp && frame.len() >= ETHERNET + IP + TCP {
                let (ip, tcp) = (&frame[ETHERNET..], &frame[ETHERNET + IP..]);
                let word =
                    |at: usize| tcp.get(at..at + 4).map_or(0, |word| u32::from_be_bytes(word.try_into().unwrap()));
                let total = u32::from(u16::from_be_bytes([ip[2], ip[3]]));
                return Some(Said {
                    port: u16::from_be_bytes([tcp[0], tcp[1]]),
                    sequence: word(4),
                    acknowledgment: word(8),
                    flags: tcp[13],
                    payload: total - IP as u32 - u32::from(tcp[12] >> 4) * 4,
                    value: word(24),
                    echo: word(28),
                });
            }
        }
        None
    }

    /// What the peer would send next, by what came last from the port.
    fn next(&mut self, from: SocketAddr, to: SocketAddr) -> Next {
        let mut next = None;
        while let Some(said) = self.segment() {
            if said.port == to.port() {
                let (sequence, acknowledgment) = (said.acknowledgment, said.sequence.wrapping_add(said.payload));
                let value = said.echo.wrapping_add(AHEAD_MS);
                next = Some(Next { from, to, sequence, acknowledgment, value, echo: said.value });
            }
        }
        next.expect("something was said")
    }
}

fn lab() -> Option<Lab> {
    is_root_or_say().then(|| Lab::up(&Options::default()).expect("root can make a lab"))
}

#[test]
fn a_segment_with_ip_options_is_the_streams() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let mut wire = Wire::open(a);
    let (_control, mut engine, at, listener) = serving(b);
    let (stream, mut peer) = join(a, &mut engine, listener, at);
    ask(&mut engine, stream, &mut peer, b"plain");
    let mut next = wire.next(peer.local_addr().unwrap(), at);
    let send = |next: Next, options: &[u8], text: &[u8]| {
        wire.socket.send(&frame((a, b), next, options, 0, &segment(next, text))).unwrap();
    };
    // A source route is not followed: what claims to have come by one is nobody's. Its text would be the first to come.
    send(next, &[137, 7, 4, 198, 18, 0, 9, 0], b"by a route");
    for (options, text) in [([1, 1, 1, 0], "with options"), ([148, 4, 0, 0], "to every router")] {
        send(next, &options, text.as_bytes());
        let mut buffer = [0; 64];
        let count = receive(&mut engine, stream, &mut buffer);
        assert_eq!(std::str::from_utf8(&buffer[..count]), Ok(text));
        next.sequence = next.sequence.wrapping_add(text.len() as u32);
    }
    let mut seen = Vec::new();
    wait("an acknowledgment", || {
        engine.poll().unwrap();
        seen.extend(std::iter::from_fn(|| wire.segment()).filter(|said| said.port == at.port()));
        seen.iter().any(|said| said.acknowledgment == next.sequence).then_some(())
    });
    assert!(seen.iter().all(|said| said.flags & RESET == 0), "reset: {seen:?}");
}

#[test]
fn a_segment_in_fragments_does_not_end_its_connection() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let mut wire = Wire::open(a);
    let (_control, mut engine, at, listener) = serving(b);
    let (stream, mut peer) = join(a, &mut engine, listener, at);
    ask(&mut engine, stream, &mut peer, b"whole");
    let next = wire.next(peer.local_addr().unwrap(), at);
    // To a port that is nobody's the kernel answers what it has put together: it does put together, and its answer is seen.
    let nobodys = Next { to: SocketAddr::new(at.ip(), at.port() + 1), ..next };
    for next in [next, nobodys] {
        let whole = segment(next, &[b'f'; 16]);
        wire.socket.send(&frame((a, b), next, &[], MORE_FRAGMENTS, &whole[..24])).unwrap();
        wire.socket.send(&frame((a, b), next, &[], 3, &whole[24..])).unwrap();
    }
    let mut resets = Vec::new();
    wait("a reset by the kernel", || {
        engine.poll().unwrap();
        resets.extend(std::iter::from_fn(|| wire.segment()).filter(|said| said.flags & RESET != 0));
        resets.iter().any(|said| said.port == nobodys.to.port()).then_some(())
    });
    assert!(resets.iter().all(|said| said.port == nobodys.to.port()), "the stream was reset: {resets:?}");
    ask(&mut engine, stream, &mut peer, b"it goes on");
}
