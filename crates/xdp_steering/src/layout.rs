//! The layouts of `bpf/steer.h`: sizes and offsets, bytes. The tests compare them with the compiled program's BTF.

/// `STEER_MAGIC`.
pub(crate) const MAGIC: u32 = 0x5045_5453;
/// `LAYOUT_VERSION`.
pub(crate) const VERSION: u32 = 6;

/// The most stacks of one interface: one per accelerated process; a host has fewer cores to poll them.
pub const STACKS_MAX: u32 = 64;
/// `OWNER_KERNEL`: the owner of flows that were handed over.
pub(crate) const OWNER_KERNEL: u32 = u32::MAX;
/// `SHARED`: a bit beside the stack's number, for flows that are being handed over. [`OWNER_KERNEL`] has it, too.
pub(crate) const SHARED: u32 = 1 << 31;
/// The most receive queues of one interface that can be steered; queues above stay with the kernel.
pub const QUEUES_MAX: u32 = 64;
/// The most flows of one interface: preallocated, about 2 MB.
pub const FLOWS_MAX: u32 = 16_384;
/// The most listeners of one interface.
pub const LISTENERS_MAX: u32 = 1024;
/// The most multicast groups (or channels of a source) of one interface.
pub const GROUPS_MAX: u32 = 4096;
/// `PORTS`: rows of the array of TCP ports.
pub(crate) const PORTS: u32 = 1 << 16;
/// `COUNTERS_MAX`: more than there are reasons, so that a new reason does not change the map.
pub(crate) const COUNTERS_MAX: u32 = 64;
/// The most feeds of one interface: the bits of a set.
pub const FEEDS_MAX: u32 = 64;
/// The cells of one ring of a feed: 1 MiB, some 700 packets of 1,500 bytes, or 5,400 of 100.
pub const FEED_CELLS: u64 = 16_384;
/// The most readers of one feed that sleep.
pub const DOORBELLS_MAX: u32 = 16;
/// The most entries of feeds, by table: taps on connections, ports, groups.
pub(crate) const RING_FLOWS_MAX: u32 = 4096;
pub(crate) const RING_LISTENERS_MAX: u32 = 1024;
pub(crate) const RING_GROUPS_MAX: u32 = 4096;
/// The longest IP packet that is copied into a ring, bytes.
pub const RING_PACKET_BYTES_MAX: usize = 16_320;
/// The longest label of a stack, bytes; longer ones are truncated.
pub(crate) const LABEL_BYTES: usize = 48;

/// `VLAN_ANY`.
pub(crate) const VLAN_ANY: u16 = 0xffff;
/// `NONE_OF_ANY_VLAN` and `NONE_WITH_SOURCE`, in `none` of the settings.
pub(crate) const NONE_OF_ANY_VLAN: u8 = 1;
pub(crate) const NONE_WITH_SOURCE: u8 = 2;
/// `NONE_IN_RING_...`, in the same place.
pub(crate) const NONE_IN_RING_FLOWS: u8 = 4;
pub(crate) const NONE_IN_RING_LISTENERS: u8 = 8;
pub(crate) const NONE_IN_RING_GROUPS: u8 = 16;
pub(crate) const FAMILY_IPV4: u8 = 4;
pub(crate) const FAMILY_IPV6: u8 = 6;
pub(crate) const ADDRESS_BYTES: usize = 16;

/// `struct flow_key`.
pub(crate) mod flow_key {
    pub(crate) const BYTES: usize = 44;
    pub(crate) const LOCAL: usize = 0;
    pub(crate) const REMOTE: usize = 16;
    pub(crate) const LOCAL_PORT: usize = 32;
    pub(crate) const REMOTE_PORT: usize = 34;
    pub(crate) const OUTER_VLAN: usize = 36;
    pub(crate) const INNER_VLAN: usize = 38;
    pub(crate) const PROTOCOL: usize = 40;
    pub(crate) const FAMILY: usize = 41;
}

/// `struct listener_key`.
pub(crate) mod listener_key {
    pub(crate) const BYTES: usize = 24;
    pub(crate) const LOCAL: usize = 0;
    pub(crate) const LOCAL_PORT: usize = 16;
    pub(crate) const OUTER_VLAN: usize = 18;
    pub(crate) const INNER_VLAN: usize = 20;
    pub(crate) const PROTOCOL: usize = 22;
    pub(crate) const FAMILY: usize = 23;
}

