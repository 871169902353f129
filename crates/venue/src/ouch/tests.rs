use super::message::tests::enter;
use super::*;
use crate::core::Core;
use crate::matching::{self, Limits, Matching};
use crate::random::Random;
use crate::service::{Service, Time};
use crate::soup::{End, SILENCE_MAX_NS};
use crate::units::Symbol;
use proptest::prelude::*;

const SESSION: [u8; 10] = *b"VENUE00001";
const NOW: Time = Time { mono_ns: 5, day_ns: 9 };

fn core() -> Core {
    let symbols = [&b"CVLT"[..], b"MSFT"].map(|text| Symbol::from_text(text).unwrap());
    Core::new(Matching::new(symbols, Limits { orders: 10_000, levels: 100 }), 10_000)
}

/// The server, a venue, and whatever clients have read of their connections.
struct Lab {
    ouch: Ouch,
    core: Core,
}

impl Lab {
    fn new(settings: OuchSettings) -> Self {
        Self { ouch: Ouch::new(SESSION, settings), core: core() }
    }

    fn connect(&mut self) -> usize {
        self.ouch.accept(NOW).unwrap()
    }

    fn log_in(&mut self, user: &str, sequence: u64) -> usize {
        let connection = self.connect();
        let login = format!("\0\x2fL{user:<6}{:<10}{:>10}{sequence:>20}", "SECRET", "");
        self.ouch.receive(NOW, connection, login.as_bytes(), &mut self.core);
        connection
    }

    fn ask(&mut self, connection: usize, message: &[u8]) {
        let packet = [&(message.len() as u16 + 1).to_be_bytes()[..], b"U", message].concat();
        self.ouch.receive(NOW, connection, &packet, &mut self.core);
    }

    /// What comes on a connection: packets of one type, without it.
    fn read(&mut self, connection: usize, kind: u8) -> Vec<Vec<u8>> {
        let mut bytes = Vec::new();
        while let waiting @ [_, ..] = self.ouch.output(connection) {
            bytes.extend_from_slice(waiting);
            let count = waiting.len();
            self.ouch.sent(NOW, connection, count);
        }
        let (mut rest, mut found) = (&bytes[..], Vec::new());
        while let Some((length, behind)) = rest.split_first_chunk::<2>() {
            let (packet, behind) = behind.split_at(usize::from(u16::from_be_bytes(*length)));
            found.extend((packet[0] == kind).then(|| packet[1..].to_vec()));
            rest = behind;
        }
        found
    }

    /// The types of the answers that come.
    fn kinds(&mut self, connection: usize) -> String {
        self.read(connection, b'S').iter().map(|answer| answer[0] as char).collect()
    }
}

fn order(user_ref: u32, side: u8, quantity: u32, price: u64) -> Vec<u8> {
    let mut message = enter();
    message[1..5].copy_from_slice(&user_ref.to_be_bytes());
    message[5] = side;
    message[6..10].copy_from_slice(&quantity.to_be_bytes());
    message[18..26].copy_from_slice(&price.to_be_bytes());
    message
}

fn replace(old: u32, new: u32, quantity: u32, price: u64) -> Vec<u8> {
    let numbers = [old.to_be_bytes(), new.to_be_bytes(), quantity.to_be_bytes()].concat();
    [b"U", &numbers[..], &price.to_be_bytes(), b"0YNREPLACEMENT   \0\0"].concat()
}

fn cancel(kind: u8, user_ref: u32, side: &[u8], quantity: u32) -> Vec<u8> {
    [&[kind][..], &user_ref.to_be_bytes(), side, &quantity.to_be_bytes()].concat()
}

