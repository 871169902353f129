//! Options of a connection: the program sets them on the twin, which checks them and answers for them; ours are read from it.

use rustix::net::sockopt;
use sidestep_socket::tcp::Options;
use sidestep_stack::Service;
use sidestep_stack::tcp::{Congestion, KeepAlive};
use sidestep_sys::stream_options::{self, SetBuffers};
use std::os::fd::BorrowedFd;

/// The value that TCP_MAXSEG has where the program has set none (TCP_MSS_DEFAULT, linux/tcp.h).
const SEGMENT_BYTES_DEFAULT: u32 = 536;

/// The options that the program has given a socket, upon those of the profile; `is_ipv6`: the connection is. What cannot be read stays as the
/// profile has it.
pub(crate) fn of_twin(twin: BorrowedFd<'_>, is_ipv6: bool, profile: Options) -> Options {
    let mut options = profile;
    // The profile may be without Nagle's algorithm where the program has not asked for it.
    options.nodelay |= sockopt::tcp_nodelay(twin).unwrap_or(false);
    options.cork = sockopt::tcp_cork(twin).unwrap_or(false);
    options.abort_on_close = sockopt::socket_linger(twin).ok().flatten().is_some_and(|linger| linger.is_zero());
    if let Ok(timeout_ms) = sockopt::tcp_user_timeout(twin)
        && timeout_ms != 0
    {
        options.user_timeout_ns = u64::from(timeout_ms) * 1_000_000;
    }
    options.keepalive = keepalive(twin).or(profile.keepalive);
    options.congestion = congestion(twin).unwrap_or(profile.congestion);
    options.urgent_held = true;
    options.service = service(twin, is_ipv6, profile.service);
    follow_sizes(twin, &mut options);
    options
}

/// SO_SNDBUF, SO_RCVBUF and TCP_MAXSEG, where the program has set them.
fn follow_sizes(twin: BorrowedFd<'_>, options: &mut Options) {
    // The kernel doubles what is set, for its own needs (socket(7)).
    let set = |size: rustix::io::Result<usize>| size.ok().and_then(|size| u32::try_from(size / 2).ok());
    let SetBuffers { send, receive } = stream_options::set_buffers(twin).unwrap_or_default();
    if let (true, Some(bytes @ 1..)) = (send, set(sockopt::socket_send_buffer_size(twin))) {
        options.send_buffer_bytes = bytes;
    }
    if let (true, Some(bytes @ 1..)) = (receive, set(sockopt::socket_recv_buffer_size(twin))) {
        options.receive_buffer_bytes = bytes;
    }
    let segment_bytes = stream_options::segment_bytes_max(twin).ok().filter(|bytes| *bytes != SEGMENT_BYTES_DEFAULT);
    if let Some(bytes) = segment_bytes.and_then(|bytes| u16::try_from(bytes).ok()) {
        options.segment_bytes_max = bytes;
    }
}

/// The congestion control that the program has chosen: another than that of every new socket, which the profile replaces. One that our
/// stack does not have is replaced, too.
fn congestion(twin: BorrowedFd<'_>) -> Option<Congestion> {
    let chosen = sockopt::tcp_congestion(twin).ok()?;
    let family = sockopt::socket_domain(twin).ok()?;
    let new = rustix::net::socket(family, rustix::net::SocketType::STREAM, None).ok()?;
    let is_default = sockopt::tcp_congestion(&new).is_ok_and(|default| default == chosen);
    if is_default { None } else { Congestion::named(&chosen) }
}

/// IP_TTL and IP_TOS, or IPV6_UNICAST_HOPS and IPV6_TCLASS; a socket of IPv6 that is connected over IPv4 has the former.
fn service(twin: BorrowedFd<'_>, is_ipv6: bool, profile: Service) -> Service {
    let (hops, class) = if is_ipv6 {
        (sockopt::ipv6_unicast_hops(twin), sockopt::ipv6_tclass(twin).map(|class| class as u8))
    } else {
        (sockopt::ip_ttl(twin).map(|hops| hops as u8), sockopt::ip_tos(twin))
    };
    Service { hop_limit: hops.unwrap_or(profile.hop_limit), type_of_service: class.unwrap_or(profile.type_of_service) }
}

/// SO_RCVLOWAT
pub(crate) fn low_water(twin: BorrowedFd<'_>) -> usize {
    stream_options::receive_low_water(twin).unwrap_or(1)
}

fn keepalive(twin: BorrowedFd<'_>) -> Option<KeepAlive> {
    if !sockopt::socket_keepalive(twin).ok()? {
        return None;
    }
    Some(KeepAlive {
        idle_ns: u64::try_from(sockopt::tcp_keepidle(twin).ok()?.as_nanos()).ok()?,
        interval_ns: u64::try_from(sockopt::tcp_keepintvl(twin).ok()?.as_nanos()).ok()?,
        probes_max: sockopt::tcp_keepcnt(twin).ok()?,
    })
}
