//! Events of a hostile publisher, and ITCH messages of a hostile feed as events.

#![no_main]

use sidestep_market::event::{EVENT_BYTES, EVENTS_PER_MESSAGE_MAX, Event, Flags, Kind, Origin};
use sidestep_market::itch::Message;
use sidestep_market::publish::Top;
use sidestep_market::units::{LineId, Nanos, Sequence};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut top = Top::default();
    for chunk in bytes.as_chunks::<EVENT_BYTES>().0 {
        let Ok(event) = Event::decode(chunk) else { continue };
        assert_eq!(Event::decode(&event.encode()), Ok(event));
        assert_eq!((Event::locate_of(chunk), Event::kind_of(chunk)), (event.locate, Some(event.kind)));
        top.apply(&event);
        assert!(top.bid.is_none_or(|level| level.quantity > 0));
    }
    let Ok(message) = Message::parse(bytes) else { return };
    let origin =
        Origin { sequence: Sequence(1), time_ns: 2, arrived: Nanos(3), line: LineId(4), flags: Flags::RECOVERED };
    let events = origin.itch(&message);
    let count = events.iter().count();
    assert!(count <= EVENTS_PER_MESSAGE_MAX);
    for (index, event) in events.iter().enumerate() {
        assert_eq!(Event::decode(&event.encode()), Ok(*event));
        assert_eq!(event.flags.contains(Flags::LAST), index + 1 == count);
        assert_ne!(event.kind, Kind::Void);
    }
});
