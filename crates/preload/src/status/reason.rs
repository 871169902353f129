//! The reasons for the kernel's path that a status page names: those of sockets in general, and the library's own.

use sidestep_socket::Reason;
use sidestep_unmodified::status::Path;

/// The reason why the kernel carries a socket of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// One of sockets in general.
    Of(Reason),
    /// Another process has the listener, too.
    Shared,
    /// The program's packet filter decides about its SYNs.
    Filtered,
    /// TCP_DEFER_ACCEPT
    Deferred,
    /// An option that we do not follow.
    Option,
    /// The library has no descriptor for it.
    NoDescriptor,
    /// A stream of stdio has its descriptor.
    Stdio,
    /// Another process had it before it connected.
    Early,
}

/// The library's own, in the order of their numbers.
const OWN: [(Why, &str, &str); 7] = [
    (Why::Shared, "shared_listener", "another process has the listener, too"),
    (Why::Filtered, "filtered", "the program has attached a packet filter to the listener"),
    (Why::Deferred, "deferred", "the program asked for connections that have data already (TCP_DEFER_ACCEPT)"),
    (Why::Option, "option", "the program has set an option that the kernel alone has"),
    (
        Why::NoDescriptor,
        "no_descriptor",
        "the limit of open files (RLIMIT_NOFILE) leaves no descriptor for the library",
    ),
    (Why::Stdio, "stdio", "the program reads or writes it by stdio"),
    (Why::Early, "early", "another process had the socket before it was connected or bound"),
];

/// All reasons, by their numbers in the page.
pub(super) fn all() -> Vec<(&'static str, &'static str)> {
    let general = Reason::ALL.iter().map(|reason| (reason.name(), reason.description()));
    general.chain(OWN.iter().map(|(_, name, description)| (*name, *description))).collect()
}

impl Why {
    /// One line for people.
    pub(crate) fn description(self) -> &'static str {
        match self {
            Self::Of(reason) => reason.description(),
            own => OWN.iter().find(|(why, ..)| *why == own).map_or("", |(_, _, description)| description),
        }
    }

    pub(super) fn path(self) -> Path {
        let place = || OWN.iter().position(|(why, ..)| *why == self).unwrap_or(0);
        let reason = match self {
            Self::Of(reason) => reason as u32,
            _ => (Reason::ALL.len() + place()) as u32,
        };
        Path::Kernel { reason }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handover::CAUSES;
    use sidestep_unmodified::status::REASONS_MAX;

    /// The chapter of the book that has each reason with its cause and the next step.
    const CHAPTER: &str =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/book/src/past-the-kernel/troubleshooting.md");

    #[test]
    fn the_book_has_every_reason() {
        let chapter = std::fs::read_to_string(CHAPTER).expect("the chapter is there");
        for (name, description) in all() {
            let entry = format!("\n### `{name}`\n\n> {description}\n");
            assert!(chapter.contains(&entry), "troubleshooting.md lacks {name}, or its text: {description}");
        }
        for cause in CAUSES {
            assert!(chapter.contains(&format!("\n| {cause} |")), "troubleshooting.md lacks the cause: {cause}");
        }
    }

    #[test]
    fn each_reason_has_its_own_number() {
        let named = |why: Why| match why.path() {
            Path::Kernel { reason } => all()[reason as usize].0,
            path => panic!("{path:?}"),
        };
        assert!(all().len() <= REASONS_MAX);
        assert_eq!(named(Why::Of(Reason::HandedOver)), "handed_over");
        assert!(OWN.iter().all(|(why, name, _)| named(*why) == *name));
    }
}