#[test]
fn an_order_lives_from_acceptance_to_the_last_share() {
    let mut lab = Lab::new(OuchSettings::default());
    let (seller, buyer) = (lab.log_in("SELLER", 0), lab.log_in("BUYER", 0));
    lab.ask(seller, &order(1, b'T', 300, 630_200));
    let accepted = lab.read(seller, b'S');
    assert_eq!(accepted.len(), 1, "the start of the day was before the login");
    let published = lab.core.output.history.message(1).unwrap();
    assert_eq!((published[0], &accepted[0][36..44]), (b'A', &published[11..19]), "one reference in both");
    lab.ask(buyer, &order(1, b'B', 100, 640_000));
    assert_eq!((lab.kinds(buyer), lab.kinds(seller)), ("AE".into(), "E".into()));
    lab.ask(seller, &replace(1, 2, 250, 630_100));
    let replaced = lab.read(seller, b'S');
    assert_eq!((replaced[0][0], &replaced[0][18..22]), (b'U', &150_u32.to_be_bytes()[..]));
    lab.ask(seller, &cancel(b'M', 2, b"S", 200));
    lab.ask(seller, &cancel(b'M', 2, b"T", 220));
    lab.ask(seller, &cancel(b'X', 2, b"", 150));
    lab.ask(seller, &cancel(b'X', 2, b"", 0));
    lab.ask(seller, &cancel(b'X', 2, b"", 0));
    let answers = lab.read(seller, b'S');
    let told: Vec<(char, u32)> = answers
        .iter()
        .map(|answer| {
            let at = if answer[0] == b'M' { 14 } else { 13 };
            (answer[0] as char, u32::from_be_bytes(answer[at..at + 4].try_into().unwrap()))
        })
        .collect();
    // 100 shares of the chain are executed: what M tells is outstanding, so that the cancels are of as many.
    let right = [('M', 100), ('M', 100), ('C', 50), ('C', 50)];
    assert_eq!(told, right, "and none for the order that is gone");
    assert_eq!((lab.ouch.live(), lab.core.matching.live()), (0, 0));
    lab.ask(seller, b"Q");
    assert_eq!(lab.read(seller, b'S')[0][9..13], 3_u32.to_be_bytes());
}

#[test]
fn what_others_took_counts_before_the_next_request() {
    let mut lab = Lab::new(OuchSettings::default());
    let client = lab.log_in("CLIENT", 0);
    lab.ask(client, &order(1, b'S', 300, 630_200));
    let taker = matching::Enter {
        owner: crate::load::LOAD_OWNER,
        locate: 1,
        side: crate::units::Side::Buy,
        shares: 100,
        price: 630_200,
        time_in_force: matching::TimeInForce::Immediate,
        is_displayed: true,
        attribution: crate::itch::ANONYMOUS,
    };
    // The answer waits in the core when the replacement comes.
    lab.core.enter(0, &taker).unwrap();
    lab.ask(client, &replace(1, 2, 300, 630_300));
    let answers = lab.read(client, b'S');
    assert_eq!(answers.iter().map(|answer| answer[0]).collect::<Vec<_>>(), b"AEU");
    assert_eq!(answers[2][18..22], 200_u32.to_be_bytes());
    assert_eq!(lab.core.matching.depth(1, crate::units::Side::Sell, 0), Some((630_300, 200, 0)));
}

#[test]
fn a_number_that_was_used_is_ignored_without_an_answer() {
    let mut lab = Lab::new(OuchSettings::default());
    let client = lab.log_in("CLIENT", 0);
    lab.ask(client, &order(5, b'B', 100, 630_200));
    lab.ask(client, &order(5, b'B', 100, 630_200));
    lab.ask(client, &order(4, b'B', 100, 630_200));
    lab.ask(client, &replace(5, 5, 50, 630_200));
    assert_eq!((lab.kinds(client), lab.core.matching.live()), ("A".into(), 1));
}

