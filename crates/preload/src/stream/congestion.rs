//! The congestion control of a stream: TCP_CONGESTION of the twin, which has the host's if the program has chosen none.
//!
//! A profile that names one comes before the host's, and the program's choice before both. A socket for which the program has chosen
//! one that our stack does not have is the kernel's; where the host's is such, the stack takes CUBIC.

use rustix::net::{SocketType, sockopt};
use sidestep_stack::tcp::Congestion;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};

/// A socket of this process may have another congestion control than the default.
static IS_CHOSEN: AtomicBool = AtomicBool::new(false);
/// The profile names none, but the host's.
static IS_HOSTS: AtomicBool = AtomicBool::new(false);

/// What a name means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    /// That of the profile.
    Profiles,
    Ours(Congestion),
    /// The stack does not have it.
    Kernels,
}

impl Meaning {
    /// Of the name that a socket has.
    fn of(name: &str, is_hosts: bool, is_default: impl FnOnce() -> bool) -> Self {
        match Congestion::named(name) {
            Some(ours) if is_hosts => Self::Ours(ours),
            _ if is_default() => Self::Profiles,
            Some(ours) => Self::Ours(ours),
            None => Self::Kernels,
        }
    }

    fn of_socket(socket: BorrowedFd<'_>) -> Self {
        let is_hosts = IS_HOSTS.load(Ordering::Relaxed);
        if !is_hosts && !IS_CHOSEN.load(Ordering::Relaxed) {
            return Self::Profiles;
        }
        let name = sockopt::tcp_congestion(socket);
        name.map_or(Self::Profiles, |name| Self::of(&name, is_hosts, || is_default(socket, &name)))
    }
}

/// Returns whether new sockets have it, too.
fn is_default(socket: BorrowedFd<'_>, name: &str) -> bool {
    let new = sockopt::socket_domain(socket).and_then(|family| rustix::net::socket(family, SocketType::STREAM, None));
    new.and_then(sockopt::tcp_congestion).is_ok_and(|default| default == name)
}

/// The program has chosen one: sockets are asked for theirs from now on.
pub(crate) fn note_congestion() {
    IS_CHOSEN.store(true, Ordering::Relaxed);
}

/// The profile follows the host.
pub(crate) fn follow_hosts_congestion() {
    IS_HOSTS.store(true, Ordering::Relaxed);
}

/// That of a stream; `None`: the profile's.
pub(super) fn of(twin: BorrowedFd<'_>) -> Option<Congestion> {
    match Meaning::of_socket(twin) {
        Meaning::Ours(congestion) => Some(congestion),
        Meaning::Profiles | Meaning::Kernels => None,
    }
}

/// Returns whether the program has chosen one for a socket that only the kernel has.
pub(super) fn is_kernels(socket: BorrowedFd<'_>) -> bool {
    IS_CHOSEN.load(Ordering::Relaxed) && Meaning::of_socket(socket) == Meaning::Kernels
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::AddressFamily;
    use std::os::fd::AsFd;

    #[test]
    fn the_programs_choice_comes_before_the_profiles_and_that_before_the_hosts() {
        for (name, is_hosts, is_default, meaning) in [
            ("reno", true, true, Meaning::Ours(Congestion::Reno)),
            ("reno", false, true, Meaning::Profiles),
            ("reno", false, false, Meaning::Ours(Congestion::Reno)),
            ("vegas", true, true, Meaning::Profiles),
            ("vegas", false, true, Meaning::Profiles),
            ("vegas", true, false, Meaning::Kernels),
            ("vegas", false, false, Meaning::Kernels),
        ] {
            assert_eq!(Meaning::of(name, is_hosts, || is_default), meaning, "{name} {is_hosts} {is_default}");
        }
    }

    #[test]
    fn a_socket_is_asked() {
        note_congestion();
        let new = || rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        let default = sockopt::tcp_congestion(new()).unwrap();
        assert!(is_default(new().as_fd(), &default) && !is_kernels(new().as_fd()));
        let chosen = new();
        sockopt::set_tcp_congestion(&chosen, "reno").unwrap();
        assert!(default == "reno" || of(chosen.as_fd()) == Some(Congestion::Reno));
    }
}
