use super::*;
use crate::soup::{Password, UserName};
use proptest::prelude::*;

const SECOND: u64 = 1_000_000_000;

fn client(sequence: u64) -> Client {
    let settings = Settings::new(UserName::new("TRADER").unwrap(), Password::default());
    Client::new(Settings { sequence: Sequence(sequence), ..settings }).unwrap()
}

fn packet(kind: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = u16::try_from(payload.len() + 1).unwrap().to_be_bytes().to_vec();
    bytes.push(kind);
    bytes.extend_from_slice(payload);
    bytes
}

fn accepted(session: &str, next: u64) -> Vec<u8> {
    packet(b'A', format!("{session:>10}{next:>20}").as_bytes())
}

/// The events as text: one line each.
fn receive(client: &mut Client, bytes: &[u8], now: u64) -> Vec<String> {
    let mut events = Vec::new();
    client.receive(bytes, Nanos(now), |event, _| events.push(text(event)));
    events
}

fn poll(client: &mut Client, now: u64) -> Vec<String> {
    let mut events = Vec::new();
    client.poll(Nanos(now), |event, _| events.push(text(event)));
    events
}

fn text(event: Event<'_>) -> String {
    match event {
        Event::LoggedIn { session, next } => format!("in {session} {}", next.0),
        Event::Sequenced { sequence, message } => format!("{} {}", sequence.0, message.escape_ascii()),
        Event::Unsequenced(message) => format!("U {}", message.escape_ascii()),
        Event::Ended(end) => format!("end {end}"),
    }
}

/// Takes the output.
fn output(client: &mut Client) -> Vec<u8> {
    let bytes = client.output().to_vec();
    client.written(bytes.len());
    bytes
}

/// A client that is logged in, with its login written.
fn logged_in() -> Client {
    let mut client = client(1);
    client.connected(Nanos(0));
    output(&mut client);
    assert_eq!(receive(&mut client, &accepted("DAY", 1), 0), ["in DAY 1"]);
    client
}

#[test]
fn a_login_asks_for_the_whole_session_and_messages_are_counted_from_it() {
    let mut client = client(1);
    client.connected(Nanos(0));
    assert_eq!(output(&mut client), packet(b'L', format!("TRADER{:>20}{:>20}", "", 1).as_bytes()));
    assert_eq!(receive(&mut client, &accepted("DAY", 1), 0), ["in DAY 1"]);
    let bytes = [packet(b'S', b"one"), packet(b'S', b""), packet(b'U', b"two"), packet(b'S', b"three")].concat();
    assert_eq!(receive(&mut client, &bytes, 1), ["1 one", "2 ", "U two", "3 three"]);
    assert_eq!(client.next_sequence(), Sequence(4));
}

#[test]
fn a_reconnect_asks_for_the_session_and_the_next_message() {
    let mut client = logged_in();
    receive(&mut client, &packet(b'S', b"one"), 1);
    // Half a packet is lost with the connection, and comes again.
    receive(&mut client, b"\0\x04S", 2);
    client.send(b"lost", Nanos(3)).unwrap();
    client.disconnected();
    assert_eq!((client.state(), client.output()), (State::Disconnected, &b""[..]));
    client.connected(Nanos(4));
    assert_eq!(output(&mut client), packet(b'L', format!("TRADER{:>20}{:>20}", "DAY", 2).as_bytes()));
    let bytes = [accepted("DAY", 2), packet(b'S', b"two")].concat();
    assert_eq!(receive(&mut client, &bytes, 5), ["in DAY 2", "2 two"]);
}

#[test]
fn a_server_that_goes_on_elsewhere_is_not_followed() {
    let mut client = logged_in();
    client.connected(Nanos(1));
    assert_eq!(receive(&mut client, &accepted("DAY", 3), 1), ["end message 1 was asked for, 3 is offered"]);
    client.connected(Nanos(2));
    assert_eq!(receive(&mut client, &accepted("NEXT", 1), 2), ["end session DAY was asked for, NEXT is offered"]);
    client.forget_session();
    client.connected(Nanos(3));
    assert_eq!(receive(&mut client, &accepted("NEXT", 1), 3), ["in NEXT 1"]);
}

