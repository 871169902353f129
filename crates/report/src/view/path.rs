//! Properties of a path that the reports need.

use crate::schema::Document;

/// The way in which a path waits for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// Sleeps until the kernel wakes it.
    Blocks,
    /// Polls, and never sleeps.
    Spins,
    /// Unknown, or both.
    Unknown,
}

/// Returns the way in which `path` waits. Busy polling is neither: the kernel polls for a while, then sleeps.
pub(crate) fn waiting(document: &Document, path: &str) -> Waiting {
    let info = document.paths.iter().find(|info| info.name == path);
    match info.and_then(|info| info.waiting.as_deref()) {
        Some("block" | "epoll") => Waiting::Blocks,
        Some("spin") => Waiting::Spins,
        _ => Waiting::Unknown,
    }
}

/// A physical limit of the machine: shown beside the paths, never ranked among them.
pub(crate) fn is_floor(path: &str) -> bool {
    matches!(path, "floor" | "floor-each-way")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::PathInfo;

    #[test]
    fn only_the_document_says_how_a_path_waits() {
        let path = |name: &str, waiting: Option<&str>| PathInfo {
            name: name.into(),
            waiting: waiting.map(Into::into),
            ..PathInfo::default()
        };
        let paths = [("a", "spin"), ("b", "block"), ("c", "epoll"), ("d", "busy_poll"), ("e", "as no build does")];
        let mut paths = paths.map(|(name, waiting)| path(name, Some(waiting))).to_vec();
        paths.push(path("kernel-spin", None));
        let document = Document { paths, ..Document::default() };
        let waits = ["a", "b", "c", "d", "e", "kernel-spin", "missing"].map(|name| waiting(&document, name));
        use Waiting::{Blocks, Spins, Unknown};
        assert_eq!(waits, [Spins, Blocks, Blocks, Unknown, Unknown, Unknown, Unknown]);
    }
}