/// `struct group_key`.
pub(crate) mod group_key {
    pub(crate) const BYTES: usize = 40;
    pub(crate) const GROUP: usize = 0;
    pub(crate) const SOURCE: usize = 16;
    pub(crate) const PORT: usize = 32;
    pub(crate) const OUTER_VLAN: usize = 34;
    pub(crate) const INNER_VLAN: usize = 36;
    pub(crate) const FAMILY: usize = 38;
}

/// `struct owner`.
pub(crate) const OWNER_BYTES: usize = 4;

/// `struct port_owner`, a word of 64 bits.
pub(crate) mod port_owner {
    pub(crate) const BYTES: usize = 8;
    pub(crate) const STACK_PLUS_ONE: usize = 0;
    pub(crate) const IS_SHARED: usize = 4;
}

/// `struct stack`.
pub(crate) mod stack_row {
    pub(crate) const BYTES: usize = 64;
    pub(crate) const LIVE: usize = 0;
    pub(crate) const FRAME_BYTES_MAX: usize = 4;
    pub(crate) const FIRST_QUEUE: usize = 8;
    pub(crate) const TCP_DEADLINES: usize = 12;
    pub(crate) const LABEL: usize = 16;
}

/// `struct feed_set`.
pub(crate) mod feed_set {
    pub(crate) const BYTES: usize = 16;
    pub(crate) const FEEDS: usize = 0;
    pub(crate) const DROPS: usize = 8;
}

/// `struct feed`.
pub(crate) mod feed_row {
    pub(crate) const BYTES: usize = 64;
    pub(crate) const LIVE: usize = 0;
    pub(crate) const RINGS: usize = 4;
    pub(crate) const DOORBELLS: usize = 8;
    pub(crate) const LABEL: usize = 16;
}

/// `struct ring_state`.
pub(crate) mod ring_state {
    pub(crate) const BYTES: usize = 64;
    /// `producer.sequence` and `producer.dropped`.
    pub(crate) const SEQUENCE: usize = 8;
    pub(crate) const DROPPED: usize = 32;
    pub(crate) const BUSY: usize = 48;
    pub(crate) const REFUSED: usize = 56;
}

/// `struct ring_packet`, which stands before the IP packet in a message of a feed.
pub mod ring_packet {
    /// Its size.
    pub const BYTES: usize = 16;
    /// u64: the time at which the program saw the packet, CLOCK_MONOTONIC.
    pub const RECEIVED_NS: usize = 0;
    /// u16: the offset of the payload from the message's first byte.
    pub const PAYLOAD_AT: usize = 8;
    /// u16: the length of the payload.
    pub const PAYLOAD_BYTES: usize = 10;
    /// u16: the VLAN id, 0 for none.
    pub const OUTER_VLAN: usize = 12;
    /// u8: 4 or 6.
    pub const FAMILY: usize = 14;
    /// u8: 17 (UDP) or 6 (TCP).
    pub const PROTOCOL: usize = 15;
}

/// `struct doorbell`.
pub(crate) mod doorbell {
    pub(crate) const BYTES: usize = 64;
}

/// `struct heartbeat`.
pub(crate) mod heartbeat {
    pub(crate) const BYTES: usize = 64;
}

/// `struct config`.
pub(crate) mod config {
    pub(crate) const BYTES: usize = 48;
    pub(crate) const MAGIC: usize = 0;
    pub(crate) const LAYOUT: usize = 4;
    pub(crate) const ENABLED: usize = 8;
    pub(crate) const IFINDEX: usize = 12;
    pub(crate) const DEADLINE_NS: usize = 16;
    pub(crate) const GENERATION: usize = 24;
    pub(crate) const MAC: usize = 32;
    pub(crate) const GENERIC: usize = 38;
    pub(crate) const NONE: usize = 39;
    pub(crate) const CONTROL_BEAT_NS: usize = 40;
}

/// Writes `value` at `offset`.
pub(crate) fn put(bytes: &mut [u8], offset: usize, value: &[u8]) {
    bytes[offset..offset + value.len()].copy_from_slice(value);
}

/// The `N` bytes at `offset`; zero beyond the end.
pub(crate) fn take<const N: usize>(bytes: &[u8], offset: usize) -> [u8; N] {
    bytes.get(offset..offset + N).and_then(|part| part.try_into().ok()).unwrap_or([0; N])
}

