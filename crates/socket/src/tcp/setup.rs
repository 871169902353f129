//! TCP of a new stack: the packets that frames can hold, its random numbers, its clock.

use rustix::net::{AddressFamily, SocketType, sockopt};
use sidestep_control_api::heartbeat::monotonic_ns;
use sidestep_stack::tcp::{Config, Congestion, Instant, Secret, Tcp};
use sidestep_sys::Problem;

/// Bytes of Ethernet with two tags: what a frame holds beside the IP packet.
const ETHERNET_BYTES_MAX: u32 = 22;

/// The least MTU that TCP is told of ([`Config::mtu_bytes`]).
const MTU_LEAST: u32 = 576;

/// The congestion control that the kernel gives new sockets of this network namespace, `net.ipv4.tcp_congestion_control`; the name
/// alone if it is one that the stack does not have.
pub fn hosts_congestion() -> Result<Congestion, String> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None);
    let name = socket.and_then(sockopt::tcp_congestion).unwrap_or_default();
    Congestion::named(&name).ok_or(name)
}

/// TCP without connections; `mtu` is the interface's. The settings' is used if that is not known.
pub(crate) fn open(config: &Config, mtu: Option<u32>, packet_bytes_max: u16) -> Result<Tcp, Problem> {
    let mtu_bytes = u32::from(usable_mtu(mtu.unwrap_or(config.mtu_bytes), packet_bytes_max));
    let secret = secret().map_err(|error| Problem::failed("cannot begin TCP without random numbers", error))?;
    let mut config = Config { mtu_bytes, ..config.clone() };
    if config.congestion == Congestion::Host {
        // Without one of ours it is left to the stack.
        config.congestion = hosts_congestion().unwrap_or(Congestion::Host);
    }
    Ok(Tcp::new(config, secret, now()))
}

/// The longest IP packet in a frame of so many bytes.
pub(crate) fn packet_bytes_max(frame_bytes: u32) -> u16 {
    u16::try_from(frame_bytes.saturating_sub(ETHERNET_BYTES_MAX)).unwrap_or(u16::MAX)
}

/// The MTU of an interface as far as frames hold its packets.
pub(crate) fn usable_mtu(mtu: u32, packet_bytes_max: u16) -> u16 {
    mtu.min(packet_bytes_max.into()).max(MTU_LEAST) as u16
}

/// The stack's time: CLOCK_MONOTONIC.
#[inline]
pub(crate) fn now() -> Instant {
    Instant::from_nanos(monotonic_ns())
}

fn secret() -> std::io::Result<Secret> {
    let mut numbers = [0; 4];
    for number in &mut numbers {
        let mut bytes = [0; 8];
        // Eight bytes come whole (getrandom(2): up to 256 do).
        rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
        *number = u64::from_ne_bytes(bytes);
    }
    Ok(Secret(numbers))
}
