//! Publisher and subscribers together, against the whole history.

use super::*;
use crate::event::{Event, Events, Flags, Kind, Origin};
use crate::itch::Message;
use crate::units::{Alpha, LineId, Locate, Nanos, Price, Sequence, Symbol};
use sidestep_ring::seqlock::{self, Array, Reader};
use sidestep_ring::{Cell, Loss, Options, Segment, Waking, broadcast};
use std::sync::atomic::{AtomicBool, Ordering};

const RECORDS: u32 = 9;
const CHANNEL: Channel = Channel {
    state: State::Unknown,
    decimals: 4,
    date: 20_261_129,
    sequence: Sequence(0),
    time_ns: 0,
    session: Alpha(*b"SESSION  1"),
};

/// A publisher, and what its subscribers read.
fn feed(ring_bytes: usize) -> (Publisher, broadcast::Subscriber, Reader<RECORD_WORDS>, Directory) {
    let (events, subscriber) = broadcast::pair(ring_bytes, Waking::Never).unwrap();
    let (tops, reader) = seqlock::pair(RECORDS).unwrap();
    let (instruments, directory) = seqlock::pair(RECORDS).unwrap();
    let publisher = Publisher::new(events, tops, instruments, CHANNEL).unwrap();
    (publisher, subscriber, reader, Directory::new(directory))
}

fn origin(sequence: u64) -> Origin {
    let (sequence, time_ns, arrived) = (Sequence(sequence), sequence * 10, Nanos(sequence * 11));
    Origin { sequence, time_ns, arrived, line: LineId(0), flags: Flags::NONE }
}

fn level(price: i64) -> Option<Level> {
    Some(Level { price: Price(price), quantity: price.unsigned_abs() + 1, orders: 3 })
}

fn change(locate: u16, bid: Option<Level>, offer: Option<Level>) -> Change {
    Change { locate: Locate(locate), bid, offer, state: State::Live }
}

/// The events of an order replace of this instrument.
fn replace(from: &Origin, locate: u8) -> Events {
    let mut bytes = [0; 35];
    (bytes[0], bytes[2]) = (b'U', locate);
    from.itch(&Message::parse(&bytes).unwrap())
}

fn all(subscriber: &mut Subscriber) -> Vec<Update> {
    std::iter::from_fn(|| subscriber.try_next().unwrap()).collect()
}

#[test]
fn one_message_is_its_events_then_what_it_changed_and_the_last_is_marked() {
    let (mut publisher, events, tops, _) = feed(4096);
    let mut early = Subscriber::new(events, tops, Interest::all());
    let channel = Channel { state: State::Stale, ..CHANNEL };
    let [Update::Synchronised(first), Update::Reset(reset), Update::Synchronised(_)] = all(&mut early)[..] else {
        panic!()
    };
    assert_eq!((first, reset.kind, reset.flags), (channel, Kind::Reset, Flags::STALE | Flags::LAST));
    publisher.channel(&origin(5), State::Live).unwrap();
    let from = origin(6);
    publisher.message(&from, &replace(&from, 3), Some(&change(3, level(100), level(-7)))).unwrap();
    publisher.message(&from, &Events::default(), Some(&change(3, level(100), level(-7)))).unwrap();
    publisher.message(&from, &Events::default(), Some(&change(3, level(100), None))).unwrap();
    let updates = all(&mut early);
    let events: Vec<&Event> = updates
        .iter()
        .filter_map(|update| if let Update::Event(event) = update { Some(event) } else { None })
        .collect();
    let kinds: Vec<Kind> = events.iter().map(|event| event.kind).collect();
    assert_eq!(kinds, [Kind::State, Kind::Delete, Kind::Replace, Kind::State, Kind::Top, Kind::Top, Kind::Top]);
    let marks: Vec<bool> = events.iter().map(|event| event.flags.contains(Flags::LAST)).collect();
    assert_eq!(marks, [true, false, false, false, false, true, true]);
    assert_eq!((events[5].price, events[5].quantity, events[5].reference), (Some(Price(-7)), 8, 3));
    assert_eq!((events[6].price, events[6].quantity), (None, 0), "the side is empty");
    assert_eq!(early.channel().state, State::Live);
    assert_eq!(publisher.top(Locate(3)).unwrap().bid, level(100));
}

