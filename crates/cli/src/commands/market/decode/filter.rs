//! Which messages are printed.

use crate::args::DecodeFilter;
use sidestep_market::itch::{Message, Value};
use sidestep_market::units::{Locate, Symbol};
use std::net::SocketAddr;

/// The filter, and the names of the instruments as far as the input has told them.
pub(super) struct Filter {
    wanted: DecodeFilter,
    symbols: Box<[Symbol]>,
}

impl Filter {
    pub(super) fn new(wanted: &DecodeFilter) -> Self {
        let symbols = vec![Symbol::default(); usize::from(u16::MAX) + 1].into_boxed_slice();
        Self { wanted: wanted.clone(), symbols }
    }

    /// The name of an instrument; nothing if none was told.
    pub(super) fn symbol(&self, locate: Locate) -> Option<Symbol> {
        Some(self.symbols[usize::from(locate.0)]).filter(|symbol| *symbol != Symbol::default())
    }

    /// Returns whether a datagram to this address may have messages that are wanted.
    pub(super) fn wants_datagram(&self, to: SocketAddr) -> bool {
        let group =
            self.wanted.group.is_none_or(|one| one.address == to.ip() && one.port.is_none_or(|port| port == to.port()));
        group && self.wanted.port.is_none_or(|port| port == to.port())
    }

    /// Learns the instrument's name from a message, and returns whether the message is wanted.
    pub(super) fn wants(&mut self, message: &Message<'_>) -> bool {
        let locate = message.locate();
        if locate != Locate(0) {
            message.fields(&mut |name, value| {
                if let (Value::Name(symbol), "stock") = (value, name) {
                    self.symbols[usize::from(locate.0)] = symbol;
                }
            });
        }
        let DecodeFilter { symbol, locate: locates, types, .. } = &self.wanted;
        (types.is_empty() || types.as_bytes().contains(&message.kind()))
            && (locates.is_empty() || locates.contains(&locate.0))
            && (symbol.is_empty() || self.symbol(locate).is_some_and(|name| symbol.contains(&name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Destination;

    /// An add of an instrument, and a delete, which does not name it.
    fn add(locate: u8, symbol: &[u8; 8]) -> Vec<u8> {
        let mut bytes = vec![0; 36];
        (bytes[0], bytes[2]) = (b'A', locate);
        bytes[24..32].copy_from_slice(symbol);
        bytes
    }

    fn delete(locate: u8) -> Vec<u8> {
        let mut bytes = vec![0; 19];
        (bytes[0], bytes[2]) = (b'D', locate);
        bytes
    }

    fn wants(filter: &mut Filter, bytes: &[u8]) -> bool {
        filter.wants(&Message::parse(bytes).unwrap())
    }

    #[test]
    fn a_symbol_selects_also_messages_that_do_not_name_it() {
        let wanted = DecodeFilter { symbol: vec![Symbol::new("AAPL").unwrap()], ..DecodeFilter::default() };
        let mut filter = Filter::new(&wanted);
        assert!(!wants(&mut filter, &delete(1)), "not known yet");
        assert!(wants(&mut filter, &add(1, b"AAPL    ")) && !wants(&mut filter, &add(2, b"MSFT    ")));
        assert!(wants(&mut filter, &delete(1)) && !wants(&mut filter, &delete(2)));
    }

    #[test]
    fn types_and_locates_select_together() {
        let wanted = DecodeFilter { locate: vec![2], types: "DX".into(), ..DecodeFilter::default() };
        let mut filter = Filter::new(&wanted);
        assert!(wants(&mut filter, &delete(2)));
        assert!(!wants(&mut filter, &delete(1)) && !wants(&mut filter, &add(2, b"MSFT    ")));
    }

    #[test]
    fn datagrams_are_selected_by_their_destination() {
        let to: SocketAddr = "239.192.0.1:26400".parse().unwrap();
        let of = |group: Option<&str>, port| {
            let group = group.map(|text| text.parse::<Destination>().unwrap());
            Filter::new(&DecodeFilter { group, port, ..DecodeFilter::default() }).wants_datagram(to)
        };
        assert!(
            of(None, None)
                && of(Some("239.192.0.1"), None)
                && of(Some("239.192.0.1:26400"), None)
                && of(None, Some(26400))
        );
        assert!(!of(Some("239.192.0.2"), None) && !of(Some("239.192.0.1:1"), None) && !of(None, Some(1)));
    }
}
