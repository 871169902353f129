//! The congestion control of streams: who knows the one that was asked for, how it is set, which one was in force.

use crate::path::{Medium, Path};
use rustix::net::sockopt;
use sidestep_socket::tcp::hosts_congestion;
use sidestep_stack::tcp::{Config, Congestion};
use sidestep_sys::Problem;
use socket2::{Domain, Socket, Type};
use std::os::fd::BorrowedFd;

/// What the kernel has loaded. It loads others for root, where it has them as modules.
const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

/// Those that a stream of our stack can be asked to have.
const OURS: [Congestion; 3] = [Congestion::Reno, Congestion::Cubic, Congestion::Bbr];

fn ours(name: &str) -> Option<Congestion> {
    OURS.into_iter().find(|congestion| congestion.name() == name)
}

/// Refuses a name that one of `paths` does not know, before anything is set up.
pub(crate) fn check(name: &str, paths: &[&Path]) -> Result<(), Problem> {
    let has = |medium| paths.iter().any(|path| path.medium == medium || peer_medium(path) == medium);
    let kernels = try_in_kernel(name).is_ok();
    let why = match (ours(name).is_some(), kernels) {
        (false, false) => "neither our stack nor this kernel has it",
        (false, true) if has(Medium::Stack) => "our stack does not have it, and a path past the kernel is asked for",
        (true, false) if has(Medium::Inet) => "this kernel does not have it, and a path of the kernel is asked for",
        _ => return Ok(()),
    };
    Err(Problem::usage(format!("cannot use congestion control {name:?}"), why).next(format!(
        "choose one that all --paths have; the kernel: {}; our stack: {}",
        available(),
        names_of_stack()
    )))
}

fn peer_medium(path: &Path) -> Medium {
    path.peer.and_then(|name| Path::named(name).ok()).map_or(path.medium, |peer| peer.medium)
}

fn try_in_kernel(name: &str) -> Result<(), Problem> {
    let failed = |error| Problem::failed("cannot open a socket", error);
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).map_err(failed)?;
    set(std::os::fd::AsFd::as_fd(&socket), name)
}

/// Returns those that the kernel has loaded, for a message.
fn available() -> String {
    sidestep_sys::file::read_text(std::path::Path::new(AVAILABLE), 4096)
        .map_or_else(|_| "unknown".into(), |list| list.trim().replace(' ', ", "))
}

/// Returns those of our stack, for a message.
fn names_of_stack() -> String {
    OURS.map(Congestion::name).join(", ")
}

/// Sets that of a kernel socket (TCP_CONGESTION).
pub(crate) fn set(socket: BorrowedFd<'_>, name: &str) -> Result<(), Problem> {
    sockopt::set_tcp_congestion(socket, name).map_err(|error| {
        Problem::failed(format!("cannot use congestion control {name:?}"), error)
            .next(format!("choose one that the kernel has: {}", available()))
    })
}

/// Sets that of a kernel socket if one was asked for, and returns the one in force (by default
/// net.ipv4.tcp_congestion_control).
pub(crate) fn of_kernel(socket: Option<BorrowedFd<'_>>, asked: Option<&str>) -> Result<Option<String>, Problem> {
    let Some(socket) = socket else { return Ok(None) };
    asked.map_or(Ok(()), |name| set(socket, name))?;
    Ok(sockopt::tcp_congestion(socket).ok())
}

/// Returns the settings of our stack with the congestion control that was asked for, or with the host's; CUBIC, as everywhere, where the stack
/// does not have the host's.
pub(crate) fn of_stack(asked: Option<&str>) -> Result<Config, Problem> {
    let own = Config::latency();
    let Some(name) = asked else {
        return Ok(Config { congestion: hosts_congestion().unwrap_or(Congestion::Cubic), ..own });
    };
    let congestion = ours(name).ok_or_else(|| {
        Problem::usage(format!("cannot use congestion control {name:?}"), "our stack does not have it")
            .next(format!("choose one of: {}", names_of_stack()))
    })?;
    Ok(Config { congestion, ..own })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_refused_where_a_path_does_not_have_it() {
        let paths = |names: &[&str]| names.iter().map(|name| Path::named(name).unwrap()).collect::<Vec<_>>();
        let all = paths(&["kernel-spin", "xdp", "xdp-one-end"]);
        check("reno", &all).unwrap();
        check("reno", &[]).unwrap();
        let unknown = check("nonesuch", &all).unwrap_err().to_string();
        assert!(unknown.contains("nonesuch") && unknown.contains(&available()), "{unknown}");
        assert!(unknown.contains(&names_of_stack()), "{unknown}");
        assert!(check("nonesuch", &paths(&["xdp"])).is_err() && check("nonesuch", &paths(&["kernel-spin"])).is_err());
    }

    #[test]
    fn what_is_asked_for_is_in_force() {
        assert_eq!(of_stack(Some("reno")).unwrap().congestion, Congestion::Reno);
        assert_eq!(of_stack(None).unwrap().congestion, hosts_congestion().unwrap_or(Congestion::Cubic));
        assert!(of_stack(Some("nonesuch")).is_err() && of_stack(Some("host")).is_err());
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let socket = Some(std::os::fd::AsFd::as_fd(&socket));
        let by_default = of_kernel(socket, None).unwrap().unwrap();
        assert!(available().contains(&by_default));
        assert_eq!(of_kernel(socket, Some("reno")).unwrap().unwrap(), "reno");
        assert!(of_kernel(socket, Some("nonesuch")).unwrap_err().to_string().contains("reno"));
    }
}