#[test]
fn what_is_not_taken_is_rejected_with_its_reason() {
    let mut lab = Lab::new(OuchSettings::default());
    let client = lab.log_in("CLIENT", 0);
    let change = |at: usize, value: &[u8], user_ref| {
        let mut message = order(user_ref, b'B', 100, 630_200);
        message[at..at + value.len()].copy_from_slice(value);
        message
    };
    let cases: [(usize, &[u8], u16); 9] = [
        (5, b"Q", 0x09),
        (6, &[0; 4], 0x13),
        (10, b"NONE    ", 0x17),
        (18, &[0xff; 8], 0x1d),
        (18, &1_999_999_901_u64.to_be_bytes(), 0x1d),
        (26, b"6", 0x0f),
        (27, b"Z", 0x03),
        (30, b"O", 0x14),
        (47, b"\x05\x03\0\0\0\x01", 0x0d),
    ];
    for (number, (at, value, reason)) in (1..).zip(cases) {
        lab.ask(client, &change(at, value, number));
        let answers = lab.read(client, b'S');
        let found = answers.iter().map(|answer| (answer[0], u16::from_be_bytes([answer[13], answer[14]])));
        assert_eq!(found.collect::<Vec<_>>(), [(b'J', reason)], "{at}");
    }
    lab.ask(client, &replace(77, 78, 100, 630_200));
    assert_eq!(lab.kinds(client), "J");
    assert_eq!((lab.core.matching.live(), lab.ouch.live()), (0, 0));
}

#[test]
fn a_client_that_comes_back_gets_what_it_missed_once() {
    let mut lab = Lab::new(OuchSettings::default());
    let (maker, taker) = (lab.log_in("MAKER", 0), lab.log_in("TAKER", 0));
    lab.ask(maker, &order(1, b'S', 100, 630_200));
    assert_eq!(lab.kinds(maker), "A");
    // Killed: what it had in flight may have come or not, and nobody reads any more.
    lab.ask(maker, &order(2, b'S', 100, 630_300));
    lab.ouch.close(NOW, maker, &mut lab.core);
    lab.ask(taker, &order(1, b'B', 150, 640_000));
    let maker = lab.log_in("MAKER", 3);
    lab.ask(maker, &order(2, b'S', 100, 630_300));
    let answers = lab.read(maker, b'S');
    let told: Vec<(char, u32)> = answers
        .iter()
        .map(|answer| (answer[0] as char, u32::from_be_bytes(answer[9..13].try_into().unwrap())))
        .collect();
    assert_eq!(told, [('A', 2), ('E', 1), ('E', 2)]);
}

#[test]
fn the_last_login_of_a_user_counts_and_others_are_refused() {
    let password = Some(*b"SECRET    ");
    let mut lab = Lab::new(OuchSettings { password, ..OuchSettings::default() });
    let first = lab.log_in("CLIENT", 1);
    let second = lab.log_in("CLIENT", 1);
    assert_eq!((lab.ouch.poll(NOW, first), lab.ouch.poll(NOW, second)), (Some(End::Replaced), None));
    assert_eq!(lab.read(second, b'A'), [b"VENUE00001                   1"]);
    lab.ouch.close(NOW, first, &mut lab.core);
    lab.ask(second, b"Q");
    assert_eq!(lab.kinds(second), "Q", "the first read has taken the start of the day");
    let ahead = lab.log_in("CLIENT", 9);
    assert_eq!((lab.read(ahead, b'J'), lab.ouch.poll(NOW, ahead)), (vec![b"S".to_vec()], Some(End::Refused)));
    let nobody = lab.log_in(" ", 1);
    assert_eq!(lab.read(nobody, b'J'), [b"A"]);
    let stranger = lab.connect();
    let login = format!("\0\x2fLCLIENTGUESSED   {:>10}{:>20}", "", 1);
    lab.ouch.receive(NOW, stranger, login.as_bytes(), &mut lab.core);
    assert_eq!(lab.read(stranger, b'J'), [b"A"]);
}

#[test]
fn orders_are_cancelled_with_the_connection_if_so_chosen() {
    for cancel_on_disconnect in [false, true] {
        let mut lab = Lab::new(OuchSettings { cancel_on_disconnect, ..OuchSettings::default() });
        let client = lab.log_in("CLIENT", 0);
        lab.ask(client, &order(1, b'S', 100, 630_200));
        lab.ouch.close(NOW, client, &mut lab.core);
        assert_eq!(lab.core.matching.live(), usize::from(!cancel_on_disconnect));
        let client = lab.log_in("CLIENT", 1);
        assert_eq!(lab.kinds(client), if cancel_on_disconnect { "SAC" } else { "SA" });
    }
}