#[test]
fn a_late_subscriber_begins_with_the_state_and_goes_on_with_what_follows() {
    let (mut publisher, events, tops, _) = feed(4096);
    publisher.channel(&origin(1), State::Live).unwrap();
    publisher.message(&origin(2), &Events::default(), Some(&change(1, level(10), level(11)))).unwrap();
    publisher.message(&origin(3), &Events::default(), Some(&change(2, level(20), None))).unwrap();
    // It still has the oldest place in the ring: what the records have does not come again.
    let mut late = Subscriber::new(events, tops, [Locate(2), Locate(7)].into_iter().collect());
    assert!(!late.is_synchronised());
    let top = Top { bid: level(20), offer: None, sequence: Sequence(3), time_ns: 30, state: State::Live };
    assert_eq!(late.try_next(), Ok(Some(Update::Top(Locate(2), top))));
    let Ok(Some(Update::Synchronised(channel))) = late.try_next() else { panic!("it has all") };
    assert_eq!((channel.state, channel.session, channel.decimals), (State::Live, CHANNEL.session, 4));
    // The reset at the beginning of the ring makes it read again.
    assert!(matches!(all(&mut late)[..], [Update::Reset(_), Update::Top(..), Update::Synchronised(_)]));
    publisher.message(&origin(4), &Events::default(), Some(&change(1, None, None))).unwrap();
    publisher.message(&origin(5), &Events::default(), Some(&change(2, None, None))).unwrap();
    let [Update::Event(event)] = all(&mut late)[..] else { panic!("one of interest") };
    assert_eq!((event.locate, event.sequence, event.kind), (Locate(2), Sequence(5), Kind::Top));
    late.set_interest(|interest| interest.insert(Locate(1)));
    assert!(matches!(
        all(&mut late)[..],
        [Update::Top(Locate(1), _), Update::Top(Locate(2), _), Update::Synchronised(_)]
    ));
}

#[test]
fn a_lapped_subscriber_is_told_what_it_lost_and_reads_the_state_again() {
    let (mut publisher, events, tops, _) = feed(1024);
    let mut lapped = Subscriber::new(events, tops, Interest::all());
    all(&mut lapped);
    let before = lapped.number();
    for sequence in 1..=100 {
        let bid = level(sequence as i64);
        publisher.message(&origin(sequence), &Events::default(), Some(&change(4, bid, None))).unwrap();
    }
    let updates = all(&mut lapped);
    let Update::Lost(loss) = updates[0] else { panic!("it has lost some") };
    let read = updates.iter().filter(|update| matches!(update, Update::Event(_))).count() as u64;
    assert_eq!(loss, Loss { messages: loss.messages, bytes: 56 * loss.messages });
    assert_eq!((lapped.number(), publisher.published(), lapped.lost()), (before + 101, before + 101, loss));
    assert!(matches!(updates[1], Update::Top(Locate(4), Top { bid, .. }) if bid == level(100)));
    assert_eq!((updates.len(), read), (3, 0), "the record has all that is left in the ring");
}

/// Applies what a subscriber tells, as a strategy does.
#[derive(Default)]
struct Strategy {
    tops: [Top; RECORDS as usize],
}

impl Strategy {
    fn apply(&mut self, update: &Update) {
        match update {
            Update::Top(locate, top) => self.tops[usize::from(locate.0)] = *top,
            Update::Event(event) => self.tops[usize::from(event.locate.0)].apply(event),
            Update::Lost(_) | Update::Reset(_) => self.tops = Default::default(),
            Update::Synchronised(_) => {}
        }
    }
}

/// The state before each event, by number: the whole history, from a ring that overwrites nothing.
struct History {
    all: broadcast::Subscriber,
    states: Vec<[Top; RECORDS as usize]>,
    channels: Vec<State>,
}

impl History {
    fn follow(&mut self) {
        let mut bytes = [0; 56];
        while self.all.try_read(&mut bytes).is_ok() {
            let event = Event::decode(&bytes).unwrap();
            let (mut state, mut channel) = (*self.states.last().unwrap(), *self.channels.last().unwrap());
            match event.kind {
                Kind::Reset => (state, channel) = (Default::default(), State::Stale),
                Kind::State if event.locate == Locate(0) => channel = State::of_event(&event),
                _ => state[usize::from(event.locate.0)].apply(&event),
            }
            self.states.push(state);
            self.channels.push(channel);
        }
    }
}

