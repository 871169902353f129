//! The kernel's answers over rtnetlink (rtnetlink(7)), as records of the shared table.

mod convert;
mod route;
mod socket;
pub(crate) mod sockets;

pub(crate) use socket::{Asker, Dirty, Events};

use netlink_packet_route::address::AddressMessage;
use netlink_packet_route::link::LinkMessage;
use netlink_packet_route::neighbour::{NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage};
use netlink_packet_route::route::RouteMessage;
use netlink_packet_route::rule::RuleMessage;
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage as Message};
use sidestep_control_api::table::{
    ADDRESSES_MAX, Address, Incomplete, LINKS_MAX, Link, NEIGHBOURS_MAX, Neighbour, ROUTES_MAX, Route,
};
use socket::{Dump, Existing};
use std::io;
use std::net::IpAddr;

/// Records, and whether they are complete.
pub(crate) struct Read<T> {
    pub(crate) records: Vec<T>,
    pub(crate) incomplete: Incomplete,
}

impl<T> Read<T> {
    fn new(dump: &Dump, records: Vec<T>, other: Incomplete) -> Self {
        let cut = if dump.is_cut { Incomplete::Overflowed } else { Incomplete::No };
        let unreadable = if dump.unreadable > 0 { Incomplete::Unreadable } else { Incomplete::No };
        Self { records, incomplete: cut.or(unreadable).or(other) }
    }
}

/// The interfaces.
pub(crate) fn links(asker: &mut Asker) -> io::Result<Read<Link>> {
    let dump = asker.dump(Message::GetLink(LinkMessage::default()), |_| true, LINKS_MAX)?;
    let of = |message: &Message| if let Message::NewLink(link) = message { Some(convert::link(link)) } else { None };
    let mut links: Vec<Link> = dump.messages.iter().filter_map(of).collect();
    links.sort_by_key(|link| link.index);
    Ok(Read::new(&dump, links, Incomplete::No))
}

/// The addresses, in the kernel's order: the first of a subnet is the preferred source.
pub(crate) fn addresses(asker: &mut Asker) -> io::Result<Read<Address>> {
    let request = Message::GetAddress(AddressMessage::default());
    let dump = asker.dump(request, convert::is_internet, ADDRESSES_MAX)?;
    let of = |message: &Message| match message {
        Message::NewAddress(address) => convert::address(address),
        _ => None,
    };
    Ok(Read::new(&dump, dump.messages.iter().filter_map(of).collect(), Incomplete::No))
}

/// The routes, in the kernel's order: the first of equals is used. With policy rules beyond the default ones the routes
/// alone do not decide, and the table is marked accordingly.
pub(crate) fn routes(asker: &mut Asker) -> io::Result<Read<Route>> {
    let wanted = |payload: &[u8]| convert::is_internet(payload) && route::may_be_mirrored(payload);
    let dump = asker.dump(Message::GetRoute(RouteMessage::default()), wanted, ROUTES_MAX)?;
    let of = |message: &Message| match message {
        Message::NewRoute(route) => route::routes(route),
        _ => Vec::new(),
    };
    let routes: Vec<Route> = dump.messages.iter().flat_map(of).collect();
    Ok(Read::new(&dump, routes, rules(asker)?))
}

fn rules(asker: &mut Asker) -> io::Result<Incomplete> {
    let dump = asker.dump(Message::GetRule(RuleMessage::default()), convert::is_internet, usize::MAX)?;
    let is_usual = |message: &Message| match message {
        Message::NewRule(rule) => convert::is_usual_rule(rule),
        _ => true,
    };
    let all_usual = dump.unreadable == 0 && !dump.is_cut && dump.messages.iter().all(is_usual);
    Ok(if all_usual { Incomplete::No } else { Incomplete::Rules })
}

/// The neighbours, sorted.
pub(crate) fn neighbours(asker: &mut Asker) -> io::Result<Read<Neighbour>> {
    let request = Message::GetNeighbour(NeighbourMessage::default());
    let dump = asker.dump(request, convert::is_internet, NEIGHBOURS_MAX)?;
    let of = |message: &Message| match message {
        Message::NewNeighbour(neighbour) => convert::neighbour(neighbour),
        _ => None,
    };
    let mut neighbours: Vec<Neighbour> = dump.messages.iter().filter_map(of).collect();
    neighbours.sort_by_key(|neighbour| (neighbour.interface, neighbour.address));
    Ok(Read::new(&dump, neighbours, Incomplete::No))
}

/// Makes the kernel use a neighbour as if it had a packet for it: it resolves an unknown one, and confirms a stale one
/// (NTF_USE). Entries that are not the kernel's own are left alone: since Linux 5.16 that flag clears the state of
/// permanent ones, and the mark of those that a routing daemon has learned or has the kernel manage.
pub(crate) fn use_neighbour(asker: &mut Asker, interface: u32, address: IpAddr) -> io::Result<()> {
    let mut message = NeighbourMessage::default();
    message.header.ifindex = interface;
    let (family, destination) = match address {
        IpAddr::V4(address) => (AddressFamily::Inet, NeighbourAddress::Inet(address)),
        IpAddr::V6(address) => (AddressFamily::Inet6, NeighbourAddress::Inet6(address)),
    };
    message.header.family = family;
    message.attributes.push(NeighbourAttribute::Destination(destination));
    let found = asker.one(Message::GetNeighbour(message.clone()))?;
    message.header.flags = NeighbourFlags::Use;
    match found {
        Some(Message::NewNeighbour(entry)) if convert::is_fixed(&entry) => Ok(()),
        Some(_) => asker.order(Message::NewNeighbour(message), Existing::Changed),
        None => match asker.order(Message::NewNeighbour(message), Existing::Refused) {
            // Just entered by another process; it may be a permanent one.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            result => result,
        },
    }
}
