//! A server of SoupBinTCP that sends anything, in any pieces: the events do not depend on the pieces, numbers rise by one, what waits
//! to be written is bounded, and time-outs hold.

#![no_main]

use sidestep_market::soup::{Client, Event, Password, Settings, State, UserName};
use sidestep_market::units::Nanos;

const SECOND: u64 = 1_000_000_000;

fn client() -> Client {
    let settings = Settings::new(UserName::default(), Password::default());
    let mut client = Client::new(Settings { packet_bytes_max: 300, output_bytes_max: 100, ..settings }).unwrap();
    client.connected(Nanos(0));
    client
}

/// The events as text, and answers from within them.
fn receive(client: &mut Client, bytes: &[u8]) -> Vec<String> {
    let (mut events, mut next) = (Vec::new(), client.next_sequence().0);
    client.receive(bytes, Nanos(1), |event, out| {
        match event {
            Event::LoggedIn { next: told, .. } => next = told.0,
            Event::Sequenced { sequence, .. } => {
                assert_eq!(sequence.0, next);
                next += 1;
                _ = out.send(b"order");
            }
            Event::Unsequenced(_) | Event::Ended(_) => {}
        }
        events.push(format!("{event:?}"));
    });
    assert!(client.output().len() <= 100);
    events
}

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let Some((piece, bytes)) = input.split_first() else { return };
    let bytes = [&login(*piece)[..], bytes].concat();
    let (mut whole, mut parts) = (client(), client());
    let expected = receive(&mut whole, &bytes);
    let size = usize::from(*piece / 2).max(1);
    let seen: Vec<String> = bytes.chunks(size).flat_map(|bytes| receive(&mut parts, bytes)).collect();
    assert_eq!(expected, seen);
    assert_eq!((whole.state(), whole.counters(), whole.session()), (parts.state(), parts.counters(), parts.session()));
    // Whatever came, silence ends it.
    for second in 1..=31 {
        whole.poll(Nanos(second * SECOND + 1), |_, _| {});
    }
    assert!(matches!(whole.state(), State::Ended(_)) && whole.next_poll().is_none());
    // And the next connection begins with a login that has room.
    whole.connected(Nanos(60 * SECOND));
    assert_eq!(whole.output().len(), 49);
});

/// Half of the inputs begin with a login that is accepted.
fn login(piece: u8) -> Vec<u8> {
    let accepted = format!("\0\x1FA{:>10}{:>20}", "DAY", 1).into_bytes();
    if piece & 1 == 0 { accepted } else { Vec::new() }
}