/// A random act of a feed: a change, a state, a new session.
fn act(publisher: &mut Publisher, random: &mut fastrand::Rng, sequence: &mut u64) {
    *sequence += random.u64(1..3);
    let from = origin(*sequence);
    match random.u8(0..40) {
        0 => {
            // A new session begins again with 1.
            *sequence = 1;
            publisher.reset(&origin(1), CHANNEL).unwrap();
        }
        1..3 => publisher.channel(&from, if random.bool() { State::Live } else { State::Stale }).unwrap(),
        _ => {
            let locate = random.u16(1..RECORDS as u16);
            let mut some = || if random.u8(0..4) > 0 { level(random.i64(-3..3)) } else { None };
            let (bid, offer) = (some(), some());
            let state = if random.u8(0..10) > 0 { State::Live } else { State::Stale };
            let events = if random.bool() { replace(&from, locate as u8) } else { Events::default() };
            publisher.message(&from, &events, Some(&Change { state, ..change(locate, bid, offer) })).unwrap();
        }
    }
}

#[test]
fn record_and_ring_are_the_whole_history_at_every_moment() {
    for seed in 0..400 {
        let mut random = fastrand::Rng::with_seed(seed);
        // The history has a ring of its own: a second feed that does the same.
        let (mut publisher, events, tops, _) = feed([1024, 2048, 8192][seed as usize % 3]);
        let (mut twin, all, ..) = feed(1 << 20);
        let mut history = History { all, states: vec![Default::default()], channels: vec![State::Unknown] };
        let (mut sequence, mut readers) = (0, Vec::<(Subscriber, Strategy)>::new());
        for _ in 0..200 {
            let (mut again, mut at) = (random.clone(), sequence);
            act(&mut twin, &mut again, &mut at);
            act(&mut publisher, &mut random, &mut sequence);
            history.follow();
            if random.u8(0..30) == 0 && readers.len() < 5 {
                let subscriber = Subscriber::new(events.clone(), tops.clone(), Interest::all());
                readers.push((subscriber, Strategy::default()));
            }
            for (subscriber, strategy) in &mut readers {
                for _ in 0..random.u8(0..12) {
                    let Some(update) = subscriber.try_next().unwrap() else { break };
                    strategy.apply(&update);
                    if subscriber.is_synchronised() {
                        check(subscriber, strategy, &history, seed);
                    }
                }
            }
        }
        assert_eq!(publisher.published(), history.states.len() as u64 - 1);
    }
}

fn check(subscriber: &Subscriber, strategy: &Strategy, history: &History, seed: u64) {
    let at = |record: usize| subscriber.number().max(subscriber.stamps()[record]) as usize;
    for locate in 1..RECORDS as usize {
        assert_eq!(strategy.tops[locate], history.states[at(locate)][locate], "seed {seed}, instrument {locate}");
    }
    assert_eq!(subscriber.channel().state, history.channels[at(0)], "seed {seed}");
}

#[test]
fn threads_agree_with_the_publisher_in_the_end() {
    let (mut publisher, events, tops, _) = feed(2048);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|threads| {
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let mut subscriber = Subscriber::new(events.clone(), tops.clone(), Interest::all());
                let is_over = &is_over;
                threads.spawn(move || {
                    let mut strategy = Strategy::default();
                    loop {
                        let was_over = is_over.load(Ordering::Acquire);
                        match subscriber.try_next() {
                            Ok(Some(update)) => {
                                if let Update::Top(_, top) = update {
                                    assert_eq!(top.time_ns, top.sequence.0 * 10, "the record is whole");
                                }
                                strategy.apply(&update);
                            }
                            Ok(None) if was_over => return (strategy.tops, subscriber.number()),
                            Ok(None) | Err(SubscribeError::Busy(_)) => std::thread::yield_now(),
                            Err(error) => panic!("{error}"),
                        }
                    }
                })
            })
            .collect();
        let acts = || {
            let (mut random, mut sequence) = (fastrand::Rng::with_seed(3), 0);
            (0..60_000).for_each(|_| act(&mut publisher, &mut random, &mut sequence));
        };
        let end = std::panic::catch_unwind(std::panic::AssertUnwindSafe(acts));
        // The readers end in any case.
        is_over.store(true, Ordering::Release);
        end.unwrap();
        for reader in readers {
            let (tops, number) = reader.join().unwrap();
            assert_eq!(number, publisher.published());
            (1..RECORDS as usize).for_each(|at| assert_eq!(Some(&tops[at]), publisher.top(Locate(at as u16))));
        }
    });
}

