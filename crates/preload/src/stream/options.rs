//! Options of a connection: the program sets them on the twin, which checks them and answers for them; ours are read from it.

use super::congestion;
use libc::c_int;
use rustix::net::sockopt;
use sidestep_socket::tcp::Options;
use sidestep_stack::Service;
use sidestep_stack::tcp::KeepAlive;
use sidestep_sys::stream_options::{self, SetBuffers};
use std::os::fd::BorrowedFd;

/// The value that TCP_MAXSEG has where the program has set none (TCP_MSS_DEFAULT, linux/tcp.h).
const SEGMENT_BYTES_DEFAULT: u32 = 536;

/// Options that are read from the twin together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    NoDelay,
    Cork,
    /// It has no effect on a connection that begins.
    QuickAck,
    Linger,
    UserTimeout,
    KeepAlive,
    Congestion,
    Service,
    Sizes,
}

impl Group {
    /// Those of a connection that begins.
    const FIRST: [Self; 8] = [
        Self::NoDelay,
        Self::Cork,
        Self::Linger,
        Self::UserTimeout,
        Self::KeepAlive,
        Self::Congestion,
        Self::Service,
        Self::Sizes,
    ];

    /// The group of an option; `None` for one that has no effect here.
    pub(super) fn of(option: (c_int, c_int)) -> Option<Self> {
        Some(match option {
            (libc::IPPROTO_TCP, libc::TCP_NODELAY) => Self::NoDelay,
            (libc::IPPROTO_TCP, libc::TCP_CORK) => Self::Cork,
            (libc::IPPROTO_TCP, libc::TCP_QUICKACK) => Self::QuickAck,
            (libc::SOL_SOCKET, libc::SO_LINGER) => Self::Linger,
            (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT) => Self::UserTimeout,
            (libc::SOL_SOCKET, libc::SO_KEEPALIVE)
            | (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE | libc::TCP_KEEPINTVL | libc::TCP_KEEPCNT) => Self::KeepAlive,
            (libc::IPPROTO_TCP, libc::TCP_CONGESTION) => Self::Congestion,
            (libc::IPPROTO_IP, libc::IP_TTL | libc::IP_TOS)
            | (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS | libc::IPV6_TCLASS) => Self::Service,
            (libc::SOL_SOCKET, libc::SO_SNDBUF | libc::SO_RCVBUF | libc::SO_SNDBUFFORCE | libc::SO_RCVBUFFORCE)
            | (libc::IPPROTO_TCP, libc::TCP_MAXSEG) => Self::Sizes,
            _ => return None,
        })
    }

    /// Reads it, upon what the profile has; `is_ipv6`: the connection is. What cannot be read stays as the profile has it.
    pub(super) fn read(self, twin: BorrowedFd<'_>, is_ipv6: bool, options: &mut Options) {
        match self {
            // The profile may be without Nagle's algorithm where the program has not asked for it.
            Self::NoDelay => options.nodelay |= sockopt::tcp_nodelay(twin).unwrap_or(false),
            Self::Cork => options.cork = sockopt::tcp_cork(twin).unwrap_or(false),
            Self::QuickAck => options.quickack |= sockopt::tcp_quickack(twin).unwrap_or(false),
            Self::Linger => {
                let linger = sockopt::socket_linger(twin).ok().flatten();
                options.abort_on_close = linger.is_some_and(|linger| linger.is_zero());
            }
            Self::UserTimeout => {
                if let Ok(timeout_ms @ 1..) = sockopt::tcp_user_timeout(twin) {
                    options.user_timeout_ns = u64::from(timeout_ms) * 1_000_000;
                }
            }
            Self::KeepAlive => options.keepalive = keepalive(twin).or(options.keepalive),
            Self::Congestion => options.congestion = congestion::of(twin).unwrap_or(options.congestion),
            Self::Service => options.service = service(twin, is_ipv6, options.service),
            Self::Sizes => follow_sizes(twin, options),
        }
    }

