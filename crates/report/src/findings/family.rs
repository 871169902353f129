//! Families of paths: what carries a message, and whether its receiver sleeps. A chart has one colour for each.

use crate::schema::{Document, Row};
use crate::view::path::{Waiting, is_floor, waiting};

/// A family of paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// The kernel's sockets, whose receive sleeps, or of which that is not known.
    KernelSleeps,
    /// The kernel's sockets, polled.
    KernelSpins,
    /// Past the kernel.
    Past,
    /// Between processes of one host, without a network.
    Memory,
}

impl Family {
    /// All of them, in the order of a key.
    pub const ALL: [Self; 4] = [Self::Past, Self::KernelSpins, Self::KernelSleeps, Self::Memory];

    /// Its name in a key.
    pub fn name(self) -> &'static str {
        match self {
            Self::KernelSleeps => "kernel, sleeps",
            Self::KernelSpins => "kernel, never sleeps",
            Self::Past => "past the kernel",
            Self::Memory => "memory of one host",
        }
    }
}

/// The family of a row.
pub fn of(document: &Document, row: &Row) -> Family {
    if is_local(&row.transport) {
        return Family::Memory;
    }
    if row.path == "run" || row.path.starts_with("xdp") {
        return Family::Past;
    }
    match waiting(document, &row.path) {
        Waiting::Spins => Family::KernelSpins,
        Waiting::Blocks | Waiting::Unknown => Family::KernelSleeps,
    }
}

/// Returns whether a transport stays within one host by its nature.
pub fn is_local(transport: &str) -> bool {
    matches!(transport, "uds" | "shm" | "memory")
}

/// Returns whether a path is a limit: shown beside the others, never called the fastest.
pub fn is_limit(path: &str) -> bool {
    is_floor(path) || path == "xdp-raw" || path.ends_with("-nothing")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::PathInfo;

    #[test]
    fn a_path_has_the_family_of_what_carries_it() {
        let info = PathInfo { name: "kernel-spin".into(), waiting: Some("spin".into()), ..PathInfo::default() };
        let document = Document { paths: vec![info], ..Document::default() };
        let family = |path: &str, transport: &str| {
            of(&document, &Row { path: path.into(), transport: transport.into(), ..Row::default() })
        };
        assert_eq!(family("kernel-spin", "tcp"), Family::KernelSpins);
        assert_eq!(family("kernel-pinned", "tcp"), Family::KernelSleeps);
        assert_eq!((family("xdp-block", "udp"), family("run", "tcp")), (Family::Past, Family::Past));
        assert_eq!(family("shm", "shm"), Family::Memory);
        assert!(is_limit("xdp-raw") && is_limit("floor") && !is_limit("xdp"));
    }
}