#[test]
fn a_successor_of_a_killed_publisher_voids_its_half_told_event_and_resets() {
    let options =
        Options { kind: sidestep_ring::Kind::Broadcast, cell: Cell::Line, bytes: 4096, waking: Waking::Never };
    let ring = Segment::memfd(&options).unwrap();
    let tops = Array::memfd(&seqlock::Options { records: RECORDS, tag: TOPS_TAG }).unwrap();
    let instruments = Array::memfd(&seqlock::Options { records: RECORDS, tag: INSTRUMENTS_TAG }).unwrap();
    let publisher = || Publisher::new(ring.publisher()?, tops.writer()?, instruments.writer()?, CHANNEL);
    let mut first = publisher().unwrap();
    first.channel(&origin(1), State::Live).unwrap();
    first.message(&origin(2), &Events::default(), Some(&change(5, level(1), None))).unwrap();
    let mut subscriber = Subscriber::new(ring.subscriber(Default::default()).unwrap(), tops.reader(), Interest::all());
    assert_eq!(all(&mut subscriber).len(), 2);
    let told = first.published();
    drop(first);
    // It died between the record and its two events.
    tops.writer().unwrap().write(5, told + 2, &[1; RECORD_WORDS]).unwrap();
    let mut second = publisher().unwrap();
    assert_eq!(second.published(), told + 3);
    let [Update::Reset(_), Update::Synchronised(channel)] = all(&mut subscriber)[..] else {
        panic!("nothing is known")
    };
    assert_eq!(channel.state, State::Stale);
    second.message(&origin(1), &Events::default(), Some(&change(5, level(2), None))).unwrap();
    assert!(matches!(all(&mut subscriber)[..], [Update::Event(_), Update::Event(_)]));
    // An array that is far ahead is of another ring.
    drop(second);
    tops.writer().unwrap().write(5, 1000, &[1; RECORD_WORDS]).unwrap();
    let refused = publisher().err().unwrap();
    assert!(refused.to_string().contains("do not belong together"), "{refused}");
}

#[test]
fn the_array_alone_is_live_only_if_instrument_and_channel_are() {
    let (mut publisher, _, reader, directory) = feed(4096);
    let tops = Tops::new(reader);
    let state = |locate| tops.top(Locate(locate)).unwrap().state;
    publisher.message(&origin(1), &Events::default(), Some(&change(2, level(1), None))).unwrap();
    assert_eq!((state(2), state(3)), (State::Stale, State::Unknown));
    publisher.channel(&origin(2), State::Live).unwrap();
    assert_eq!((state(2), state(3)), (State::Live, State::Unknown));
    let stale = Change { state: State::Stale, ..change(2, level(1), None) };
    publisher.message(&origin(3), &Events::default(), Some(&stale)).unwrap();
    assert_eq!((state(2), tops.stamp(Locate(2))), (State::Stale, Some(publisher.published())));
    assert_eq!(tops.top(Locate(9)), Err(seqlock::ReadError::NoRecord));

    let symbol = Symbol::new("CVLT").unwrap();
    let [market_category, financial_status, etp, authenticity] = *b"QNNP";
    let mut named = |locate| {
        let (locate, round_lot) = (Locate(locate), 100);
        publisher.instrument(&Instrument {
            locate,
            symbol,
            round_lot,
            market_category,
            financial_status,
            etp,
            authenticity,
        })
    };
    assert_eq!((named(7), named(7)), (Ok(()), Ok(())));
    assert_eq!(named(9), Err(PublishError::NoInstrument(Locate(9))));
    assert_eq!(named(0), Err(PublishError::NoInstrument(Locate(0))));
    assert_eq!(directory.find(symbol).unwrap().locate, Locate(7));
    let refused = publisher.message(&origin(4), &Events::default(), Some(&change(9, None, None)));
    assert_eq!(refused, Err(PublishError::NoInstrument(Locate(9))));
    publisher.reset(&origin(5), CHANNEL).unwrap();
    assert_eq!((directory.find(symbol), state(2)), (None, State::Unknown), "locates are new on each day");
}

#[test]
fn a_ring_of_other_messages_is_told_and_does_no_harm() {
    let (mut events, subscriber) = broadcast::pair(4096, Waking::Never).unwrap();
    let (_tops, reader) = seqlock::pair(RECORDS).unwrap();
    let mut subscriber = Subscriber::new(subscriber, reader, Interest::all());
    assert!(matches!(all(&mut subscriber)[..], [Update::Synchronised(_)]));
    events.publish(b"short").unwrap();
    events.publish(&[0; 56]).unwrap();
    events.publish(&[0; 57]).unwrap();
    assert_eq!(subscriber.try_next(), Err(SubscribeError::NoEvent(5)));
    assert_eq!(subscriber.try_next(), Err(SubscribeError::Unknown(crate::event::Unknown::Kind(0))));
    assert_eq!(subscriber.try_next(), Err(SubscribeError::NoEvent(57)));
    assert_eq!(subscriber.try_next(), Err(SubscribeError::NoEvent(57)));
    drop(events);
}
