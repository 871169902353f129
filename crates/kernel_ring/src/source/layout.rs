//! The interface to the programs; `bpf/ring_source.h` has the same.

/// Cells of a source's ring: 256 KiB, the size of the BPF ring buffer that it is compared with.
pub const SOURCE_CELLS: u64 = 4096;
/// Bytes of an event: it travels in one cache line.
pub const EVENT_BYTES: usize = 48;
/// Bytes of the BPF ring buffer.
pub(super) const RINGBUF_BYTES: u32 = SOURCE_CELLS as u32 * 64;
/// The ring of the events.
pub(super) const RING_EVENTS: u32 = 0;
/// The rings of the map: that of the events, and that in which publishing is measured.
pub(super) const RINGS: u32 = 2;
/// Bytes of `struct source_settings`.
const SETTINGS_BYTES: usize = 32;
/// Bytes of `struct source_counts`.
const COUNTS_BYTES: usize = 32;

/// The destination of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sink {
    /// The ring.
    Ring,
    /// The BPF ring buffer, without a wake-up.
    Ringbuf,
    /// The BPF ring buffer, with a wake-up.
    RingbufWake,
    /// The ring, and the doorbell of a reader that sleeps.
    Doorbell,
    /// Of datagrams: the stamp is stored in the payload, and the datagram passes to its socket.
    Socket,
    /// None: the time of the loop in which publishing is measured.
    Nothing,
}

/// What the programs are told.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub(super) interval_ns: u64,
    pub(super) sink: Sink,
    pub(super) is_running: bool,
    pub(super) timer_flags: u32,
    pub(super) port: u16,
    pub(super) publishes: u32,
}

impl Settings {
    pub(super) fn bytes(&self) -> [u8; SETTINGS_BYTES] {
        let mut bytes = [0; SETTINGS_BYTES];
        bytes[..8].copy_from_slice(&self.interval_ns.to_ne_bytes());
        let words = [self.sink as u32, self.is_running.into(), self.timer_flags, self.port.into(), self.publishes];
        for (place, word) in bytes[8..].chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }
}

/// What the programs have counted since they were loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Events of the timer.
    pub events: u64,
    /// The time of the last run of publishing, ns.
    pub(super) cost_ns: u64,
    /// Events that a full BPF ring buffer refused.
    pub refused: u64,
    /// Events that found another writer at work: they are not in the ring.
    pub contended: u64,
}

impl Counts {
    pub(super) fn of(bytes: &[u8]) -> Option<Self> {
        if bytes.len() != COUNTS_BYTES {
            return None;
        }
        let word = |at: usize| bytes[at * 8..].first_chunk().map_or(0, |word| u64::from_ne_bytes(*word));
        Some(Self { events: word(0), cost_ns: word(1), refused: word(2), contended: word(3) })
    }
}

/// An event as readers find it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// The time at the top of its program, CLOCK_MONOTONIC, ns.
    pub stamp_ns: u64,
    /// Its number.
    pub number: u64,
}

impl Event {
    /// Reads the front of a message; none if it is too short.
    #[inline]
    pub fn of(message: &[u8]) -> Option<Self> {
        let (stamp, rest) = message.split_first_chunk()?;
        let number = rest.first_chunk()?;
        Some(Self { stamp_ns: u64::from_ne_bytes(*stamp), number: u64::from_ne_bytes(*number) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_has_the_same_numbers() {
        let header = include_str!("../../bpf/ring_source.h");
        for (name, value) in
            [("SOURCE_CELLS", SOURCE_CELLS), ("SOURCE_EVENT_BYTES", EVENT_BYTES as u64), ("SOURCE_RINGS", RINGS.into())]
        {
            assert!(header.contains(&format!("#define {name} {value}\n")), "{name}");
        }
        let sinks = header.split("enum source_sink {").nth(1).unwrap().split("};").next().unwrap();
        let names: Vec<&str> = sinks
            .lines()
            .filter_map(|line| line.trim().split(',').next().filter(|name| name.starts_with("SINK")))
            .collect();
        assert_eq!(
            names,
            ["SINK_RING", "SINK_RINGBUF", "SINK_RINGBUF_WAKE", "SINK_DOORBELL", "SINK_SOCKET", "SINK_NOTHING"]
        );
        assert_eq!(Sink::Nothing as usize, names.len() - 1);
    }

    #[test]
    fn settings_lie_where_the_programs_read_them() {
        let settings =
            Settings { interval_ns: 7, sink: Sink::Socket, is_running: true, timer_flags: 2, port: 9, publishes: 5 };
        let words: Vec<u32> =
            settings.bytes().chunks_exact(4).map(|word| u32::from_ne_bytes(word.try_into().unwrap())).collect();
        assert_eq!(words, [7, 0, 4, 1, 2, 9, 5, 0]);
    }

    #[test]
    fn a_message_that_is_too_short_is_no_event() {
        assert_eq!(Event::of(&[1; 15]), None);
        assert_eq!(Event::of(&[0; 16]), Some(Event::default()));
        assert_eq!(Counts::of(&[0; 31]), None);
    }
}
