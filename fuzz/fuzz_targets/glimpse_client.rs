//! A server of GLIMPSE that sends anything, in any pieces: one end at most, nothing behind it, nothing beyond the limits.

#![no_main]

use sidestep_market::glimpse::{Client, Event, Limits, State};
use sidestep_market::soup::{Password, Settings, UserName};
use sidestep_market::units::Nanos;

const MESSAGES_MAX: u64 = 20;

fn run(bytes: &[u8], piece: usize) -> (Vec<String>, State) {
    let settings = Settings::new(UserName::default(), Password::default());
    let limits = Limits { messages_max: MESSAGES_MAX, ..Limits::default() };
    let mut client = Client::new(Settings { packet_bytes_max: 300, ..settings }, limits).unwrap();
    client.connected(Nanos(0));
    let (mut events, mut messages, mut ends) = (Vec::new(), 0, 0);
    for bytes in bytes.chunks(piece) {
        client.receive(bytes, Nanos(1), |event| {
            assert_eq!(ends, 0, "{event:?} behind the end");
            messages += u64::from(matches!(event, Event::Message(_)));
            ends += u32::from(matches!(event, Event::Complete(_) | Event::Failed(_)));
            events.push(format!("{event:?}"));
        });
    }
    assert!(messages <= MESSAGES_MAX);
    client.disconnected(|event| {
        assert!(ends == 0 && matches!(event, Event::Failed(_)));
        ends += 1;
    });
    assert_eq!(ends, 1);
    (events, client.state())
}

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let Some((piece, bytes)) = input.split_first() else { return };
    let accepted = format!("\0\x1FA{:>10}{:>20}", "DAY", 1);
    let bytes = [accepted.as_bytes(), bytes].concat();
    assert_eq!(run(&bytes, usize::MAX), run(&bytes, usize::from(*piece).max(1)));
});