#[cfg(test)]
mod tests {
    use super::*;
    use libbpf_rs::HasSize;
    use libbpf_rs::btf::Btf;
    use libbpf_rs::btf::types::{MemberAttr, Struct};

    /// Size and offsets (bytes) of a structure in the compiled program.
    fn compiled(name: &str) -> (usize, Vec<(String, usize)>) {
        let btf = Btf::from_path(concat!(env!("OUT_DIR"), "/steer.bpf.o")).unwrap();
        let structure = btf.type_by_name::<Struct<'_>>(name).unwrap_or_else(|| panic!("no {name} in the BTF"));
        let members = structure.iter().map(|member| {
            let MemberAttr::Normal { offset } = member.attr else { panic!("{name} has a bit field") };
            (member.name.unwrap().to_string_lossy().into_owned(), offset as usize / 8)
        });
        (structure.size(), members.collect())
    }

    fn assert_layout(name: &str, bytes: usize, offsets: &[(&str, usize)]) {
        let (size, members) = compiled(name);
        assert_eq!(size, bytes, "size of {name}");
        for (member, offset) in offsets {
            let found = members.iter().find(|(name, _)| name == member);
            assert_eq!(found.map(|(_, offset)| offset), Some(offset), "{name}.{member}");
        }
    }

    #[test]
    fn keys_are_laid_out_as_compiled() {
        use flow_key::*;
        assert_layout(
            "flow_key",
            BYTES,
            &[
                ("local", LOCAL),
                ("remote", REMOTE),
                ("local_port", LOCAL_PORT),
                ("remote_port", REMOTE_PORT),
                ("outer_vlan", OUTER_VLAN),
                ("inner_vlan", INNER_VLAN),
                ("protocol", PROTOCOL),
                ("family", FAMILY),
                ("zero", 42),
            ],
        );
        assert_layout(
            "listener_key",
            listener_key::BYTES,
            &[
                ("local", listener_key::LOCAL),
                ("local_port", listener_key::LOCAL_PORT),
                ("outer_vlan", listener_key::OUTER_VLAN),
                ("inner_vlan", listener_key::INNER_VLAN),
                ("protocol", listener_key::PROTOCOL),
                ("family", listener_key::FAMILY),
            ],
        );
        assert_layout(
            "group_key",
            group_key::BYTES,
            &[
                ("group", group_key::GROUP),
                ("source", group_key::SOURCE),
                ("port", group_key::PORT),
                ("outer_vlan", group_key::OUTER_VLAN),
                ("inner_vlan", group_key::INNER_VLAN),
                ("family", group_key::FAMILY),
                ("zero", 39),
            ],
        );
    }

    #[test]
    fn values_are_laid_out_as_compiled() {
        assert_layout("owner", OWNER_BYTES, &[("stack", 0)]);
        let port = [("stack_plus_one", port_owner::STACK_PLUS_ONE), ("is_shared", port_owner::IS_SHARED)];
        assert_layout("port_owner", port_owner::BYTES, &port);
        assert_layout(
            "stack",
            stack_row::BYTES,
            &[
                ("live", stack_row::LIVE),
                ("frame_bytes_max", stack_row::FRAME_BYTES_MAX),
                ("first_queue", stack_row::FIRST_QUEUE),
                ("tcp_deadlines", stack_row::TCP_DEADLINES),
                ("label", stack_row::LABEL),
            ],
        );
        assert_layout(
            "config",
            config::BYTES,
            &[
                ("magic", config::MAGIC),
                ("layout", config::LAYOUT),
                ("enabled", config::ENABLED),
                ("ifindex", config::IFINDEX),
                ("deadline_ns", config::DEADLINE_NS),
                ("generation", config::GENERATION),
                ("mac", config::MAC),
                ("generic", config::GENERIC),
                ("none", config::NONE),
                ("control_beat_ns", config::CONTROL_BEAT_NS),
            ],
        );
    }

