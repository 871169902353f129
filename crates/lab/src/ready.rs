//! Readiness of a lab: `ip link set up` returns before the kernel has activated queues, addresses and routes.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use serde::Deserialize;
use sidestep_sys::Problem;

use super::host::Host;
use super::ip::Ip;

/// The kernel needs some milliseconds; beyond this time the machine is not merely busy.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The polling interval, short against the time that bringing a lab up takes anyway.
const POLL: Duration = Duration::from_millis(2);

/// Waits until each link carries frames and each host has a route to the other. The links are given as namespace and
/// interface.
pub(crate) fn wait(ip: &Ip, hosts: &[Host; 2], links: &[(String, &str)]) -> Result<(), Problem> {
    let deadline = Instant::now() + TIMEOUT;
    for (namespace, interface) in links {
        until(deadline, &format!("{interface} of {namespace}"), || carries_frames(ip, namespace, interface))?;
    }
    let [a, b] = hosts;
    wait_routes(a, b, deadline)?;
    wait_routes(b, a, deadline)
}

fn until(deadline: Instant, what: &str, mut attempt: impl FnMut() -> Result<(), String>) -> Result<(), Problem> {
    while let Err(reason) = attempt() {
        if Instant::now() > deadline {
            return Err(Problem::failed(format!("{what} does not come up"), reason)
                .next("see what the kernel says about it: dmesg | tail"));
        }
        thread::sleep(POLL);
    }
    Ok(())
}

/// Checks the operational state. Between carrier and the end of the kernel's link watch work a device drops every frame
/// silently, and only that work sets this state. ARP and TCP would hide the loss by retransmission, multicast does not.
fn carries_frames(ip: &Ip, namespace: &str, interface: &str) -> Result<(), String> {
    let links = ip.run(&["-n", namespace, "-json", "link", "show", "dev", interface]).map_err(|p| p.brief())?;
    let [link] = serde_json::from_str::<[Link; 1]>(&links).map_err(|error| error.to_string())?;
    if link.operstate == "UP" { Ok(()) } else { Err(format!("its operational state is {}", link.operstate)) }
}

/// The used part of `ip -json link show`.
#[derive(Deserialize)]
struct Link {
    operstate: String,
}

fn wait_routes(host: &Host, other: &Host, deadline: Instant) -> Result<(), Problem> {
    let ipv6 = host.ipv6.map(IpAddr::from).zip(other.ipv6.map(IpAddr::from));
    host.within(|| {
        for (local, remote) in [Some((host.ipv4.into(), other.ipv4.into())), ipv6].into_iter().flatten() {
            let what = format!("the route to {remote} in {}", host.namespace);
            until(deadline, &what, || try_route(local, remote).map_err(|error| error.to_string()))?;
        }
        Ok(())
    })
}

/// Connects a UDP socket, which needs address and route, and sends nothing.
fn try_route(local: IpAddr, remote: IpAddr) -> io::Result<()> {
    UdpSocket::bind(SocketAddr::new(local, 0))?.connect(SocketAddr::new(remote, 9))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_come_up_is_named_with_its_last_reason() {
        let problem = until(Instant::now(), "lab0 of x", || Err("its operational state is DOWN".to_owned()));
        let problem = problem.unwrap_err().to_string();
        assert!(problem.contains("lab0 of x") && problem.contains("is DOWN"), "{problem}");
    }
}
