//! FIX without sessions: messages encoded, cut, decoded and validated; dictionaries, values, schedules, settings.

use crate::failed;
use sidestep::error::Problem;
use sidestep::fix::config::{Config, Dictionaries, DictionaryConfig, Place, SessionConfig, read_dictionary};
use sidestep::fix::decode::{DataFields, Entries, Entry, FIELDS_MAX, FieldError, Index, Message};
use sidestep::fix::dictionary::{Dictionary, FieldDefinition, Kind, Member, MessageDefinition, Section, Version};
use sidestep::fix::encode::{self, Builder, Encoder, Parties, Rejected};
use sidestep::fix::frame::{self, Counters, Fault, Framer, Garbled, MESSAGE_BYTES_LIMIT};
use sidestep::fix::schedule::{Schedule, ScheduleText, Time, TimeZone, Weekday, Window};
use sidestep::fix::validate::{Reason, Rejection, USER_DEFINED_MIN, ValidationOptions, Validator, validate};
use sidestep::fix::value::{Decimal, Precision, UtcDate, UtcTime, UtcTimestamp, boolean, character, integer, unsigned};
use sidestep::fix::{Now, SOH, tag};

pub fn run() -> Result<(), Problem> {
    let wire = order().map_err(|rejected: Rejected| failed("encode", format!("{rejected:?}")))?;
    assert_eq!(wire.last(), Some(&SOH));
    let mut framer = Framer::new(frame::MESSAGE_BYTES_MAX.min(MESSAGE_BYTES_LIMIT));
    assert_eq!(framer.push(&wire), wire.len());
    let garbled = |Garbled { fault, .. }: Garbled| failed("decode", format!("{fault:?}"));
    let raw = framer.next().map_err(garbled)?.expect("it is whole").to_vec();
    let Counters { messages, .. } = framer.counters();
    assert_eq!(messages, 1);
    let mut index = Index::new(FIELDS_MAX);
    let message = index.decode(&raw).map_err(garbled)?;
    read(&message).map_err(|error| failed("read", format!("{error:?}")))?;
    held_against_dictionary(&message)?;
    assert_eq!(Framer::new(64).push(b"no FIX at all"), 13);
    values();
    open_hours();
    settings()
}

fn order() -> Result<Vec<u8>, Rejected> {
    let parties = Parties {
        begin_string: "FIX.4.4".into(),
        sender: "CLIENT".into(),
        target: "VENUE".into(),
        ..Parties::default()
    };
    let mut encoder = Encoder::new(&parties, Precision::Millis)?;
    let mut order: Builder<'_> = encoder.message(b"D");
    order.unsigned(11, 1).str(55, "TEST").char(54, b'1').timestamp(60, Now::system().utc());
    order.unsigned(38, 100).char(40, b'2').decimal(44, Decimal::parse(b"10.25").unwrap_or_default());
    let wire = order.finish(1, Now::system())?;
    assert!(wire.len() < encode::MESSAGE_BYTES_MAX);
    Ok(wire.to_vec())
}

fn read(message: &Message<'_, '_>) -> Result<(), FieldError> {
    assert_eq!((message.msg_type(), message.seq_num()?), (&b"D"[..], 1));
    assert_eq!(message.required(tag::SENDER_COMP_ID)?, b"CLIENT");
    assert_eq!(message.decimal(44)?, Decimal::parse(b"10.25").unwrap_or_default());
    Ok(())
}

fn held_against_dictionary(message: &Message<'_, '_>) -> Result<(), Problem> {
    let dictionary = Dictionary::fixed(Version::Fix44);
    let options = ValidationOptions::default();
    let rejected = |Rejection { reason, .. }: Rejection| failed("validate", reason.text());
    validate(message, &dictionary, &options).map_err(rejected)?;
    Validator::new().validate(message, &dictionary, &options).map_err(rejected)?;
    assert_eq!(Reason::InvalidMsgType.code(), 11);
    let field: &FieldDefinition = dictionary.field(54).expect("Side");
    assert!(field.allows(b"1"));
    let order: &MessageDefinition = dictionary.message(b"D").expect("NewOrderSingle");
    assert!(!order.is_admin && dictionary.field(USER_DEFINED_MIN).is_none());
    let header: &Section = dictionary.header();
    let member: Option<&Member> = header.members().first();
    assert!(member.is_some() && Kind::Int.accepts(b"12"));
    Ok(())
}

fn values() {
    assert_eq!(
        (unsigned(b"12"), integer(b"-12"), boolean(b"Y"), character(b"1")),
        (Some(12), Some(-12), Some(true), Some(b'1'))
    );
}

fn open_hours() {
    let hours = Schedule::daily(Time::constant(8, 0, 0, 0), Time::constant(17, 0, 0, 0));
    let hours = hours.in_zone(TimeZone::UTC).on_weekdays(&[Weekday::Monday]);
    let Window { open, .. } = hours.window(0);
    assert!(!open, "1 January 1970 was a Thursday");
}

fn settings() -> Result<(), Problem> {
    let text = "[DEFAULT]\nConnectionType=acceptor\nSocketAcceptPort=9876\n[SESSION]\nBeginString=FIX.4.4\nSenderCompID=VENUE\n\
                TargetCompID=CLIENT\nHeartBtInt=30\nStartTime=00:00:00\nEndTime=00:00:00\n";
    let config = Config::parse_cfg(text, "a text")?;
    let [SessionConfig { place, dictionary, .. }] = &config.sessions[..] else { panic!("one session") };
    let dictionary: &DictionaryConfig = dictionary;
    assert!(matches!(place, Place::Listen { .. }) && dictionary.data.is_none());
    assert!(read_dictionary("/nowhere.xml".as_ref()).is_err());
    Ok(())
}

/// Types that only rarer calls name.
const _: Option<(
    DataFields,
    Entries<'static, 'static>,
    Entry<'static, 'static>,
    Dictionaries,
    Fault,
    ScheduleText<'static>,
    UtcDate,
    UtcTime,
    UtcTimestamp,
)> = None;