#[test]
fn connections_users_and_slow_readers_are_bounded() {
    let mut lab = Lab::new(OuchSettings::default());
    let slow = lab.log_in("SLOW", 0);
    for number in 0..KEPT_MAX as u32 - 10 {
        lab.ask(slow, &order(number + 1, b'B', 0, 1));
    }
    lab.ouch.output(slow);
    assert_eq!(lab.ouch.poll(NOW, slow), None, "it has room for what is kept");
    for number in 0..KEPT_MAX as u32 {
        lab.ask(slow, &order(number + 100_000, b'B', 0, 1));
    }
    lab.ouch.output(slow);
    assert_eq!((lab.ouch.poll(NOW, slow), lab.ouch.counters().slow), (Some(End::Slow), 1));
    lab.ouch.close(NOW, slow, &mut lab.core);
    for user in 0..USERS_MAX + 10 {
        let connection = lab.log_in(&format!("U{user}"), 0);
        assert_eq!(lab.ouch.poll(NOW, connection).is_some(), user >= USERS_MAX - 1);
    }
    let more = (0..CONNECTIONS_MAX).filter(|_| lab.ouch.accept(NOW).is_some()).count();
    assert_eq!(more, CONNECTIONS_MAX - USERS_MAX - 10);
    assert_eq!(lab.ouch.counters().turned_away, USERS_MAX as u64 + 10);
}

#[test]
fn users_without_number_leave_room_in_the_books() {
    let mut lab = Lab::new(OuchSettings::default());
    let symbols = [&b"CVLT"[..]].map(|text| Symbol::from_text(text).unwrap());
    lab.core = Core::new(Matching::new(symbols, Limits { orders: 2 * LIVE_ALL_MAX, levels: 100 }), 10);
    for user in 0..LIVE_ALL_MAX.div_ceil(LIVE_MAX) + 1 {
        let connection = lab.log_in(&format!("U{user}"), 0);
        (1..=LIVE_MAX as u32 + 5).for_each(|number| lab.ask(connection, &order(number, b'B', 100, 10_000)));
    }
    assert_eq!((lab.ouch.live(), lab.core.matching.live()), (LIVE_ALL_MAX, LIVE_ALL_MAX));
    let connection = lab.log_in("U0", 0);
    lab.ask(connection, &cancel(b'X', 1, b"", 0));
    assert_eq!(lab.ouch.live(), LIVE_ALL_MAX - 1);
    lab.ask(connection, &order(30_000, b'B', 100, 10_000));
    assert_eq!(lab.ouch.live(), LIVE_ALL_MAX, "there is room again");
}

#[test]
fn users_without_number_share_what_is_kept() {
    let mut lab = Lab::new(OuchSettings::default());
    let first = lab.log_in("FIRST", 0);
    (1..=KEPT_MAX as u32).for_each(|number| lab.ask(first, &order(number, b'B', 0, 1)));
    lab.ouch.close(NOW, first, &mut lab.core);
    for user in 1..USERS_MAX {
        let connection = lab.log_in(&format!("U{user}"), 0);
        lab.ouch.close(NOW, connection, &mut lab.core);
    }
    let resumed = |lab: &mut Lab, sequence| {
        let connection = lab.log_in("FIRST", sequence);
        lab.ouch.poll(NOW, connection).is_none()
    };
    let share = (KEPT_ALL_MAX / USERS_MAX) as u64;
    let next = 2 + KEPT_MAX as u64;
    assert!(!resumed(&mut lab, next - share - 1), "older answers are gone");
    assert!(resumed(&mut lab, next - share));
}

#[test]
fn the_end_of_the_session_is_told_behind_all_answers() {
    let mut lab = Lab::new(OuchSettings::default());
    let client = lab.log_in("CLIENT", 0);
    lab.ask(client, &order(1, b'S', 100, 630_200));
    lab.ouch.end(NOW);
    let bytes = lab.ouch.output(client).to_vec();
    assert!(bytes.ends_with(b"E\0\x01Z"), "{bytes:?}");
    assert_eq!(lab.ouch.poll(NOW, client), Some(End::EndOfSession));
    let late = lab.log_in("CLIENT", 0);
    assert_eq!(lab.read(late, b'J'), [b"A"]);
}

