//! A counterparty that sends anything, in any pieces: what the framer cuts does not depend on the pieces, and what it keeps
//! is bounded.

#![no_main]

use sidestep_fix::{Framer, Garbled, Index};

/// Messages and faults, up to the first fatal one.
fn cut(bytes: &[u8], piece: usize) -> Vec<Result<Vec<u8>, Garbled>> {
    let (mut framer, mut out) = (Framer::new(512), Vec::new());
    for part in bytes.chunks(piece) {
        assert_eq!(framer.push(part), part.len());
        loop {
            match framer.next() {
                Ok(None) => break,
                Ok(Some(frame)) => out.push(Ok(frame.to_vec())),
                Err(garbled) => {
                    // Garbage is reported as often as it is dropped: that does depend on the pieces.
                    if garbled.fault != sidestep_fix::Fault::Garbage {
                        out.push(Err(garbled));
                    }
                    if garbled.is_fatal() {
                        return out;
                    }
                }
            }
        }
        assert!(framer.pending() <= 1024 + part.len());
    }
    out
}

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let Some((piece, bytes)) = input.split_first() else { return };
    let whole = cut(bytes, usize::MAX);
    let parts = cut(bytes, usize::from(*piece).max(1));
    let messages = |all: &[Result<Vec<u8>, Garbled>]| all.iter().flatten().cloned().collect::<Vec<_>>();
    // A stream that ends in a fatal fault may end at another message, but never hands out another one.
    let (whole, parts) = (messages(&whole), messages(&parts));
    let common = whole.len().min(parts.len());
    assert_eq!(whole[..common], parts[..common]);
    let mut index = Index::new(64);
    for message in &whole {
        let _ = index.decode(message);
    }
});
