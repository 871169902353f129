//! Numbers of linux/ethtool.h: commands, and offsets in their structures.

/// ETHTOOL_GRXFH: the hashed fields.
pub(super) const GET_FIELDS: u32 = 0x29;
/// ETHTOOL_GRXRINGS: the number of receive queues.
pub(super) const GET_RECEIVE_RINGS: u32 = 0x2d;
/// ETHTOOL_GRXCLSRLCNT: the number of flow rules.
pub(super) const COUNT_RULES: u32 = 0x2e;
/// ETHTOOL_GRXCLSRULE: one flow rule.
pub(super) const GET_RULE: u32 = 0x2f;
/// ETHTOOL_GRXCLSRLALL: the locations of all flow rules.
pub(super) const LIST_RULES: u32 = 0x30;
/// ETHTOOL_GCHANNELS: the number of queues.
pub(super) const GET_CHANNELS: u32 = 0x3c;
/// ETHTOOL_GCOALESCE: interrupt moderation.
pub(super) const GET_COALESCING: u32 = 0x0e;
/// ETHTOOL_PERQUEUE: another command, for single queues.
pub(super) const PER_QUEUE: u32 = 0x4b;
/// ETHTOOL_GRSSH: hash, key and table.
pub(super) const GET_RSS: u32 = 0x46;

/// `struct ethtool_rxnfc`: flow rules and hashed fields.
pub(super) mod rxnfc {
    pub(in super::super) const BYTES: usize = 192;
    pub(in super::super) const FLOW_TYPE: usize = 4;
    pub(in super::super) const DATA: usize = 8;
    pub(in super::super) const RULE: usize = 16;
    pub(in super::super) const RULES: usize = 184;
    pub(in super::super) const LOCATIONS: usize = 188;
}

/// `struct ethtool_rx_flow_spec`: a flow rule.
pub(super) mod rule {
    pub(in super::super) const BYTES: usize = 168;
    pub(in super::super) const FLOW_TYPE: usize = 0;
    pub(in super::super) const VALUES: usize = 4;
    pub(in super::super) const MASKS: usize = 76;
    pub(in super::super) const COOKIE: usize = 152;
    pub(in super::super) const LOCATION: usize = 160;
    /// Bytes of a union of values or masks.
    pub(in super::super) const UNION_BYTES: usize = 52;
    /// Offsets of the fields in values and masks: source address, destination address, ports, type of service.
    pub(in super::super) const V4: [usize; 5] = [0, 4, 8, 10, 12];
    pub(in super::super) const V6: [usize; 5] = [0, 16, 32, 34, 36];
}

/// `struct ethtool_per_queue_op`: the command, and a mask of MAX_NUM_QUEUE queues.
pub(super) mod per_queue {
    pub(in super::super) const QUEUES_MAX: usize = 4096;
    pub(in super::super) const COMMAND: usize = 4;
    pub(in super::super) const MASK: usize = 8;
    pub(in super::super) const BYTES: usize = MASK + QUEUES_MAX / 8;
}

/// `struct ethtool_coalesce`: interrupt moderation.
pub(super) mod coalescing {
    pub(in super::super) const BYTES: usize = 92;
    pub(in super::super) const RECEIVE_US: usize = 4;
    pub(in super::super) const TRANSMIT_US: usize = 20;
}

/// `struct ethtool_rxfh`: the hash.
pub(super) mod rxfh {
    pub(in super::super) const BYTES: usize = 24;
    pub(in super::super) const TABLE_ENTRIES: usize = 8;
    pub(in super::super) const KEY_BYTES: usize = 12;
    pub(in super::super) const FUNCTION: usize = 16;
    /// `input_xfrm`, Linux 6.8; before, the first reserved byte, which the kernel leaves unchanged.
    pub(in super::super) const TRANSFORM: usize = 17;
}

/// `struct ethtool_channels`, in words: queues that receive, transmit, do both; and the maximum of combined ones.
pub(super) mod channels {
    pub(in super::super) const WORDS: usize = 9;
    pub(in super::super) const COMBINED_MAX: usize = 4;
    pub(in super::super) const RECEIVE: usize = 5;
    pub(in super::super) const TRANSMIT: usize = 6;
    pub(in super::super) const COMBINED: usize = 8;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::process::{Command, Stdio};

