//! What an end may do past the kernel. Attaching an XDP program to an interface is a decision of the host's operator: no
//! measuring end makes it for the other one.

use serde::{Deserialize, Serialize};
use sidestep_sys::credentials::has_capability;
use sidestep_sys::{Problem, interface, xdp};
use std::net::IpAddr;

/// The decision of whoever has started this end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Consent {
    /// No interface is named: messages go by the kernel.
    #[default]
    Nothing,
    /// The interface is one of a lab that was made for the run.
    Lab,
    /// This interface (`--interface`).
    Interface {
        /// Its name.
        name: String,
        /// Whether a control plane may be started, and XDP programs attached (`--start-control`). Else the one that runs
        /// is used.
        may_start: bool,
    },
}

/// The part of it that the other end is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Told {
    /// Nothing goes past the kernel.
    #[default]
    Nothing,
    /// By the control plane that runs.
    Running,
    /// Also by one that is started, and by a program of a measurement's own.
    Start,
}

impl Consent {
    /// Checks that the interface exists here, and that this process may do what it promises.
    pub fn check(&self) -> Result<(), Problem> {
        let Self::Interface { name, may_start } = self else { return Ok(()) };
        interface::check(name)?;
        if *may_start { check_rights(has_capability) } else { Ok(()) }
    }

    /// Returns the note on a path of the kernel that is measured while an XDP program is attached to the interface, which every frame
    /// passes then.
    pub(crate) fn kernel_note(&self) -> Option<String> {
        let Self::Interface { name, .. } = self else { return None };
        let id = xdp::device(name).ok()?.xdp_program?;
        Some(format!("the kernel's path with XDP program {id} attached to {name}, which passes its frames on"))
    }

    /// Returns what the other end is told of it.
    pub(crate) fn told(&self) -> Told {
        match self {
            Self::Nothing => Told::Nothing,
            Self::Interface { may_start: false, .. } => Told::Running,
            Self::Interface { may_start: true, .. } | Self::Lab => Told::Start,
        }
    }

    /// Returns the interface on which `local` may go past the kernel.
    pub(crate) fn interface(&self, local: IpAddr) -> Result<String, Problem> {
        match self {
            Self::Interface { name, .. } => Ok(name.clone()),
            Self::Lab => interface::of_address(local).ok_or_else(|| {
                Problem::failed(format!("cannot go past the kernel from {local}"), "no interface has it")
            }),
            Self::Nothing => Err(Self::refused()),
        }
    }

    /// The refusal of an end without an interface.
    pub(crate) fn refused() -> Problem {
        Problem::usage("cannot go past the kernel", NO_INTERFACE).next(NAME_IT)
    }

    /// Refuses to attach a program of a measurement's own.
    pub(crate) fn check_own_program(&self) -> Result<(), Problem> {
        match self.told() {
            Told::Start => Ok(()),
            Told::Running => Err(Problem::usage("cannot attach the program of xdp-raw", NOT_TO_ATTACH).next(START_IT)),
            Told::Nothing => Err(Problem::usage("cannot attach the program of xdp-raw", NO_INTERFACE).next(NAME_IT)),
        }
    }
}

/// Reasons and next steps, which both ends give.
const NO_INTERFACE: &str = "no interface was named for it";
const NAME_IT: &str = "name it on both ends: --interface IF, as root";
const NOT_TO_ATTACH: &str = "its operator has not allowed to attach XDP programs";
const START_IT: &str = "allow it on both ends: --start-control, as root";

/// Checks the rights to attach XDP programs: CAP_NET_ADMIN, and CAP_BPF or CAP_SYS_ADMIN of capabilities(7).
fn check_rights(has: impl Fn(u32) -> bool) -> Result<(), Problem> {
    let [net_admin, sys_admin, bpf] = [12, 21, 39].map(has);
    let missing = match (net_admin, sys_admin || bpf) {
        (true, true) => return Ok(()),
        (false, true) => "CAP_NET_ADMIN",
        (true, false) => "CAP_BPF",
        (false, false) => "CAP_NET_ADMIN and no CAP_BPF",
    };
    Err(Problem::failed("cannot attach XDP programs (--start-control)", format!("this process has no {missing}"))
        .next("run it as root; or start sidestep control as root, and leave --start-control out"))
}

impl Told {
    /// Returns the reason why an end, here or the peer, does not go past the kernel: with a control plane or, if
    /// `own_program`, with a program of a measurement's own.
    pub(crate) fn refusal(self, who: &str, command: &str, own_program: bool) -> Option<String> {
        match self {
            Self::Start => None,
            Self::Running if !own_program => None,
            Self::Running => Some(format!(
                "it attaches an XDP program of its own, which {who} does not allow ({command} --start-control)"
            )),
            Self::Nothing => Some(format!(
                "it attaches an XDP program to the interface, which {who} allows in a lab (--place lab) or by name only \
                 ({command} --interface IF, as root)"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(may_start: bool) -> Consent {
        Consent::Interface { name: "lo".into(), may_start }
    }

    #[test]
    fn nothing_is_allowed_that_was_not_named() {
        let here = IpAddr::from([127, 0, 0, 1]);
        assert!(Consent::Nothing.interface(here).is_err() && Consent::Nothing.check_own_program().is_err());
        assert_eq!(on(false).interface(here).unwrap(), "lo");
        assert!(on(false).check_own_program().is_err() && on(true).check_own_program().is_ok());
        assert!(Consent::Interface { name: "no-such0".into(), may_start: true }.check().is_err());
    }

    #[test]
    fn nobody_promises_what_his_rights_do_not_allow() {
        let missing =
            |rights: &[u32]| check_rights(|right| rights.contains(&right)).map_err(|problem| problem.to_string());
        assert!(missing(&[]).unwrap_err().contains("no CAP_NET_ADMIN and no CAP_BPF"));
        assert!(missing(&[12]).unwrap_err().contains("no CAP_BPF"));
        assert!(missing(&[21, 39]).unwrap_err().contains("no CAP_NET_ADMIN\n"));
        assert!(missing(&[12, 39]).is_ok() && missing(&[12, 21]).is_ok());
        assert!(on(false).check().is_ok(), "a control plane that runs needs no rights of ours");
    }

    #[test]
    fn a_refusal_names_the_flag() {
        let why = |told: Told, own| told.refusal("the peer", "bench serve", own);
        assert!(why(Told::Nothing, false).unwrap().contains("bench serve --interface"));
        assert!(why(Told::Running, false).is_none() && why(Told::Start, true).is_none());
        assert!(why(Told::Running, true).unwrap().contains("--start-control"));
    }
}
