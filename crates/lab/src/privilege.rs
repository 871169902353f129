//! Checks that this process may make a lab, before anything is changed.

use std::fs;

use sidestep_sys::Problem;

/// Bits of capabilities(7).
const NET_ADMIN: (u32, &str) = (12, "CAP_NET_ADMIN");
const NET_RAW: (u32, &str) = (13, "CAP_NET_RAW");
const SYS_ADMIN: (u32, &str) = (21, "CAP_SYS_ADMIN");

/// Checks the capabilities: namespaces need CAP_SYS_ADMIN, devices CAP_NET_ADMIN, the relay of an impaired wire
/// CAP_NET_RAW.
pub(crate) fn check(has_relay: bool) -> Result<(), Problem> {
    let mut needed = vec![NET_ADMIN, SYS_ADMIN];
    needed.extend(has_relay.then_some(NET_RAW));
    check_status(&status()?, "make", &needed)
}

/// Checks that this process may enter a namespace and mount `/sys` there: it needs CAP_SYS_ADMIN.
pub(crate) fn check_entering() -> Result<(), Problem> {
    check_status(&status()?, "enter", &[SYS_ADMIN])
}

fn status() -> Result<String, Problem> {
    fs::read_to_string("/proc/self/status").map_err(|error| {
        Problem::failed("cannot read the capabilities of this process", error).next("mount /proc, then try again")
    })
}

fn check_status(status: &str, what: &str, needed: &[(u32, &str)]) -> Result<(), Problem> {
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    let missing: Vec<_> = needed.iter().filter(|(bit, _)| effective & (1 << bit) == 0).map(|&(_, name)| name).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Problem::failed(format!("cannot {what} a lab"), format!("this process has no {}", missing.join(" and no ")))
        .next("run it as root, for example with sudo"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named() {
        let all = [NET_ADMIN, NET_RAW, SYS_ADMIN];
        check_status("Name:\tx\nCapEff:\t000001ffffffffff\n", "make", &all).unwrap();
        check_status("CapEff:\t0000000000201000", "make", &[NET_ADMIN, SYS_ADMIN]).unwrap();
        let problem = check_status("CapEff:\t0000000000001000", "make", &all).unwrap_err().to_string();
        assert!(
            problem.contains("cannot make a lab: this process has no CAP_NET_RAW and no CAP_SYS_ADMIN"),
            "{problem}"
        );
        let problem = check_status("", "enter", &[SYS_ADMIN]).unwrap_err().to_string();
        assert!(problem.contains("cannot enter a lab") && problem.contains("as root"), "{problem}");
    }
}
