//! The owner of a namespace, written into the namespace itself: the alias of its loopback interface, which lasts as
//! long as the namespace. It distinguishes a dead lab from a living one if the record is lost, damaged, or elsewhere.

use serde::Deserialize;
use sidestep_sys::Problem;
use sidestep_sys::process::Process;

use super::ip::Ip;

const PERSISTENT: &str = "sidestep lab persistent";
const OWNER: &str = "sidestep lab owner ";

/// The owner that a namespace names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// It ends with this process.
    Owner(Process),
    /// It stays until it is taken down.
    Persistent,
}

impl Mark {
    /// The alias (at most 255 bytes, IFALIASZ).
    fn text(self) -> String {
        match self {
            Self::Owner(Process { pid, start_ticks }) => format!("{OWNER}{pid} {start_ticks}"),
            Self::Persistent => PERSISTENT.to_owned(),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        if text == PERSISTENT {
            return Some(Self::Persistent);
        }
        let (pid, start_ticks) = text.strip_prefix(OWNER)?.split_once(' ')?;
        Some(Self::Owner(Process { pid: pid.parse().ok()?, start_ticks: start_ticks.parse().ok()? }))
    }

    /// Writes it into a namespace.
    pub(crate) fn put(self, ip: &Ip, namespace: &str) -> Result<(), Problem> {
        ip.run(&["-n", namespace, "link", "set", "dev", "lo", "alias", &self.text()]).map(drop)
    }

    /// The mark of a namespace; `None` if it has none or cannot be entered.
    pub(crate) fn of(ip: &Ip, namespace: &str) -> Option<Self> {
        let links = ip.run(&["-n", namespace, "-json", "link", "show", "dev", "lo"]).ok()?;
        Self::parse(serde_json::from_str::<[Link; 1]>(&links).ok()?[0].ifalias.as_ref()?)
    }

    /// Returns whether it proves that the namespace is no longer in use.
    pub(crate) fn is_dead(self) -> bool {
        matches!(self, Self::Owner(owner) if !owner.is_alive())
    }
}

/// The used part of `ip -json link show`.
#[derive(Deserialize)]
struct Link {
    ifalias: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_read_back() {
        for mark in [Mark::Persistent, Mark::Owner(Process { pid: 7, start_ticks: 4711 })] {
            assert_eq!(Mark::parse(&mark.text()), Some(mark));
        }
        for foreign in ["", "eth0 uplink", "sidestep lab owner", "sidestep lab owner x 1", "sidestep lab owner 1"] {
            assert_eq!(Mark::parse(foreign), None);
        }
    }

    #[test]
    fn only_the_death_of_the_owner_proves_anything() {
        let this = Process::this().unwrap();
        assert!(!Mark::Persistent.is_dead());
        assert!(!Mark::Owner(this).is_dead());
        assert!(Mark::Owner(Process { start_ticks: this.start_ticks + 1, ..this }).is_dead());
    }
}