#[test]
fn whoever_wants_only_new_messages_begins_where_the_server_says() {
    let mut client = client(0);
    client.connected(Nanos(0));
    let bytes = [accepted("DAY", 77), packet(b'S', b"new"), packet(b'Z', b"")].concat();
    assert_eq!(receive(&mut client, &bytes, 0), ["in DAY 77", "77 new", "end end of session"]);
    assert_eq!((client.session(), client.next_sequence()), (SessionName::CURRENT, Sequence(0)));
}

#[test]
fn the_last_number_of_a_session_is_not_passed() {
    let mut client = client(u64::MAX);
    client.connected(Nanos(0));
    receive(&mut client, &accepted("DAY", u64::MAX), 0);
    assert_eq!(
        receive(&mut client, &packet(b'S', b"x"), 0),
        ["end malformed: more messages than a session has numbers"]
    );
}

#[test]
fn a_heartbeat_is_sent_after_a_second_without_sending() {
    let mut client = logged_in();
    assert_eq!(client.next_poll(), Some(Nanos(SECOND)));
    poll(&mut client, SECOND - 1);
    assert_eq!(output(&mut client), b"");
    poll(&mut client, SECOND);
    assert_eq!(output(&mut client), packet(b'R', b""));
    client.send(b"order", Nanos(SECOND + 500)).unwrap();
    assert_eq!(output(&mut client), packet(b'U', b"order"));
    poll(&mut client, 2 * SECOND);
    assert_eq!(output(&mut client), b"", "the order was heard");
    poll(&mut client, 2 * SECOND + 500);
    assert_eq!((output(&mut client), client.counters().heartbeats_sent), (packet(b'R', b""), 2));
}

#[test]
fn heartbeats_do_not_pile_up_while_nothing_is_written() {
    let mut client = logged_in();
    (1..14).for_each(|second| _ = poll(&mut client, second * SECOND));
    assert_eq!(client.output(), packet(b'R', b""));
    assert_eq!(client.next_poll(), Some(Nanos(15 * SECOND)));
}

#[test]
fn a_silent_server_is_given_up_and_any_byte_counts() {
    let mut client = logged_in();
    receive(&mut client, &packet(b'H', b"")[..1], 10 * SECOND);
    assert!(poll(&mut client, 25 * SECOND - 1).is_empty());
    assert_eq!(poll(&mut client, 25 * SECOND), ["end the server is silent"]);
    assert_eq!(client.state(), State::Ended(End::Silent));
    assert!(poll(&mut client, 26 * SECOND).is_empty(), "it is told once");
    assert_eq!((client.next_poll(), client.send(b"x", Nanos(0))), (None, Err(SendError::NotLoggedIn)));
}

#[test]
fn a_login_that_is_not_answered_ends_even_if_heartbeats_come() {
    let mut client = client(1);
    client.connected(Nanos(5));
    assert_eq!(client.next_poll(), Some(Nanos(5 + 30 * SECOND)));
    assert!(receive(&mut client, &packet(b'H', b""), 29 * SECOND).is_empty());
    assert!(poll(&mut client, 30 * SECOND).is_empty());
    assert_eq!(poll(&mut client, 30 * SECOND + 5), ["end the login is not answered"]);
}

#[test]
fn a_rejected_login_ends_with_its_reason() {
    for (letter, reason) in [(b'A', Rejection::NotAuthorized), (b'S', Rejection::SessionNotAvailable)] {
        let mut client = client(1);
        client.connected(Nanos(0));
        receive(&mut client, &packet(b'J', &[letter]), 0);
        assert_eq!(client.state(), State::Ended(End::Rejected(reason)));
    }
}

#[test]
fn a_logout_keeps_the_session_and_messages_still_come() {
    let mut client = logged_in();
    client.logout(Nanos(1)).unwrap();
    assert_eq!(output(&mut client), packet(b'O', b""));
    assert_eq!(
        (client.logout(Nanos(1)), client.send(b"x", Nanos(1))),
        (Err(SendError::NotLoggedIn), Err(SendError::NotLoggedIn))
    );
    assert_eq!(receive(&mut client, &packet(b'S', b"late"), 2), ["1 late"]);
    client.disconnected();
    assert_eq!((client.session().as_str(), client.next_sequence()), ("DAY", Sequence(2)));
}

