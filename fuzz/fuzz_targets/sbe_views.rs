//! A message of a schema with everything that SBE has: whatever comes is read to its end or refused, and what is read twice is the same.

#![no_main]

#[allow(dead_code, unreachable_pub, unused_imports)]
#[path = "../../crates/market/tests/everything/mod.rs"]
mod everything;

use everything::{Fields, Grown, Message, Parts};
use sidestep_market::sbe::Malformed;
use std::hint::black_box;

fn fields(message: &Fields<'_>) {
    let engine = message.engine();
    black_box((message.three(), message.code(), message.optional_code(), message.side().name(), message.level()));
    black_box((message.added(), message.added_optional(), message.added_code(), message.added_level()));
    black_box((message.added_flags(), message.added_price(), message.added_three(), message.price().mantissa()));
    black_box((engine.capacity(), engine.level(), engine.kind(), engine.booster().pressure(), engine.torque()));
}

/// Entries and bytes of data.
fn parts(message: &Parts<'_>) -> Result<(usize, usize), Malformed> {
    let (mut entries, mut bytes) = (0, 0);
    let points = message.points()?;
    assert_eq!(points.iter().count(), points.len());
    entries += points.into_iter().map(|point| black_box((point.x(), point.y(), point.z()))).count();
    let mut legs = points.after().legs()?;
    for leg in &mut legs {
        let leg = leg?;
        entries += 1;
        let mut fills = leg.fills()?;
        for fill in &mut fills {
            for party in fill?.parties()? {
                entries += 1;
                bytes += party?.party()?.0.len();
            }
        }
        bytes += fills.after()?.memo()?.0.len();
    }
    let mut names = legs.after()?.names()?;
    for name in &mut names {
        entries += 1;
        bytes += name?.name()?.0.len();
    }
    let (note, stage) = names.after()?.note()?;
    let (blob, end) = stage.blob()?;
    black_box(end.tail().bytes());
    Ok((entries, bytes + note.len() + blob.unwrap_or_default().len()))
}

fn grown(message: &Grown<'_>) -> Result<usize, Malformed> {
    let early = message.early()?;
    let late = early.after().late()?;
    assert_eq!((early.get(early.len()), late.get(late.len())), (None, None));
    Ok(early.iter().map(|entry| entry.a()).chain(late.iter().map(|entry| entry.b())).map(black_box).count())
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    match Message::decode(bytes) {
        Ok(Message::Fields(message)) => fields(&message),
        Ok(Message::Parts(message)) => {
            let read = parts(&message);
            assert_eq!(read, parts(&message));
            if let Ok((entries, data)) = read {
                assert!(entries + data <= bytes.len(), "more was read than there is");
            }
        }
        Ok(Message::Grown(message)) => {
            if let Ok(entries) = grown(&message) {
                assert!(entries <= bytes.len());
            }
        }
        Ok(Message::Empty(_) | Message::Unknown(..)) | Err(_) => {}
    }
});
