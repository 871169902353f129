//! What the control plane of this network namespace says of the programs that use it.

use crate::event;
use serde_json::to_value;
use sidestep_control_api::client::{Client, Error};
use sidestep_control_api::message::{Code, DetailLine};
use std::collections::BTreeMap;
use std::path::Path;

/// The name under which a watch connects to control.
const NAME: &str = "sidestep watch";

/// The control plane in the last interval.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plane {
    /// Set if it answered.
    pub(crate) is_up: bool,
    /// Programs that are connected.
    pub(crate) programs: u64,
    pub(crate) stacks: u64,
    pub(crate) feeds: u64,
    /// Flows, listeners and ports whose traffic goes past the kernel.
    pub(crate) accelerated: u64,
    /// Times that sockets of the present programs were left to the kernel, by reason.
    pub(crate) left_to_kernel: BTreeMap<String, u64>,
}

impl Plane {
    /// Asks it, and tells whether it has come or gone.
    pub(crate) fn look(before: &Self, path: &Path) -> Self {
        // Without a socket there is none, which is no news.
        let now = if path.exists() { ask(path) } else { Ok(Self::default()) };
        let (now, why) = match now {
            Ok(now) => (now, "is gone".to_owned()),
            Err(error) => (Self::default(), error.to_string()),
        };
        match (before.is_up, now.is_up) {
            (false, true) => event::tell("control plane: answers"),
            (true, false) => event::tell(format_args!("control plane: {why}")),
            _ => {}
        }
        now
    }
}

fn ask(path: &Path) -> Result<Plane, Error> {
    let mut client = Client::connect_to(path, NAME)?;
    let mut plane = Plane { is_up: true, ..Plane::default() };
    for line in client.clients()? {
        let has_nothing = line.stacks.is_empty() && line.feeds.is_empty() && line.refused == 0;
        if has_nothing && line.name.starts_with("sidestep ") {
            continue; // It only looks on, as this one does.
        }
        plane.programs += u64::from(line.is_connected);
        plane.stacks += line.stacks.len() as u64;
        plane.feeds += line.feeds.len() as u64;
        // A client that has ended meanwhile has no details.
        for detail in client.details(line.client).unwrap_or_default() {
            match detail {
                DetailLine::Accelerated { .. } => plane.accelerated += 1,
                DetailLine::Kernel { code, times, .. } => {
                    let count = plane.left_to_kernel.entry(name(code)).or_default();
                    *count = count.saturating_add(times);
                }
                _ => {}
            }
        }
    }
    let _ = client.bye();
    Ok(plane)
}

/// The name of a reason in results: one of a fixed list, so that the label has few values.
fn name(code: Code) -> String {
    to_value(code).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_has_a_name_of_its_own() {
        let mut names: Vec<String> = Code::ALL.iter().map(|code| name(*code)).collect();
        assert!(
            names.iter().all(|name| !name.is_empty()
                && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_' || b.is_ascii_digit()))
        );
        names.sort();
        names.dedup();
        assert_eq!(names.len(), Code::ALL.len());
    }

    #[test]
    fn without_a_socket_there_is_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("control.sock");
        assert_eq!(Plane::look(&Plane::default(), &path), Plane::default());
        std::fs::write(&path, "no socket").expect("written");
        assert!(!Plane::look(&Plane::default(), &path).is_up);
    }
}
