//! The layout of the table, in 64-bit words. Writer and reader share these numbers; their hash is in the header.
//!
//! ```text
//!   0  magic, layout hash, pid of the writer, namespace inode      |  8  generation          | 16  alive (ns)
//!  24  links:  sequence, count, incomplete, -, -, -, -, -, records ...
//!      addresses, routes, neighbours: the same
//! ```

use super::record::{Address, Link, Neighbour, Record, Route};

pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"SIDEPLAN");

pub(super) const MAGIC_AT: usize = 0;
pub(super) const HASH_AT: usize = 1;
pub(super) const PID_AT: usize = 2;
pub(super) const NAMESPACE_AT: usize = 3;
/// On its own cache line: readers load it for every packet, and it changes seldom.
pub(super) const GENERATION_AT: usize = 8;
/// On another cache line: it changes all the time.
pub(super) const ALIVE_AT: usize = 16;
const SECTIONS_AT: usize = 24;

/// The most interfaces of one namespace.
pub const LINKS_MAX: usize = 256;
/// The most addresses of one namespace.
pub const ADDRESSES_MAX: usize = 1024;
/// The most next hops of all routes in the tables local, main and default. Hosts in the default-free zone have more,
/// and use the kernel path for the missing ones.
pub const ROUTES_MAX: usize = 4096;
/// The most neighbours: four times the kernel's own limit per family (gc_thresh3).
pub const NEIGHBOURS_MAX: usize = 4096;

/// The length of a section's header, words.
pub(super) const SECTION_HEADER: usize = 8;
pub(super) const COUNT: usize = 1;
pub(super) const INCOMPLETE: usize = 2;

/// One section: its offset and the number of its records.
#[derive(Clone, Copy, Debug)]
pub(super) struct Section {
    pub(super) at: usize,
    pub(super) capacity: usize,
}

const fn after(section: Section, record_words: usize) -> usize {
    let end = section.at + SECTION_HEADER + section.capacity * record_words;
    // Sections begin at a cache line.
    end.next_multiple_of(8)
}

pub(super) const LINKS: Section = Section { at: SECTIONS_AT, capacity: LINKS_MAX };
pub(super) const ADDRESSES: Section = Section { at: after(LINKS, Link::WORDS), capacity: ADDRESSES_MAX };
pub(super) const ROUTES: Section = Section { at: after(ADDRESSES, Address::WORDS), capacity: ROUTES_MAX };
pub(super) const NEIGHBOURS: Section = Section { at: after(ROUTES, Route::WORDS), capacity: NEIGHBOURS_MAX };

/// The size of the whole table, words: about half a megabyte.
pub(crate) const TABLE_WORDS: usize = after(NEIGHBOURS, Neighbour::WORDS);

/// A hash of every number that both sides must agree on. `ENCODING` counts changes of the meaning of bits.
pub(super) const LAYOUT_HASH: u64 = {
    const ENCODING: usize = 1;
    let facts = [
        ENCODING,
        GENERATION_AT,
        ALIVE_AT,
        SECTION_HEADER,
        LINKS.at,
        ADDRESSES.at,
        ROUTES.at,
        NEIGHBOURS.at,
        Link::WORDS,
        Address::WORDS,
        Route::WORDS,
        Neighbour::WORDS,
        TABLE_WORDS,
    ];
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    let mut index = 0;
    while index < facts.len() {
        hash = (hash ^ facts[index] as u64).wrapping_mul(0x0000_0100_0000_01b3);
        index += 1;
    }
    hash
};
