//! The lines of a capture: those that `sidestep market record` names; else each interface and group is one, in the order of the first
//! packets of the feed.

use crate::commands::market::record::line_of;
use sidestep_feed_handler::{LINES_MAX, line_kinds};
use sidestep_market::arbiter::LineKind;
use sidestep_market::units::LineId;
use std::net::SocketAddr;

/// Interfaces of a capture that are looked at: lines and their twins.
const NAMED_MAX: u32 = 2 * LINES_MAX as u32;

/// The lines.
pub(in crate::commands::market) enum Lines {
    /// Recorded lines: so many.
    Named(usize),
    /// Interface and group of each line that was seen.
    Seen(Vec<(u32, SocketAddr)>),
}

impl Lines {
    /// By the interfaces of a capture.
    pub(in crate::commands::market) fn of<'a>(name: impl Fn(u32) -> Option<&'a str>) -> Self {
        let lines = (0..NAMED_MAX).map_while(&name).map(line_of);
        match lines.collect::<Option<Vec<_>>>() {
            Some(lines) if !lines.is_empty() => {
                Self::Named(lines.iter().filter(|(_, is_twin)| !is_twin).map(|(line, _)| line + 1).max().unwrap_or(1))
            }
            _ => Self::Seen(Vec::with_capacity(LINES_MAX)),
        }
    }

    /// The kinds of a channel's lines. Of lines that are not named it is not known whether they bring everything.
    pub(in crate::commands::market) fn kinds(&self) -> Vec<LineKind> {
        match self {
            Self::Named(lines) => line_kinds(*lines),
            Self::Seen(_) => {
                let others = std::iter::repeat_n(LineKind::Twin, LINES_MAX - 1);
                std::iter::once(LineKind::Live).chain(others).collect()
            }
        }
    }

    /// The number of lines, their twins not counted.
    pub(in crate::commands::market) fn len(&self) -> usize {
        match self {
            Self::Named(lines) => *lines,
            Self::Seen(_) => LINES_MAX,
        }
    }

    /// The line of a datagram; nothing if there are too many.
    pub(in crate::commands::market) fn line(
        &mut self,
        interface: u32,
        name: &str,
        group: SocketAddr,
    ) -> Option<LineId> {
        match self {
            Self::Named(lines) => {
                let (line, is_twin) = line_of(name).filter(|(line, _)| line < lines)?;
                Some(LineId((line + if is_twin { *lines } else { 0 }) as u8))
            }
            Self::Seen(seen) => {
                let known = seen.iter().position(|one| *one == (interface, group));
                let place = known.or_else(|| {
                    (seen.len() < LINES_MAX).then(|| {
                        seen.push((interface, group));
                        seen.len() - 1
                    })
                })?;
                Some(LineId(place as u8))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_lines_are_known_by_name_and_others_by_their_group() {
        let group: SocketAddr = "239.1.1.1:1".parse().unwrap();
        let names = ["A eth1:239.1.1.1:1", "B eth1:239.1.1.2:1"];
        let mut named = Lines::of(|number| names.get(number as usize).copied());
        assert_eq!(named.line(1, names[1], group), Some(LineId(1)));
        assert_eq!(named.line(2, "B kernel eth1:239.1.1.2:1", group), Some(LineId(3)));
        assert_eq!(named.line(2, "C eth1:239.1.1.2:1", group), None);
        assert_eq!(named.kinds().len(), 5);

        let mut seen = Lines::of(|number| ["eth1"].get(number as usize).copied());
        let groups = (1..=LINES_MAX as u16 + 1).map(|port| SocketAddr::new(group.ip(), port));
        let lines: Vec<Option<LineId>> = groups.map(|group| seen.line(0, "eth1", group)).collect();
        assert_eq!((lines[0], lines[7], lines[8]), (Some(LineId(0)), Some(LineId(7)), None));
        assert_eq!(seen.kinds().len(), LINES_MAX);
    }
}
