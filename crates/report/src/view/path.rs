//! What the reports must know about a path beyond its name.

/// How a path waits for its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// Sleeps until the kernel wakes it.
    Blocks,
    /// Asks again and again, and never sleeps.
    Spins,
    /// Not known, or a bit of both.
    Unknown,
}

/// How `path` waits. Busy polling is neither: the kernel polls for a while, then sleeps.
pub(crate) fn waiting(path: &str) -> Waiting {
    match path {
        "kernel-default" | "kernel-pinned" | "kernel-epoll" | "uring" | "uds" | "pipe" | "eventfd" => Waiting::Blocks,
        "shm" | "xdp" | "xdp-raw" | "preload" | "ring" | "ring-shm" | "ring-broadcast" => Waiting::Spins,
        path if is_floor(path) => Waiting::Spins,
        path if path.ends_with("-spin") => Waiting::Spins,
        _ => Waiting::Unknown,
    }
}

/// A physical limit of the machine: shown beside the paths, never ranked among them.
pub(crate) fn is_floor(path: &str) -> bool {
    matches!(path, "floor" | "floor-each-way")
}
