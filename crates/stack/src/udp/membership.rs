//! The groups that one socket has joined, and from whom (RFC 3376, RFC 3678).

use super::error::TableError;
use super::limits::{GROUPS_MAX, SOURCES_MAX};
use std::net::IpAddr;

/// From whom datagrams of a group are taken.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Filter {
    /// From everyone but these.
    Except(Vec<IpAddr>),
    /// From these only (source-specific).
    Only(Vec<IpAddr>),
}

#[derive(Clone, Debug)]
struct Membership {
    group: IpAddr,
    interface: u32,
    filter: Filter,
}

/// Sorted by group and interface.
#[derive(Clone, Debug, Default)]
pub(super) struct Memberships(Vec<Membership>);

/// The change for a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Add,
    Remove,
}

impl Memberships {
    #[inline]
    fn place(&self, group: IpAddr, interface: u32) -> Result<usize, usize> {
        self.0.binary_search_by(|member| (member.group, member.interface).cmp(&(group, interface)))
    }

    /// Returns whether a datagram is taken; `None` if the group has not been joined on the interface.
    #[inline]
    pub(super) fn takes(&self, group: IpAddr, interface: u32, source: IpAddr) -> Option<bool> {
        let place = self.place(group, interface).ok()?;
        Some(match &self.0[place].filter {
            Filter::Except(sources) => !sources.contains(&source),
            Filter::Only(sources) => sources.contains(&source),
        })
    }

    /// From everyone.
    pub(super) fn join(&mut self, group: IpAddr, interface: u32) -> Result<(), TableError> {
        match self.place(group, interface) {
            Ok(_) => Err(TableError::AlreadyJoined),
            Err(place) => self.insert(place, group, interface, Filter::Except(Vec::new())),
        }
    }

    fn insert(&mut self, place: usize, group: IpAddr, interface: u32, filter: Filter) -> Result<(), TableError> {
        if self.0.len() == GROUPS_MAX {
            return Err(TableError::TooManyGroups);
        }
        self.0.insert(place, Membership { group, interface, filter });
        Ok(())
    }

    /// All of it, whatever the filter.
    pub(super) fn leave(&mut self, group: IpAddr, interface: u32) -> Result<(), TableError> {
        let place = self.place(group, interface).map_err(|_| TableError::NotJoined)?;
        self.0.remove(place);
        Ok(())
    }

    /// Joins for one source more, or leaves for one less; without a source there is no membership.
    pub(super) fn only(
        &mut self,
        change: Change,
        group: IpAddr,
        interface: u32,
        source: IpAddr,
    ) -> Result<(), TableError> {
        let place = match self.place(group, interface) {
            Ok(place) => place,
            Err(place) if change == Change::Add => {
                return self.insert(place, group, interface, Filter::Only(vec![source]));
            }
            Err(_) => return Err(TableError::NotJoined),
        };
        let Filter::Only(sources) = &mut self.0[place].filter else { return Err(TableError::OtherFilter) };
        edit(sources, change, source)?;
        if sources.is_empty() {
            self.0.remove(place);
        }
        Ok(())
    }

    /// Takes one source out of a group that was joined for everyone, or back in.
    pub(super) fn except(
        &mut self,
        change: Change,
        group: IpAddr,
        interface: u32,
        source: IpAddr,
    ) -> Result<(), TableError> {
        let place = self.place(group, interface).map_err(|_| TableError::NotJoined)?;
        let Filter::Except(sources) = &mut self.0[place].filter else { return Err(TableError::OtherFilter) };
        edit(sources, change, source)
    }
}

fn edit(sources: &mut Vec<IpAddr>, change: Change, source: IpAddr) -> Result<(), TableError> {
    let place = sources.iter().position(|known| *known == source);
    match (change, place) {
        (Change::Add, Some(_)) => Err(TableError::AlreadyJoined),
        (Change::Add, None) if sources.len() == SOURCES_MAX => Err(TableError::TooManySources),
        (Change::Add, None) => {
            sources.push(source);
            Ok(())
        }
        (Change::Remove, Some(place)) => {
            sources.swap_remove(place);
            Ok(())
        }
        (Change::Remove, None) => Err(TableError::NotJoined),
    }
}
