//! The record of a live connection, as an application sends it to control: what passes the check can be given to the kernel.

#![no_main]

use sidestep_control_api::message::{BUFFER_BYTES_MAX, HandOver, Numbered, QUEUE_BYTES_MAX, Request};
use std::net::{IpAddr, SocketAddr};

/// The largest window that any scale can say (RFC 7323 section 2.3).
const WINDOW_MAX: u32 = 65_535 << 14;

/// Bytes of the fields of a record with addresses of IPv6.
const FIELDS_BYTES: usize = 2 * 18 + 2 + 9 * 4 + 2 * 4 + 2 + 2 + 1;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    // As text, which is how it comes; and field by field, because chance does not write JSON.
    if let Ok(Numbered { body: Request::HandOver { connection, .. }, .. }) = serde_json::from_slice(bytes) {
        check(&connection);
    }
    if let Ok(connection) = serde_json::from_slice(bytes) {
        check(&connection);
    }
    if let Some(fields) = bytes.first_chunk() {
        let connection = of_fields(fields);
        check(&connection);
        let text = serde_json::to_vec(&connection).expect("a record is JSON");
        assert_eq!(serde_json::from_slice::<HandOver>(&text).expect("its own words"), connection);
    }
});

fn of_fields(fields: &[u8; FIELDS_BYTES]) -> HandOver {
    let mut rest = &fields[..];
    let mut take = |count: usize| {
        let (taken, left) = rest.split_at(count);
        rest = left;
        taken.iter().rev().fold(0, |sum: u128, byte| sum << 8 | u128::from(*byte))
    };
    let is = take(1) as u8;
    let mut end = || {
        let (ip, port) = (take(16), take(2) as u16);
        let ip = if is & 1 == 0 { IpAddr::from((ip as u32).to_be_bytes()) } else { IpAddr::from(ip.to_be_bytes()) };
        SocketAddr::new(ip, port)
    };
    let (local, remote) = (end(), end());
    let mut word = || take(4) as u32;
    let clocks = (word(), word());
    HandOver {
        local,
        remote,
        send_start: word(),
        unacknowledged: word(),
        unsent: word(),
        receive_end: word(),
        received: word(),
        send_window: word(),
        send_window_max: word(),
        send_update: word(),
        receive_window: word(),
        vlan: Some(take(2) as u16).filter(|_| is & 2 != 0),
        segment_bytes: take(2) as u16,
        send_shift: take(1) as u8,
        receive_shift: take(1) as u8,
        own_fin: is & 4 != 0,
        is_fin_sent: is & 8 != 0,
        peer_fin: is & 16 != 0,
        sack: is & 32 != 0,
        has_acknowledged: is & 128 != 0,
        timestamps: Some(clocks).filter(|_| is & 64 != 0),
    }
}

/// Everything that control computes with a record it has not refused stays within bounds.
fn check(connection: &HandOver) {
    let total = connection.bytes();
    if connection.fault().is_some() {
        return;
    }
    assert!(total <= 3 * u64::from(QUEUE_BYTES_MAX));
    // What is asked for as a buffer is less than half of what setsockopt(2) takes.
    assert!(i32::try_from(connection.receive_buffer()).is_ok());
    let most = u64::from(BUFFER_BYTES_MAX);
    assert_eq!(connection.excess().is_none(), connection.receive_buffer() <= most && connection.send_buffer() <= most);
    assert!(connection.send_window <= connection.send_window_max && connection.send_window_max <= WINDOW_MAX);
    assert!(connection.receive_window <= WINDOW_MAX);
    assert!(connection.send_shift <= 14 && connection.receive_shift <= 14 && connection.segment_bytes >= 48);
    assert!(!connection.is_fin_sent || connection.own_fin && connection.unsent == 0);
    // TCP_REPAIR_WINDOW refuses a window from beyond what was offered.
    let offered = connection.receive_end.wrapping_add(connection.receive_window);
    assert!(offered.wrapping_sub(connection.send_update).cast_signed() >= 0);
}