    #[test]
    fn feeds_are_laid_out_as_compiled() {
        use ring_packet::*;
        assert_layout("feed_set", feed_set::BYTES, &[("feeds", feed_set::FEEDS), ("drops", feed_set::DROPS)]);
        let feed = [("live", feed_row::LIVE), ("rings", feed_row::RINGS)];
        assert_layout("feed", feed_row::BYTES, &feed);
        assert_layout("feed", feed_row::BYTES, &[("doorbells", feed_row::DOORBELLS), ("label", feed_row::LABEL)]);
        assert_layout(
            "ring_state",
            ring_state::BYTES,
            &[("producer", 0), ("busy", ring_state::BUSY), ("refused", ring_state::REFUSED)],
        );
        let producer = [("next", 0), ("sequence", ring_state::SEQUENCE), ("dropped", ring_state::DROPPED)];
        assert_layout("sidestep_ring_producer", 48, &producer);
        let packet = [("received_ns", RECEIVED_NS), ("payload_at", PAYLOAD_AT), ("payload_bytes", PAYLOAD_BYTES)];
        assert_layout("ring_packet", BYTES, &packet);
        let packet = [("outer_vlan", OUTER_VLAN), ("family", FAMILY), ("protocol", PROTOCOL)];
        assert_layout("ring_packet", BYTES, &packet);
    }

    /// The number in `#define NAME NUMBER` of steer.h.
    fn defined(name: &str) -> u32 {
        let header = include_str!("../bpf/steer.h");
        let line = header.lines().find_map(|line| line.strip_prefix("#define ")?.strip_prefix(name)?.strip_prefix(' '));
        let number = line.unwrap_or_else(|| panic!("steer.h defines no {name}")).split_whitespace().next().unwrap();
        match number.strip_prefix("0x") {
            Some(digits) => u32::from_str_radix(digits, 16).unwrap(),
            None => number.parse().unwrap(),
        }
    }

    #[test]
    fn limits_are_those_of_the_header() {
        assert_eq!(defined("STEER_MAGIC"), MAGIC);
        assert_eq!(defined("LAYOUT_VERSION"), VERSION);
        assert_eq!(defined("STACKS_MAX"), STACKS_MAX);
        assert_eq!(defined("OWNER_KERNEL"), OWNER_KERNEL);
        assert_eq!(defined("SHARED"), SHARED);
        assert_eq!(defined("QUEUES_MAX"), QUEUES_MAX);
        assert_eq!(defined("FLOWS_MAX"), FLOWS_MAX);
        assert_eq!(defined("LISTENERS_MAX"), LISTENERS_MAX);
        assert_eq!(defined("GROUPS_MAX"), GROUPS_MAX);
        assert_eq!(defined("PORTS"), PORTS);
        assert_eq!(defined("COUNTERS_MAX"), COUNTERS_MAX);
        assert!(crate::Reason::ALL.len() <= COUNTERS_MAX as usize);
        assert_eq!(defined("LABEL_BYTES"), LABEL_BYTES as u32);
        assert_eq!(defined("ADDRESS_BYTES"), ADDRESS_BYTES as u32);
        assert_eq!(defined("VLAN_ANY"), u32::from(VLAN_ANY));
        assert_eq!(defined("NONE_OF_ANY_VLAN"), u32::from(NONE_OF_ANY_VLAN));
        assert_eq!(defined("NONE_WITH_SOURCE"), u32::from(NONE_WITH_SOURCE));
        assert_eq!(defined("NONE_IN_RING_FLOWS"), u32::from(NONE_IN_RING_FLOWS));
        assert_eq!(defined("NONE_IN_RING_LISTENERS"), u32::from(NONE_IN_RING_LISTENERS));
        assert_eq!(defined("NONE_IN_RING_GROUPS"), u32::from(NONE_IN_RING_GROUPS));
        assert_eq!(defined("FEEDS_MAX"), FEEDS_MAX);
        assert_eq!(u64::from(defined("FEED_CELLS")), FEED_CELLS);
        assert_eq!(defined("DOORBELLS_MAX"), DOORBELLS_MAX);
        assert_eq!(defined("RING_PACKET_BYTES_MAX"), RING_PACKET_BYTES_MAX as u32);
        assert_eq!(defined("RING_FLOWS_MAX"), RING_FLOWS_MAX);
        assert_eq!(defined("RING_LISTENERS_MAX"), RING_LISTENERS_MAX);
        assert_eq!(defined("RING_GROUPS_MAX"), RING_GROUPS_MAX);
        let ring = include_str!("../bpf/ring.h");
        let slack = sidestep_kernel_ring::SLACK_BYTES;
        assert!(RING_PACKET_BYTES_MAX <= slack);
        assert!(ring.contains(&format!("#define RING_SLACK_BYTES {slack}")));
        assert_eq!(defined("FAMILY_IPV4"), u32::from(FAMILY_IPV4));
        assert_eq!(defined("FAMILY_IPV6"), u32::from(FAMILY_IPV6));
    }
}
