//! The messages of a MoldUDP64 packet: header and blocks, and nothing of sessions.

/// Bytes before the first message: session, sequence, count.
const HEADER_BYTES: usize = 20;
/// The count that says that the session is over.
const END_OF_SESSION: u16 = 0xffff;

/// The messages of a packet with their numbers, up to the first that is not whole. None in a heartbeat; nothing at all if the header is not
/// whole.
pub fn messages(packet: &[u8]) -> Option<impl Iterator<Item = (u64, &[u8])>> {
    let (header, mut blocks) = packet.split_at_checked(HEADER_BYTES)?;
    let first = u64::from_be_bytes(std::array::from_fn(|byte| header[10 + byte]));
    let count = u16::from_be_bytes([header[18], header[19]]);
    let count = if count == END_OF_SESSION { 0 } else { u64::from(count) };
    Some((0..count).map_while(move |number| {
        let (length, rest) = blocks.split_first_chunk::<2>()?;
        let (message, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
        blocks = rest;
        Some((first.wrapping_add(number), message))
    }))
}