    fn claims() -> Vec<(String, usize)> {
        let at = |structure: &str, field: &str, value| (format!("offsetof(struct {structure}, {field})"), value);
        let bytes = |structure: &str, value| (format!("sizeof(struct {structure})"), value);
        let word = |field, value: usize| at("ethtool_channels", field, value * 4);
        let command = |name: &str, value: u32| (name.to_owned(), value as usize);
        let mut claims = vec![
            command("ETHTOOL_GRXFH", GET_FIELDS),
            command("ETHTOOL_GRXRINGS", GET_RECEIVE_RINGS),
            command("ETHTOOL_GRXCLSRLCNT", COUNT_RULES),
            command("ETHTOOL_GRXCLSRULE", GET_RULE),
            command("ETHTOOL_GRXCLSRLALL", LIST_RULES),
            command("ETHTOOL_GCHANNELS", GET_CHANNELS),
            command("ETHTOOL_GRSSH", GET_RSS),
            bytes("ethtool_rxnfc", rxnfc::BYTES),
            at("ethtool_rxnfc", "flow_type", rxnfc::FLOW_TYPE),
            at("ethtool_rxnfc", "data", rxnfc::DATA),
            at("ethtool_rxnfc", "fs", rxnfc::RULE),
            at("ethtool_rxnfc", "rule_cnt", rxnfc::RULES),
            at("ethtool_rxnfc", "rule_locs", rxnfc::LOCATIONS),
            bytes("ethtool_rx_flow_spec", rule::BYTES),
            at("ethtool_rx_flow_spec", "flow_type", rule::FLOW_TYPE),
            at("ethtool_rx_flow_spec", "h_u", rule::VALUES),
            at("ethtool_rx_flow_spec", "m_u", rule::MASKS),
            at("ethtool_rx_flow_spec", "ring_cookie", rule::COOKIE),
            at("ethtool_rx_flow_spec", "location", rule::LOCATION),
            ("sizeof(union ethtool_flow_union)".to_owned(), rule::UNION_BYTES),
            bytes("ethtool_rxfh", rxfh::BYTES),
            at("ethtool_rxfh", "indir_size", rxfh::TABLE_ENTRIES),
            at("ethtool_rxfh", "key_size", rxfh::KEY_BYTES),
            at("ethtool_rxfh", "hfunc", rxfh::FUNCTION),
            // Headers before Linux 6.8 have reserved bytes instead.
            at("ethtool_rxfh", "hfunc", rxfh::TRANSFORM - 1),
            bytes("ethtool_channels", channels::WORDS * 4),
            word("max_combined", channels::COMBINED_MAX),
            word("rx_count", channels::RECEIVE),
            word("tx_count", channels::TRANSMIT),
            word("combined_count", channels::COMBINED),
        ];
        for (structure, offsets, last) in
            [("ethtool_tcpip4_spec", rule::V4, "tos"), ("ethtool_tcpip6_spec", rule::V6, "tclass")]
        {
            let family = if offsets == rule::V4 { "4" } else { "6" };
            let fields =
                [format!("ip{family}src"), format!("ip{family}dst"), "psrc".into(), "pdst".into(), last.into()];
            claims.extend(fields.iter().zip(offsets).map(|(field, offset)| at(structure, field, offset)));
        }
        claims
    }

    /// Checked by the compiler, with the header of this system.
    #[test]
    fn the_kernels_header_says_the_same() {
        let mut program = "#include <stddef.h>\n#include <linux/ethtool.h>\n".to_owned();
        for (what, value) in claims() {
            program += &format!("_Static_assert({what} == {value}, \"{what}\");\n");
        }
        let mut compiler = Command::new("cc");
        compiler.args(["-std=c11", "-fsyntax-only", "-x", "c", "-"]).stdin(Stdio::piped());
        let mut child = compiler.spawn().expect("a linker of Rust programs is a C compiler");
        child.stdin.take().unwrap().write_all(program.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success(), "{program}");
    }
}