#[test]
fn clients_without_a_word_are_closed_and_give_way() {
    let mut lab = Lab::new(OuchSettings::default());
    let client = lab.log_in("CLIENT", 0);
    let late = Time { mono_ns: NOW.mono_ns + SILENCE_MAX_NS + 1, ..NOW };
    assert_eq!(lab.ouch.poll(late, client), Some(End::Silent));
    lab.ouch.close(late, client, &mut lab.core);
    assert_eq!(lab.connect(), client, "its place is used again");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Many clients trade with each other, lose their connections and come back. Each one that applies what it got knows
    /// what the venue knows.
    #[test]
    fn clients_that_read_all_know_their_shares(seed: u64) {
        let mut lab = Lab::new(OuchSettings::default());
        let mut random = Random::new(seed);
        let names: Vec<String> = (0..4).map(|number| format!("C{number}")).collect();
        let mut connections: Vec<usize> = names.iter().map(|name| lab.log_in(name, 1)).collect();
        let mut logs: Vec<Vec<Vec<u8>>> = vec![Vec::new(); 4];
        let mut next_ref = [1_u32; 4];
        for _ in 0..300 {
            let who = random.index(4);
            let number = next_ref[who];
            let known = 1 + random.below(u64::from(number)) as u32;
            let side = if random.one_in(2) { b'B' } else { b'S' };
            let (quantity, price) = (1 + random.below(200) as u32, (500 + random.below(10)) * 100);
            match random.below(12) {
                0..6 => lab.ask(connections[who], &order(number, side, quantity, price)),
                6..8 => lab.ask(connections[who], &replace(known, number, quantity, price)),
                8 => lab.ask(connections[who], &cancel(b'X', known, b"", quantity / 2)),
                9 => lab.ask(connections[who], &cancel(b'M', known, &[side], quantity)),
                10 => { let got = lab.read(connections[who], b'S'); logs[who].extend(got) }
                _ => {
                    lab.ouch.close(NOW, connections[who], &mut lab.core);
                    connections[who] = lab.log_in(&names[who], logs[who].len() as u64 + 1);
                }
            }
            next_ref[who] += 1;
        }
        let mut left = 0_u64;
        for who in 0..4 {
            let got = lab.read(connections[who], b'S');
            logs[who].extend(got);
            left += shares_left(&logs[who]);
        }
        let matching = &lab.core.matching;
        let sides = [crate::units::Side::Buy, crate::units::Side::Sell];
        let live: u64 = sides.into_iter().flat_map(|side| (0..).map_while(move |place| matching.depth(1, side, place))).map(|(_, shown, _)| shown).sum();
        prop_assert_eq!(left, live);
        prop_assert_eq!(lab.ouch.live(), matching.live());
    }

    #[test]
    fn no_bytes_of_a_client_panic(chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..200), 0..20)) {
        let mut lab = Lab::new(OuchSettings::default());
        let client = lab.log_in("CLIENT", 0);
        for chunk in chunks {
            lab.ask(client, &chunk);
            lab.ouch.receive(NOW, client, &chunk, &mut lab.core);
            lab.ouch.output(client);
        }
    }
}

/// Shares that live orders have, by the answers alone: each tells what is outstanding, or by how much that shrinks.
fn shares_left(log: &[Vec<u8>]) -> u64 {
    let number = |answer: &[u8], at: usize| u32::from_be_bytes(answer[at..at + 4].try_into().unwrap());
    let mut orders = std::collections::HashMap::<u32, u32>::new();
    for answer in log {
        match answer[0] {
            b'A' => drop(orders.insert(number(answer, 9), number(answer, 14))),
            b'U' => {
                orders.remove(&number(answer, 9)).unwrap();
                orders.insert(number(answer, 13), number(answer, 18));
            }
            b'E' | b'C' => *orders.get_mut(&number(answer, 9)).unwrap() -= number(answer, 13),
            b'M' => *orders.get_mut(&number(answer, 9)).unwrap() = number(answer, 14),
            _ => {}
        }
    }
    orders.into_values().map(u64::from).sum()
}