    /// Takes it over from options that were read.
    pub(super) fn copy(self, from: &Options, to: &mut Options) {
        match self {
            Self::NoDelay => to.nodelay = from.nodelay,
            Self::Cork => to.cork = from.cork,
            Self::QuickAck => to.quickack = from.quickack,
            Self::Linger => to.abort_on_close = from.abort_on_close,
            Self::UserTimeout => to.user_timeout_ns = from.user_timeout_ns,
            Self::KeepAlive => to.keepalive = from.keepalive,
            Self::Congestion => to.congestion = from.congestion,
            Self::Service => to.service = from.service,
            Self::Sizes => {
                to.send_buffer_bytes = from.send_buffer_bytes;
                to.send_buffer_initial_bytes = from.send_buffer_initial_bytes;
                to.receive_buffer_bytes = from.receive_buffer_bytes;
                to.segment_bytes_max = from.segment_bytes_max;
            }
        }
    }
}

/// The options that the program has given a socket, upon those of the profile; `is_ipv6`: the connection is.
pub(crate) fn of_twin(twin: BorrowedFd<'_>, is_ipv6: bool, profile: Options) -> Options {
    let mut options = profile;
    Group::FIRST.iter().for_each(|group| group.read(twin, is_ipv6, &mut options));
    options.urgent_held = true;
    options
}

/// SO_SNDBUF, SO_RCVBUF and TCP_MAXSEG, where the program has set them.
fn follow_sizes(twin: BorrowedFd<'_>, options: &mut Options) {
    // The kernel doubles what is set, for its own needs (socket(7)).
    let set = |size: rustix::io::Result<usize>| size.ok().and_then(|size| u32::try_from(size / 2).ok());
    let SetBuffers { send, receive } = stream_options::set_buffers(twin).unwrap_or_default();
    if let (true, Some(bytes @ 1..)) = (send, set(sockopt::socket_send_buffer_size(twin))) {
        // As in the kernel a buffer whose size was set does not grow by itself (SOCK_SNDBUF_LOCK).
        (options.send_buffer_bytes, options.send_buffer_initial_bytes) = (bytes, bytes);
    }
    if let (true, Some(bytes @ 1..)) = (receive, set(sockopt::socket_recv_buffer_size(twin))) {
        options.receive_buffer_bytes = bytes;
    }
    let segment_bytes = stream_options::segment_bytes_max(twin).ok().filter(|bytes| *bytes != SEGMENT_BYTES_DEFAULT);
    if let Some(bytes) = segment_bytes.and_then(|bytes| u16::try_from(bytes).ok()) {
        options.segment_bytes_max = bytes;
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketType};
    use std::os::fd::AsFd;
    use std::time::Duration;

    #[test]
    fn an_option_is_taken_over_and_no_other() {
        let twin = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        sockopt::set_tcp_nodelay(&twin, true).unwrap();
        sockopt::set_tcp_quickack(&twin, true).unwrap();
        sockopt::set_tcp_user_timeout(&twin, 1500).unwrap();
        sockopt::set_socket_linger(&twin, Some(Duration::ZERO)).unwrap();
        sockopt::set_ip_ttl(&twin, 9).unwrap();
        let profile = sidestep_socket::tcp::profile("default").unwrap().options();
        let taken = |option| {
            let (mut read, mut options) = (profile, profile);
            if let Some(group) = Group::of(option) {
                group.read(twin.as_fd(), false, &mut read);
                group.copy(&read, &mut options);
            }
            options
        };
        let service = Service { hop_limit: 9, ..profile.service };
        let expected = [
            ((libc::IPPROTO_TCP, libc::TCP_NODELAY), Options { nodelay: true, ..profile }),
            ((libc::IPPROTO_TCP, libc::TCP_QUICKACK), Options { quickack: true, ..profile }),
            ((libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT), Options { user_timeout_ns: 1_500_000_000, ..profile }),
            ((libc::SOL_SOCKET, libc::SO_LINGER), Options { abort_on_close: true, ..profile }),
            ((libc::IPPROTO_IP, libc::IP_TTL), Options { service, ..profile }),
            ((libc::SOL_SOCKET, libc::SO_PRIORITY), profile),
        ];
        for (option, expected) in expected {
            assert_eq!(taken(option), expected, "{option:?}");
        }
        let all = of_twin(twin.as_fd(), false, profile);
        let quickack = profile.quickack;
        assert!(all.nodelay && all.abort_on_close && all.service == service && all.quickack == quickack);
    }
}
