//! The way that the packets of an entry take.

use super::Verdict;
use crate::reason::Reason;
use sidestep_control_api::client::Error;
use sidestep_control_api::message::Mode;
use std::fmt;

/// The way that the packets of an entry take to this flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryPath {
    /// From the driver into a ring.
    Ring {
        /// The verdict in force.
        verdict: Verdict,
        /// The mode of the steering program.
        mode: Mode,
        /// The reason why the verdict is not the one that was asked for.
        downgrade: Option<String>,
    },
    /// By the flow's kernel socket.
    Kernel {
        /// The reason.
        reason: Reason,
        /// The reason in control's words.
        detail: String,
    },
    /// They do not reach this flow: a tap has no kernel socket.
    Nothing {
        /// The reason.
        reason: Reason,
        /// The reason in control's words.
        detail: String,
    },
}

impl EntryPath {
    /// Returns whether a ring carries the packets.
    pub fn is_ring(&self) -> bool {
        matches!(self, Self::Ring { .. })
    }

    /// The reason why it is not a ring.
    pub fn reason(&self) -> Option<Reason> {
        match self {
            Self::Ring { .. } => None,
            Self::Kernel { reason, .. } | Self::Nothing { reason, .. } => Some(*reason),
        }
    }

    /// The path without rings.
    pub(super) fn without(why: &Why, has_twin: bool) -> Self {
        let Why { reason, detail } = why.clone();
        if has_twin { Self::Kernel { reason, detail } } else { Self::Nothing { reason, detail } }
    }
}

impl fmt::Display for EntryPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ring { verdict, mode, downgrade } => {
                let mode = if *mode == Mode::Generic { "generic XDP" } else { "XDP" };
                write!(f, "ring ({mode}, {verdict})")?;
                downgrade.as_ref().map_or(Ok(()), |why| write!(f, ": {why}"))
            }
            Self::Kernel { reason, detail } => write!(f, "kernel: {}", told(*reason, detail)),
            Self::Nothing { reason, detail } => write!(f, "nothing: {}", told(*reason, detail)),
        }
    }
}

/// What control has said, it has said with the reason.
fn told(reason: Reason, detail: &str) -> String {
    match reason {
        _ if detail.is_empty() => reason.to_string(),
        Reason::ControlAbsent | Reason::ControlSilent | Reason::Revoked => format!("{reason} ({detail})"),
        _ => detail.to_owned(),
    }
}

/// The reason why there are no rings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Why {
    pub(super) reason: Reason,
    pub(super) detail: String,
}

impl Why {
    pub(super) fn plain(reason: Reason) -> Self {
        Self { reason, detail: String::new() }
    }

    pub(super) fn of(error: &Error) -> Self {
        let next = match error {
            Error::Refused(refusal) if !refusal.next.is_empty() => format!("; {}", refusal.next),
            _ => String::new(),
        };
        Self { reason: Reason::of_error(error), detail: format!("{error}{next}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidestep_control_api::message::{Code, Refusal};

    #[test]
    fn a_path_is_told_with_its_reason() {
        let ring = EntryPath::Ring { verdict: Verdict::Drop, mode: Mode::Copy, downgrade: None };
        assert_eq!(ring.to_string(), "ring (XDP, drop)");
        let why = Why { reason: Reason::Revoked, detail: "it is gone".into() };
        let path = EntryPath::without(&why, true);
        assert_eq!(path.to_string(), format!("kernel: {} (it is gone)", Reason::Revoked));
        assert_eq!((path.is_ring(), path.reason()), (false, Some(Reason::Revoked)));
        assert!(EntryPath::without(&why, false).to_string().starts_with("nothing: "));
        let refusal = Refusal::plain(Code::NotAllowed, "cannot open a feed").next("ask the administrator");
        let why = Why::of(&Error::Refused(refusal));
        let text = EntryPath::without(&why, true).to_string();
        let told = "cannot open a feed: this user is not on the list of those who may bypass the kernel; ask the administrator";
        assert_eq!(text, format!("kernel: {told}"));
    }
}
