//! The stack's record in the form of control's message, and its bytes in a file.

use sidestep_control_api::message as api;
use sidestep_stack::tcp::{Handover, OwnFin};
use sidestep_sys::memory::memfd;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;

/// The record of a connection; `None` if a queue is longer than a message can say.
pub(super) fn of(record: &Handover, vlan: Option<u16>) -> Option<api::HandOver> {
    let length = |bytes: &[u8]| u32::try_from(bytes.len()).ok().filter(|bytes| *bytes <= api::QUEUE_BYTES_MAX);
    Some(api::HandOver {
        local: record.flow.local(),
        remote: record.flow.remote(),
        vlan,
        send_start: record.send_start.0,
        has_acknowledged: record.has_acknowledged,
        unacknowledged: length(&record.unacknowledged)?,
        unsent: length(&record.unsent)?,
        receive_end: record.receive_end.0,
        received: length(&record.received)?,
        own_fin: record.own_fin != OwnFin::None,
        is_fin_sent: record.own_fin == OwnFin::Sent,
        peer_fin: record.has_peer_fin,
        segment_bytes: record.segment_bytes,
        sack: record.sack,
        send_shift: record.send_shift,
        receive_shift: record.receive_shift,
        timestamps: record.timestamps.map(|clock| (clock.value, clock.echo)),
        send_window: record.windows.send,
        send_window_max: record.windows.send_max,
        send_update: record.windows.send_update.0,
        receive_window: record.windows.receive,
    })
}

/// The bytes of all queues, in the order of the message.
pub(super) fn bytes(record: &Handover) -> io::Result<OwnedFd> {
    let mut file = File::from(memfd("sidestep-hand-over", false)?);
    for queue in [&record.received, &record.unacknowledged, &record.unsent] {
        file.write_all(queue)?;
    }
    Ok(file.into())
}
