use super::*;
use crate::exchange::{Day, DaySettings};
use crate::itch::{self, ANONYMOUS, Header, Shown, SystemEvent};
use crate::load::{LoadSettings, Profile};
use crate::matching::{Answer, Enter, Limits, TimeInForce};
use crate::naive::Naive;
use crate::service::Time;
use crate::units::{DAY_NS, Symbol};
use proptest::prelude::*;

const SYMBOL: Symbol = Symbol(*b"MSFT    ");
const CLIENT: u64 = 7;

fn settings() -> DaySettings {
    DaySettings {
        load: LoadSettings { seed: 5, symbols: 20, live_orders: 400 },
        profile: Profile::Steady,
        rate: 100_000,
        speed: 1,
        history: 200_000,
        limits: Limits { orders: 10_000, levels: 1_000 },
    }
}

const RECORDED: RecordingSettings = RecordingSettings { orders: 10_000, speed: 1, from_ns: None };

/// Polls a day every 50 us until its recording has ended, or a time.
fn run(day: &mut Day, until_ns: u64) -> u64 {
    let mut now_ns = 0;
    while now_ns < until_ns && !day.is_over() {
        now_ns += 50_000;
        day.poll(Time { mono_ns: now_ns, day_ns: (DAY_NS - 1_000_000_000 + now_ns) % DAY_NS });
    }
    now_ns
}

fn feed(day: &Day) -> Vec<Vec<u8>> {
    let history = &day.core.output.history;
    (1..history.next()).map(|sequence| history.message(sequence).unwrap().to_vec()).collect()
}

fn binary_file(messages: &[Vec<u8>]) -> Vec<u8> {
    let framed = |message: &Vec<u8>| [&(message.len() as u16).to_be_bytes()[..], message].concat();
    messages.iter().flat_map(framed).collect()
}

fn of(bytes: Vec<u8>, settings: &RecordingSettings) -> Recording {
    Recording::new(Box::new(std::io::Cursor::new(bytes)), settings)
}

fn replayed(messages: &[Vec<u8>]) -> Day {
    let mut day = Day::recorded(of(binary_file(messages), &RECORDED), &settings(), 0);
    run(&mut day, u64::MAX);
    day
}

fn without_time(messages: &[Vec<u8>]) -> Vec<Vec<u8>> {
    messages.iter().map(|message| [&message[..5], &message[11..]].concat()).collect()
}

fn skipped(day: &Day) -> Skipped {
    day.recording().unwrap().counters().skipped
}

#[test]
fn a_day_of_the_venue_gives_the_same_feed_and_books_when_it_is_replayed() {
    let mut first = Day::new(&settings(), 0);
    run(&mut first, 300_000_000);
    // Of the last second before midnight: recorded times do not pass it.
    let recorded = feed(&first);
    let mut day = replayed(&recorded);
    assert_eq!(without_time(&feed(&day)), without_time(&recorded));
    assert!(recorded.len() > 25_000 && recorded.iter().any(|message| message[0] == b'U'));
    assert_eq!((skipped(&day).total(), day.core.matching.live()), (0, first.core.matching.live()));
    let mut naive = Naive::default();
    recorded.iter().for_each(|message| naive.apply(message));
    (1..=20).for_each(|locate| naive.assert_equal(&day.core.matching, locate));
    day.close(Time { mono_ns: 0, day_ns: 0 });
    assert_eq!(feed(&day).last().unwrap()[11], SystemEvent::EndOfMessages.letter());
}

#[test]
fn the_recorded_times_are_kept_divided_by_the_speed() {
    let mut first = Day::new(&settings(), 0);
    run(&mut first, 300_000_000);
    let length = |speed| {
        let mut day =
            Day::recorded(of(binary_file(&feed(&first)), &RecordingSettings { speed, ..RECORDED }), &settings(), 0);
        run(&mut day, u64::MAX)
    };
    let (once, fourfold) = (length(1), length(4));
    assert!((299_000_000..301_000_000).contains(&once), "{once}");
    assert!((74_000_000..76_000_000).contains(&fourfold), "{fourfold}");
}

const HEADER: Header = Header { time_ns: 1, locate: 300 };

fn add(reference: u64, side: Side, shares: u32, price: u32) -> Vec<u8> {
    let shown = Shown { reference, side, shares, symbol: SYMBOL, price, attribution: ANONYMOUS };
    let mut message = Vec::new();
    itch::add(HEADER, &shown, |bytes| message = bytes.to_vec());
    message
}