#[test]
fn unknown_types_and_debug_text_are_ignored_and_counted() {
    let mut client = client(1);
    client.connected(Nanos(0));
    let bytes = [packet(b'+', b"hello"), packet(b'?', b""), accepted("DAY", 1), packet(b'L', b"x")].concat();
    assert_eq!(receive(&mut client, &bytes, 0), ["in DAY 1"]);
    assert_eq!(client.counters().ignored, 3);
}

#[test]
fn packets_at_the_wrong_time_and_garbage_end_the_connection() {
    for bytes in [packet(b'S', b"x"), packet(b'U', b"x"), packet(b'A', b"short"), packet(b'J', b""), vec![0, 0]] {
        let mut client = client(1);
        client.connected(Nanos(0));
        let events = receive(&mut client, &[bytes.clone(), accepted("DAY", 1)].concat(), 0);
        assert!(events.len() == 1 && events[0].starts_with("end malformed"), "{bytes:?}: {events:?}");
    }
    for bytes in [accepted("DAY", 1), packet(b'J', b"A"), vec![0, 0]] {
        let mut client = logged_in();
        let events = receive(&mut client, &[bytes.clone(), packet(b'S', b"x")].concat(), 0);
        assert!(events.len() == 1 && events[0].starts_with("end malformed"), "{bytes:?}: {events:?}");
    }
}

#[test]
fn a_packet_beyond_the_setting_is_refused_whole_or_in_pieces() {
    for piece in [1, 3, 200] {
        let settings = Settings::new(UserName::default(), Password::default());
        let mut client = Client::new(Settings { packet_bytes_max: 60, ..settings }).unwrap();
        client.connected(Nanos(0));
        let bytes = [accepted("DAY", 1), packet(b'S', &[b'x'; 57]), packet(b'S', &[b'x'; 58])].concat();
        let events: Vec<_> = bytes.chunks(piece).flat_map(|piece| receive(&mut client, piece, 0)).collect();
        assert_eq!(events.last().unwrap(), "end malformed: a packet of 59 bytes, more than this client takes");
        assert_eq!(events.len(), 3);
    }
}

#[test]
fn an_order_can_be_sent_from_within_an_event() {
    let mut client = logged_in();
    client.receive(&packet(b'S', b"fill"), Nanos(7), |event, out| {
        assert!(matches!(event, Event::Sequenced { .. }));
        out.send(b"hedge").unwrap();
    });
    assert_eq!(output(&mut client), packet(b'U', b"hedge"));
    assert_eq!(client.next_poll(), Some(Nanos(7 + SECOND)));
}

#[test]
fn bytes_without_a_connection_are_dropped() {
    let mut client = client(1);
    assert!(receive(&mut client, &accepted("DAY", 1), 0).is_empty());
    assert!(poll(&mut client, u64::MAX).is_empty());
    assert_eq!((client.next_poll(), client.state()), (None, State::Disconnected));
}

proptest! {
    #[test]
    fn events_do_not_depend_on_the_pieces(
        messages in prop::collection::vec((prop::sample::select(&b"SUH+?Z"[..]), prop::collection::vec(any::<u8>(), 0..20)), 0..20),
        pieces in prop::collection::vec(1_usize..30, 1..20),
    ) {
        let mut bytes = accepted("DAY", 1);
        messages.iter().for_each(|(kind, payload)| bytes.extend(packet(*kind, payload)));
        let fresh = || { let mut client = client(1); client.connected(Nanos(0)); client };
        let (mut whole, mut split) = (fresh(), fresh());
        let expected = receive(&mut whole, &bytes, 0);
        let (mut rest, mut seen) = (&bytes[..], Vec::new());
        for piece in pieces.iter().cycle() {
            let (front, behind) = rest.split_at(rest.len().min(*piece));
            seen.extend(receive(&mut split, front, 0));
            rest = behind;
            if rest.is_empty() { break }
        }
        prop_assert_eq!(expected, seen);
        prop_assert_eq!(whole.counters(), split.counters());
    }

    #[test]
    fn any_bytes_are_taken_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..400), is_logged_in: bool) {
        let mut client = if is_logged_in { logged_in() } else { client(1) };
        if !is_logged_in { client.connected(Nanos(0)) }
        receive(&mut client, &bytes, 0);
        poll(&mut client, SECOND);
    }
}
