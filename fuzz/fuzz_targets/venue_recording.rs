//! A recorded day from a stranger, as the venue's load: any file ends, and whatever it did, no order and no share was made or lost. The
//! messages are framed here, so that their fields are what is varied, and now and then the file as it is.

#![no_main]

use sidestep_venue::exchange::{Day, DaySettings};
use sidestep_venue::load::{LoadSettings, Profile, Recording, RecordingSettings};
use sidestep_venue::matching::Limits;
use sidestep_venue::service::Time;
use sidestep_venue::units::DAY_NS;
use std::io::Cursor;

/// Types that change orders, and their lengths; R lists an instrument.
const TYPES: [(u8, usize); 8] =
    [(b'A', 36), (b'F', 40), (b'E', 31), (b'C', 36), (b'X', 23), (b'D', 19), (b'U', 35), (b'R', 39)];
/// More polls than a file of a few KiB has messages.
const POLLS_MAX: u64 = 10_000;

/// Messages of the known types, each filled with the input's bytes; numbers of orders are small, so that they meet.
fn framed(bytes: &[u8]) -> Vec<u8> {
    let mut file = Vec::new();
    for piece in bytes.chunks(12) {
        let (letter, length) = TYPES[usize::from(piece[0] & 7)];
        let mut message = vec![0; length];
        message[0] = letter;
        message[2] = piece[0] >> 6;
        piece[1..].iter().zip(&mut message[18..]).for_each(|(byte, place)| *place = *byte);
        if matches!(letter, b'A' | b'F') {
            message[19] = if piece[0] & 8 == 0 { b'B' } else { b'S' };
            message[20..22].fill(0);
        }
        file.extend((length as u16).to_be_bytes());
        file.extend(message);
    }
    file
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let file = match bytes {
        [0xff, rest @ ..] => rest.to_vec(),
        _ => framed(bytes),
    };
    let settings = DaySettings {
        load: LoadSettings { seed: 1, symbols: 1, live_orders: 1 },
        profile: Profile::Steady,
        rate: 1,
        speed: 1,
        history: 1_000,
        limits: Limits { orders: 64, levels: 8 },
    };
    let settings_of_file = RecordingSettings { orders: 32, speed: 1_000, from_ns: None };
    let mut day = Day::recorded(Recording::new(Box::new(Cursor::new(file)), &settings_of_file), &settings, 0);
    let mut polls = 0;
    while !day.is_over() && polls < POLLS_MAX {
        polls += 1;
        day.poll(Time { mono_ns: polls.saturating_mul(DAY_NS), day_ns: 0 });
    }
    assert!(day.is_over(), "any file ends");
    let totals = day.core.matching.totals();
    assert_eq!(totals.accepted, day.core.matching.live() as u64 + totals.filled + totals.cancelled);
    assert!(day.core.matching.live() <= 32, "no more than the recording may have");
});