fn level(day: &Day, side: Side) -> Option<(u32, u64, u64)> {
    day.core.matching.depth(1, side, 0)
}

#[test]
fn an_instrument_without_a_directory_is_listed_by_its_first_order() {
    let day = replayed(&[add(9, Side::Buy, 100, 100), itch::directory(HEADER, SYMBOL).to_vec()]);
    let kinds: Vec<u8> = feed(&day).iter().map(|message| message[0]).collect();
    assert_eq!((&kinds[..], day.core.locate(SYMBOL)), (&b"SSRHA"[..], Some(1)));
    assert_eq!(level(&day, Side::Buy), Some((100, 100, 0)));
}

#[test]
fn what_does_not_fit_is_counted_by_its_reason() {
    let large = itch::replaced(HEADER, 5, 6, 1_000_000, 200).to_vec();
    let day = replayed(&[
        add(1, Side::Buy, 100, 100),
        add(1, Side::Buy, 100, 90),
        add(2, Side::Sell, 100, 100),
        itch::executed(HEADER, 2, 50, 1).to_vec(),
        itch::deleted(HEADER, 77).to_vec(),
        add(3, Side::Sell, 0, 200),
        add(4, Side::Sell, 100, 1_000_050),
        add(5, Side::Sell, 100, 200),
        large,
    ]);
    let expected = Skipped { unknown: 2, known: 1, crossing: 1, refused: 3, ..Skipped::default() };
    assert_eq!(skipped(&day), expected);
    assert_eq!((level(&day, Side::Buy), level(&day, Side::Sell)), (Some((100, 100, 0)), None));
    assert_eq!(expected.to_string().matches(", ").count(), 4, "{expected}");
    assert_eq!(Skipped::default().to_string(), "");
}

#[test]
fn an_order_too_many_is_skipped() {
    let messages: Vec<Vec<u8>> = (1..=4).map(|reference| add(reference, Side::Buy, 1, 100)).collect();
    let few = RecordingSettings { orders: 3, ..RECORDED };
    let mut day = Day::recorded(of(binary_file(&messages), &few), &settings(), 0);
    run(&mut day, u64::MAX);
    assert_eq!((skipped(&day).full, day.core.matching.live()), (1, 3));
}

/// Replays messages, of which the second part comes after an order of a client.
fn with_client(before: &[Vec<u8>], order: (Side, u32, u32), after: &[Vec<u8>]) -> (Day, Vec<Answer>) {
    let late = |message: &Vec<u8>| {
        let mut message = message.clone();
        message[5..11].copy_from_slice(&10_000_000_u64.to_be_bytes()[2..]);
        message
    };
    let messages: Vec<Vec<u8>> = before.iter().cloned().chain(after.iter().map(late)).collect();
    let mut day = Day::recorded(of(binary_file(&messages), &RECORDED), &settings(), 0);
    run(&mut day, 5_000_000);
    let (side, shares, price) = order;
    let (time_in_force, attribution) = (TimeInForce::Day, ANONYMOUS);
    let order = Enter { owner: CLIENT, locate: 1, side, shares, price, time_in_force, is_displayed: true, attribution };
    day.core.enter(0, &order).unwrap();
    run(&mut day, u64::MAX);
    let mut answers = Vec::new();
    day.core.take_answers_of(|owner| owner == CLIENT, &mut answers);
    (day, answers.into_iter().map(|(_, answer)| answer).collect())
}

fn filled(answers: &[Answer]) -> u32 {
    let shares = |answer: &Answer| if let Answer::Executed(execution) = answer { execution.shares } else { 0 };
    answers.iter().map(shares).sum()
}

#[test]
fn a_client_with_a_better_price_is_filled_instead_of_the_recorded_order() {
    let executed = itch::executed(HEADER, 1, 60, 1).to_vec();
    let (day, answers) = with_client(&[add(1, Side::Buy, 100, 100)], (Side::Buy, 50, 101), &[executed]);
    assert_eq!(filled(&answers), 50);
    // 10 were taken of the recorded order, and 50 cancelled, as it has 40 left.
    assert_eq!((level(&day, Side::Buy), skipped(&day).total()), (Some((100, 40, 0)), 0));
}

