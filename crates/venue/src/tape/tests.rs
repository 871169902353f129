use super::*;
use crate::load::{LoadSettings, Profile};
use crate::naive::Naive;
use crate::units::TICK;

fn settings() -> TapeSettings {
    let load = LoadSettings { seed: 9, symbols: 40, live_orders: 1_000 };
    TapeSettings { load, messages: 60_000, messages_per_packet: 7, trigger_every: Some(100), ..TapeSettings::default() }
}

/// The trigger rule, applied to books that are built from the feed: sequence numbers, and adds that improved the best
/// offer without being triggers.
fn by_rule(tape: &Tape) -> (Vec<u64>, usize) {
    let (mut naive, mut found, mut decoys) = (Naive::default(), Vec::new(), 0);
    for (sequence, message) in tape.messages() {
        let locate = u16::from_be_bytes([message[1], message[2]]);
        let before = naive.best(locate, Side::Sell);
        naive.apply(message);
        if !matches!(message[0], b'A' | b'F') || message[19] != b'S' || sequence < tape.datagrams[tape.prologue].first {
            continue;
        }
        let price = u32::from_be_bytes(message[32..36].try_into().unwrap());
        let improves = before.is_some_and(|before| price < before);
        match naive.best(locate, Side::Buy) {
            Some(bid) if improves && price <= bid + TICK => found.push(sequence),
            _ => decoys += usize::from(improves),
        }
    }
    (found, decoys)
}

#[test]
fn the_rule_finds_exactly_the_triggers() {
    let tape = Tape::generate(&settings());
    let (found, decoys) = by_rule(&tape);
    let told: Vec<u64> = tape.triggers.iter().map(|trigger| trigger.sequence).collect();
    println!("{} triggers, {decoys} other adds that improved the best offer", told.len());
    assert_eq!(found, told);
    assert!((580..=600).contains(&told.len()) && decoys > 400);
}

#[test]
fn a_trigger_tells_the_answer_and_its_place() {
    let tape = Tape::generate(&settings());
    for (index, trigger) in tape.triggers.iter().enumerate() {
        let datagram = &tape.datagrams[trigger.datagram];
        assert_eq!(datagram.trigger, Some(index as u32));
        assert!((datagram.first..datagram.first + u64::from(datagram.count)).contains(&trigger.sequence));
        let message = &datagram.bytes(&tape.bytes)[trigger.end - 36..trigger.end];
        assert_eq!((message[0], message[19], trigger.side), (b'A', b'S', Side::Buy));
        assert_eq!(message[1..3], trigger.locate.to_be_bytes());
        assert_eq!(message[11..19], trigger.reference.to_be_bytes());
        assert_eq!(message[20..24], trigger.shares.to_be_bytes());
        assert_eq!(message[24..32], trigger.symbol.0);
        assert_eq!(message[32..36], trigger.price.to_be_bytes());
    }
}

#[test]
fn triggers_stand_where_they_were_asked_for() {
    for (at, expected) in [(TriggerAt::First, 0), (TriggerAt::Last, 6)] {
        let tape = Tape::generate(&TapeSettings { trigger_at: at, ..settings() });
        let place = |trigger: &Trigger| trigger.sequence - tape.datagrams[trigger.datagram].first;
        assert!(tape.triggers.len() > 500 && tape.triggers.iter().all(|trigger| place(trigger) == expected));
    }
    let tape = Tape::generate(&settings());
    let mut places = [0; 7];
    for trigger in &tape.triggers {
        places[(trigger.sequence - tape.datagrams[trigger.datagram].first) as usize] += 1;
    }
    assert!(places.iter().all(|count| *count > 40), "{places:?}");
}

#[test]
fn sequence_numbers_have_no_gap_and_due_times_do_not_fall() {
    let tape = Tape::generate(&settings());
    let mut next = 1;
    for pair in tape.datagrams.windows(2) {
        assert!(pair[0].due_ns <= pair[1].due_ns);
    }
    for datagram in &tape.datagrams {
        assert_eq!(datagram.first, next);
        let bytes = datagram.bytes(&tape.bytes);
        assert_eq!((bytes.len(), &bytes[..10]), (usize::from(datagram.length), &tape.session[..]));
        assert!(bytes.len() <= mold::PAYLOAD_MAX);
        next += u64::from(datagram.count);
    }
    assert_eq!((next, tape.messages().count() as u64), (tape.messages + 1, tape.messages));
    assert!(tape.datagrams[..tape.prologue].iter().all(|datagram| datagram.due_ns == 0));
    let (first, last) = (&tape.datagrams[tape.prologue], tape.datagrams.last().unwrap());
    assert!(first.due_ns > 0 && (580_000_000..620_000_000).contains(&last.due_ns), "{}", last.due_ns);
}

#[test]
fn another_line_has_the_same_messages_in_other_datagrams() {
    let tape = Tape::generate(&settings());
    let other = tape.recut(3);
    assert!(tape.messages().eq(other.messages()));
    assert_ne!(tape.datagrams.len(), other.datagrams.len());
    assert_eq!(by_rule(&other).0, other.triggers.iter().map(|trigger| trigger.sequence).collect::<Vec<_>>());
    assert_eq!(other.datagrams[other.prologue].first, tape.datagrams[tape.prologue].first);
    for (ours, theirs) in tape.triggers.iter().zip(&other.triggers) {
        let message = |tape: &Tape, trigger: &Trigger| {
            tape.datagrams[trigger.datagram].bytes(&tape.bytes)[trigger.end - 36..trigger.end].to_vec()
        };
        assert_eq!(message(&tape, ours), message(&other, theirs));
    }
}

#[test]
fn equal_settings_give_equal_tapes() {
    assert_eq!(Tape::generate(&settings()), Tape::generate(&settings()));
}

#[test]
fn a_tape_of_nothing_and_the_fullest_datagrams_are_made() {
    let nothing = Tape::generate(&TapeSettings { messages: 0, ..settings() });
    assert_eq!((nothing.prologue, nothing.recut(1).prologue as u64), (nothing.datagrams.len(), nothing.messages));
    let profile = Profile::Open { burst_ns: 100_000_000 };
    let full =
        Tape::generate(&TapeSettings { messages_per_packet: u16::MAX, profile, trigger_every: None, ..settings() });
    assert!(full.datagrams.iter().all(|datagram| datagram.count <= MESSAGES_PER_PACKET_MAX));
    assert!(full.triggers.is_empty());
}
