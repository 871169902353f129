//! Generators for the tests of this crate.

#![allow(dead_code, unreachable_pub, missing_docs)]

use proptest::prelude::*;
use sidestep_wire::tcp::{Flags, Options, SackBlock, SackBlocks, Segment, SequenceNumber, Timestamps};
use sidestep_wire::vlan::{Kind, Tag, Tags, VlanId};
use sidestep_wire::{Addresses, MacAddress};

pub fn mac() -> impl Strategy<Value = MacAddress> {
    any::<[u8; 6]>().prop_map(MacAddress)
}

pub fn tag() -> impl Strategy<Value = Tag> {
    let kind = prop_oneof![Just(Kind::Customer), Just(Kind::Service)];
    (kind, 0_u16..4095, 0_u8..8, any::<bool>())
        .prop_map(|(kind, id, priority, eligible)| Tag::new(kind, VlanId::new(id).unwrap(), priority, eligible))
}

pub fn tags() -> impl Strategy<Value = Tags> {
    prop_oneof![
        Just(Tags::NONE),
        tag().prop_map(Tags::one),
        (tag(), tag()).prop_map(|(outer, inner)| Tags::two(outer, inner))
    ]
}

pub fn addresses() -> impl Strategy<Value = Addresses> {
    prop_oneof![
        any::<([u8; 4], [u8; 4])>()
            .prop_map(|(source, destination)| Addresses::V4 { source: source.into(), destination: destination.into() }),
        any::<([u8; 16], [u8; 16])>()
            .prop_map(|(source, destination)| Addresses::V6 { source: source.into(), destination: destination.into() }),
    ]
}

pub fn payload() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..1500)
}

/// Options as a peer may send them: those of a SYN, or timestamps and blocks; always fitting.
pub fn options() -> impl Strategy<Value = Options> {
    let timestamps = || prop::option::of(any::<(u32, u32)>().prop_map(|(value, echo)| Timestamps { value, echo }));
    let syn = (any::<Option<u16>>(), prop::option::of(0_u8..=14), any::<bool>(), timestamps()).prop_map(
        |(maximum_segment_size, window_scale, sack_permitted, timestamps)| Options {
            maximum_segment_size,
            window_scale,
            sack_permitted,
            timestamps,
            ..Options::NONE
        },
    );
    let later = (timestamps(), prop::collection::vec(any::<(u32, u32)>(), 0..=4))
        .prop_map(|(timestamps, blocks)| Options { timestamps, sack: sack(&blocks), ..Options::NONE }.fitted());
    prop_oneof![syn, later]
}

fn sack(blocks: &[(u32, u32)]) -> SackBlocks {
    let mut sack = SackBlocks::NONE;
    for (start, end) in blocks {
        assert!(sack.push(SackBlock { start: SequenceNumber(*start), end: SequenceNumber(*end) }));
    }
    sack
}

pub fn segment() -> impl Strategy<Value = Segment> {
    (any::<(u16, u16, u32, u32, u8, u16, u16)>(), options()).prop_map(|(fixed, options)| Segment {
        source_port: fixed.0,
        destination_port: fixed.1,
        sequence: SequenceNumber(fixed.2),
        acknowledgement: SequenceNumber(fixed.3),
        flags: Flags(fixed.4),
        window: fixed.5,
        urgent_pointer: fixed.6,
        options,
    })
}