#[test]
fn of_an_order_that_clients_have_taken_nothing_is_left_to_trade() {
    let (executed, deleted) = (itch::executed(HEADER, 1, 100, 1).to_vec(), itch::deleted(HEADER, 1).to_vec());
    let before = [add(1, Side::Sell, 100, 100), add(2, Side::Sell, 100, 100)];
    let (day, answers) = with_client(&before, (Side::Buy, 100, 100), &[executed]);
    assert_eq!((filled(&answers), skipped(&day)), (100, Skipped { taken: 1, ..Skipped::default() }));
    assert_eq!(level(&day, Side::Sell), Some((100, 100, 0)), "the second order");
    let (day, _) = with_client(&before, (Side::Buy, 130, 100), &[deleted]);
    assert_eq!((level(&day, Side::Sell), skipped(&day).total()), (Some((100, 70, 0)), 0));
}

#[test]
fn a_recorded_order_trades_with_a_client_and_a_replaced_one_comes_back() {
    let (day, answers) =
        with_client(&[add(9, Side::Buy, 1, 50)], (Side::Buy, 30, 100), &[add(1, Side::Sell, 100, 100)]);
    assert_eq!((filled(&answers), level(&day, Side::Sell)), (30, Some((100, 70, 0))));
    let replaced = itch::replaced(HEADER, 1, 2, 80, 110).to_vec();
    let (day, _) = with_client(&[add(1, Side::Sell, 100, 100)], (Side::Buy, 100, 100), &[replaced]);
    assert_eq!((level(&day, Side::Sell), skipped(&day).total()), (Some((110, 80, 0)), 0));
}

#[test]
fn a_recording_that_is_cut_off_tells_where_and_what_was_before_is_done() {
    let mut bytes = binary_file(&[add(1, Side::Buy, 100, 100), add(2, Side::Buy, 100, 100)]);
    bytes.pop();
    let mut day = Day::recorded(of(bytes, &RECORDED), &settings(), 0);
    run(&mut day, u64::MAX);
    assert_eq!(day.recording().unwrap().fault().unwrap().to_string(), "it ends within a message, at byte 38");
    assert_eq!(day.core.matching.live(), 1);
    let text = of(b"\0\x03ABC\0\x03#!/".to_vec(), &RECORDED).check().unwrap_err();
    assert!(matches!(text.kind, FaultKind::Short { kind: b'A', length: 3, needs: 36 }));
    let text = of(b"\0\x03#!/".to_vec(), &RECORDED).check().unwrap_err().to_string();
    assert_eq!(text, "its first message is none of ITCH 5.0, at byte 0");
}

#[test]
fn an_empty_recording_is_over_at_once() {
    let mut day = Day::recorded(of(Vec::new(), &RECORDED), &settings(), 0);
    run(&mut day, u64::MAX);
    assert!(day.is_over() && !day.is_trading() && day.recording().unwrap().fault().is_none());
    assert_eq!(day.core.output.history.next(), 3, "the two events of the beginning");
}

/// Messages about few orders of few prices: most of them do not fit.
fn muddle() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let one = (0..5_u8, 0..6_u64, 0..6_u64, 0..300_u32, 1..6_u32, any::<bool>()).prop_map(
        |(kind, a, b, shares, price, buys)| {
            let side = if buys { Side::Buy } else { Side::Sell };
            match kind {
                0 => add(a, side, shares, price),
                1 => itch::executed(HEADER, a, shares, 1).to_vec(),
                2 => itch::cancelled(HEADER, a, shares).to_vec(),
                3 => itch::deleted(HEADER, a).to_vec(),
                _ => itch::replaced(HEADER, a, b, shares, price).to_vec(),
            }
        },
    );
    proptest::collection::vec(one, 1..80)
}

proptest! {
    #[test]
    fn any_recording_gives_a_feed_that_builds_the_books(messages in muddle()) {
        let day = replayed(&messages);
        let mut naive = Naive::default();
        feed(&day).iter().for_each(|message| naive.apply(message));
        naive.assert_equal(&day.core.matching, 1);
        let recording = day.recording().unwrap();
        prop_assert_eq!(recording.counters().messages, messages.len() as u64);
        prop_assert!(recording.orders.len() <= 6);
        // No order has more shares than the recorded one, and none stays that the recording does not have.
        prop_assert!(day.core.matching.live() <= recording.orders.len());
        for live in recording.orders.values() {
            prop_assert!(day.core.matching.order(live.handle).is_none_or(|order| order.shares <= live.shares));
        }
    }
}
