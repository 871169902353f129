//! Views and encoders generated of `schemas/everything.xml`: what is written is read, whatever the versions, and nothing hostile
//! is more than an error.

#[allow(dead_code, unreachable_pub, unused_imports)]
mod everything;

use everything::types::{EngineBoosterMarks, EngineKind, Flags, Level, Side};
use everything::{Empty, EmptyEncoder, Fields, FieldsEncoder, Grown, GrownEncoder, Message, Parts, PartsEncoder};
use proptest::prelude::*;
use sidestep_market::sbe::{Fields as _, Header, Malformed, Part, Unwritable, Value, Walker};

/// A leg: quantity, fills (count, parties (role, name)), memo.
type Leg = (u64, Vec<(u16, Vec<(u8, Vec<u8>)>)>, Vec<u8>);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Content {
    number: u16,
    points: Vec<(i32, Option<i32>, Option<u8>)>,
    legs: Vec<Leg>,
    names: Vec<Vec<u8>>,
    note: Vec<u8>,
    blob: Option<Vec<u8>>,
}

fn write(content: &Content, buffer: &mut [u8]) -> Result<usize, Unwritable> {
    let mut message = PartsEncoder::new(buffer)?;
    message.fields().number(content.number);
    let mut points = message.points()?;
    for (x, y, z) in &content.points {
        points.entry()?.x(*x).y(*y).z(z.unwrap_or_default());
    }
    let mut legs = points.end().legs()?;
    for (quantity, fills, memo) in &content.legs {
        let mut leg = legs.entry()?;
        leg.fields().quantity(*quantity);
        let mut group = leg.fills()?;
        for (count, parties) in fills {
            let mut fill = group.entry()?;
            fill.fields().count(*count);
            let mut list = fill.parties()?;
            for (role, name) in parties {
                let mut party = list.entry()?;
                party.fields().role(Side(*role));
                list = party.party(name)?;
            }
            group = list.end();
        }
        legs = group.end().memo(memo)?;
    }
    let mut names = legs.end().names()?;
    for name in &content.names {
        names = names.entry()?.name(name)?;
    }
    names.end().note(&content.note)?.blob(content.blob.as_deref().unwrap_or_default())
}

fn read(bytes: &[u8]) -> Result<Content, Malformed> {
    let Message::Parts(message) = Message::decode(bytes)? else { panic!("another message") };
    let points = message.points()?;
    let mut content = Content { number: message.number(), ..Content::default() };
    content.points = points.iter().map(|point| (point.x(), point.y(), point.z())).collect();
    assert_eq!(points.len(), content.points.len());
    let mut legs = points.after().legs()?;
    for leg in &mut legs {
        content.legs.push(read_leg(&leg?)?);
    }
    let mut names = legs.after()?.names()?;
    for name in &mut names {
        content.names.push(name?.name()?.0.to_vec());
    }
    let (note, stage) = names.after()?.note()?;
    content.note = note.to_vec();
    content.blob = stage.blob()?.0.map(<[u8]>::to_vec);
    Ok(content)
}

fn read_leg(leg: &everything::parts::LegsEntry<'_>) -> Result<Leg, Malformed> {
    let mut group = leg.fills()?;
    let mut fills = Vec::new();
    for fill in &mut group {
        let fill = fill?;
        let parties: Result<Vec<_>, Malformed> = fill
            .parties()?
            .map(|party| party.and_then(|party| Ok((party.role().0, party.party()?.0.to_vec()))))
            .collect();
        fills.push((fill.count(), parties?));
    }
    Ok((leg.quantity(), fills, group.after()?.memo()?.0.to_vec()))
}

fn bytes(max: usize) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..max)
}

prop_compose! {
    fn contents()(
        number in any::<u16>(),
        points in prop::collection::vec((any::<i32>(), prop::option::of(any::<i32>()), any::<u8>().prop_map(Some)), 0..5),
        legs in prop::collection::vec(
            (
                any::<u64>(),
                prop::collection::vec((any::<u16>(), prop::collection::vec((any::<u8>(), bytes(5)), 0..4)), 0..4),
                bytes(9),
            ),
            0..4,
        ),
        names in prop::collection::vec(bytes(4), 0..4),
        note in bytes(255),
        blob in bytes(300).prop_map(Some),
    ) -> Content {
        let points = points.into_iter().map(|(x, y, z)| (x, y.filter(|y| *y != i32::MIN), z)).collect();
        Content { number, points, legs, names, note, blob }
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read(content in contents()) {
        let mut buffer = [0xAA; 4096];
        let length = write(&content, &mut buffer).unwrap();
        prop_assert_eq!(read(&buffer[..length]), Ok(content.clone()));
        // Bytes behind the message are those of the next one.
        prop_assert_eq!(read(&buffer), Ok(content));
    }

    #[test]
    fn every_truncation_is_an_error(content in contents()) {
        let mut buffer = [0; 4096];
        let length = write(&content, &mut buffer).unwrap();
        for end in 0..length {
            prop_assert!(read(&buffer[..end]).is_err(), "{} of {}", end, length);
        }
        for end in 0..length {
            prop_assert!(write(&content, &mut vec![0; end]).is_err(), "{} of {}", end, length);
        }
        prop_assert_eq!(write(&content, &mut vec![0; length]), Ok(length));
    }

    #[test]
    fn damaged_messages_are_read_or_refused(content in contents(), damage in prop::collection::vec((any::<u16>(), any::<u8>()), 1..9)) {
        let mut buffer = [0; 4096];
        let length = write(&content, &mut buffer).unwrap();
        for (at, value) in damage {
            // The header stays, so that the damage is in the message.
            let at = 8 + usize::from(at) % (length - 8);
            buffer[at] = value;
        }
        let _ = read(&buffer[..length]);
    }

    #[test]
    fn numbers_survive(ints in any::<(i8, i16, i32, i64)>(), unsigned in any::<(u8, u16, u32, u64)>(), floats in any::<(f32, f64)>()) {
        let mut buffer = [0; 256];
        let mut message = FieldsEncoder::new(&mut buffer).unwrap();
        message.fields().int8_field(ints.0).int16_field(ints.1).int32_field(ints.2).int64_field(ints.3);
        message.fields().uint8_field(unsigned.0).uint16_field(unsigned.1).uint32_field(unsigned.2).uint64_field(unsigned.3);
        message.fields().float_field(floats.0).double_field(floats.1).three([ints.2, 0, -1]);
        let length = message.finish();
        prop_assert_eq!(length, 8 + 172);
        let Message::Fields(fields) = Message::decode(&buffer[..length]).unwrap() else { panic!() };
        prop_assert_eq!((fields.int8_field(), fields.int16_field(), fields.int32_field(), fields.int64_field()), ints);
        let read = (fields.uint8_field(), fields.uint16_field(), fields.uint32_field(), fields.uint64_field());
        prop_assert_eq!(read, unsigned);
        prop_assert_eq!(fields.float_field().to_bits(), floats.0.to_bits());
        prop_assert_eq!(fields.double_field().to_bits(), floats.1.to_bits());
        prop_assert_eq!(fields.three(), [ints.2, 0, -1]);
    }
}

fn fields(buffer: &mut [u8; 180]) -> FieldsEncoder<'_> {
    FieldsEncoder::new(buffer).unwrap()
}

fn view(buffer: &[u8; 180]) -> Fields<'_> {
    let Ok(Message::Fields(fields)) = Message::decode(buffer) else { panic!("it is there") };
    fields
}

#[test]
fn what_is_not_set_is_null() {
    let mut buffer = [0xAA; 180];
    fields(&mut buffer);
    let fields = view(&buffer);
    assert_eq!((fields.optional_int8(), fields.optional_uint16(), fields.optional_int64()), (None, None, None));
    assert_eq!((fields.optional_double(), fields.optional_char(), fields.optional_code()), (None, None, None));
    assert_eq!((fields.optional_side(), fields.level(), fields.added_level()), (None, None, None));
    assert_eq!((fields.price().mantissa(), fields.engine().price().mantissa()), (None, None));
    assert_eq!((fields.engine().level(), fields.engine().torque()), (None, None));
    assert_eq!((fields.added(), fields.added_optional()), (Some(0), None));
    assert_eq!((fields.type_(), fields.code(), fields.side()), (0, &[0; 6], Side(0)));
    assert_eq!(buffer[28..180].last(), Some(&0), "padding is zero");
}

#[test]
fn nulls_are_those_of_the_schema() {
    let mut buffer = [0; 180];
    fields(&mut buffer);
    let (zero, greatest) = (&buffer[8 + 45..8 + 48], &buffer[8 + 48..8 + 56]);
    assert_eq!(zero, [0x80, 0xFF, 0xFF], "int8: its least value, uint16: its greatest");
    assert_eq!(greatest, i64::MAX.to_be_bytes(), "int64: the schema's null");
}

#[test]
fn optional_values_survive() {
    let mut buffer = [0; 180];
    let mut message = fields(&mut buffer);
    message.fields().optional_int8(Some(-1)).optional_uint16(Some(7)).optional_int64(Some(i64::MIN));
    message.fields().optional_double(Some(0.5)).optional_char(Some(b'x')).optional_code(Some(b"AB  "));
    message.fields().optional_side(Some(Side::BUY)).level(Some(Level::HIGH)).added_optional(Some(-9));
    message.fields().added_code(b"abcdef").added_level(Some(Level::LOW)).added_three([1, 2, 3]);
    let fields = view(&buffer);
    assert_eq!((fields.optional_int8(), fields.optional_uint16()), (Some(-1), Some(7)));
    assert_eq!((fields.optional_int64(), fields.optional_double()), (Some(i64::MIN), Some(0.5)));
    assert_eq!((fields.optional_char(), fields.optional_code()), (Some(b'x'), Some(b"AB  ")));
    assert_eq!((fields.optional_side(), fields.level()), (Some(Side::BUY), Some(Level::HIGH)));
    assert_eq!((fields.added_optional(), fields.added_code()), (Some(-9), Some(b"abcdef")));
    assert_eq!((fields.added_level(), fields.added_three()), (Some(Level::LOW), Some([1, 2, 3])));
}

#[test]
fn an_unknown_value_of_an_enumeration_survives() {
    let mut buffer = [0; 180];
    let mut message = fields(&mut buffer);
    message.fields().side(Side(b'~'));
    let side = view(&buffer).side();
    assert_eq!((side, side.name()), (Side(b'~'), None));
    assert_eq!((Side::EITHER, Side::EITHER.name()), (Side(b'0'), Some("Either")));
}

#[test]
fn sets_keep_the_bits_that_they_do_not_know() {
    let mut buffer = [0; 180];
    let mut message = fields(&mut buffer);
    message.fields().flags(Flags(0x0100).with_last(true).with_self(true).with_first(true).with_first(false));
    let flags = view(&buffer).flags();
    assert_eq!((flags.first(), flags.self_(), flags.last(), flags.0), (false, true, true, 0x8180));
}

#[test]
fn composites_are_read_at_their_own_offsets() {
    let mut buffer = [0; 180];
    let mut message = fields(&mut buffer);
    message.fields().engine().capacity(2000).level(Some(Level::LOW)).kind(EngineKind::DIESEL).torque(Some(7));
    message.fields().engine().booster().pressure(1.5).marks(EngineBoosterMarks(0).with_hot(true));
    message.fields().engine().price().mantissa(Some(-5));
    let engine = view(&buffer).engine();
    assert_eq!((engine.capacity(), engine.level(), engine.kind()), (2000, Some(Level::LOW), EngineKind::DIESEL));
    assert_eq!((engine.booster().pressure(), engine.booster().marks().hot()), (1.5, true));
    assert_eq!((engine.price().mantissa(), engine.torque()), (Some(-5), Some(7)));
    let at = 8 + 92;
    assert_eq!(buffer[at..at + 4], [7, 208, 0, 2]);
    assert_eq!(buffer[at + 16..at + 24], (-5i64).to_be_bytes());
}

#[test]
fn constants_have_no_bytes() {
    let buffer = [0; 180];
    let header = Header { block_length: 172, template: 1, schema: 77, version: 3 };
    let fields = Fields::decode(&header, &buffer[8..]).unwrap();
    assert_eq!((fields.venue(), fields.fixed_side(), fields.price().exponent()), ("XSSP", Side::SELL, -9));
    assert_eq!(fields.engine().fuel(), "Petrol");
}

#[test]
fn a_writer_of_an_older_version_has_no_later_fields() {
    let mut buffer = [0x11; 180];
    fields(&mut buffer).fields().added(5);
    let decode = |block_length, version| {
        let header = Header { block_length, template: 1, schema: 77, version };
        Fields::decode(&header, &buffer[8..])
    };
    assert_eq!(decode(172, 3).unwrap().added(), Some(5));
    // The block is long enough, the version says that these bytes are something else.
    let old = decode(172, 1).unwrap();
    assert_eq!((old.added(), old.added_three(), old.engine().torque()), (None, None, None));
    let newer = decode(172, 2).unwrap();
    assert_eq!((newer.added(), newer.added_code(), newer.added_flags()), (Some(5), None, None));
    // The version says that the field is there, the block ends before it.
    let base = decode(172, 3).unwrap().as_bytes().len();
    let short = decode(base, 3).unwrap();
    assert_eq!((short.added(), short.added_price()), (None, None));
    assert_eq!(
        decode(base - 1, 0).unwrap_err(),
        Malformed::Block { part: "Fields", needs: base, block_length: base - 1 }
    );
}

#[test]
fn a_writer_of_a_later_version_has_longer_blocks_and_entries() {
    // Block of 6 bytes where this version has 4; entries of 5 where it has 2; a third group that it does not know.
    let message = [
        [0, 6, 0, 3, 0, 77, 0, 9].as_slice(),
        &[0, 0, 0, 42, 0xEE, 0xEE],
        &[0, 5, 2, 0, 1, 0xEE, 0xEE, 0xEE, 0, 2, 0xEE, 0xEE, 0xEE],
        &[0, 0, 0, 3, 0xEE, 0xEE, 0xEE, 0xEE, 0, 0, 0, 1, 0, 3, 0xEE],
        &[0, 1, 1, 0xEE],
    ];
    let message = message.concat();
    let Message::Grown(grown) = Message::decode(&message).unwrap() else { panic!() };
    let early = grown.early().unwrap();
    assert_eq!((grown.number(), early.iter().map(|entry| entry.a()).collect::<Vec<_>>()), (42, vec![1, 2]));
    let late = early.after().late().unwrap();
    assert_eq!(late.get(0).map(|entry| entry.b()), Some(3));
    assert_eq!((late.get(1), early.get(1).map(|entry| entry.a())), (None, Some(2)));
    assert_eq!(late.after().tail().bytes(), [0, 1, 1, 0xEE]);
}

#[test]
fn a_group_of_a_later_version_is_empty_and_takes_no_bytes() {
    let message = [0, 4, 0, 3, 0, 77, 0, 1, 0, 0, 0, 42, 0, 2, 1, 0, 7, 0xEE];
    let Message::Grown(grown) = Message::decode(&message).unwrap() else { panic!() };
    let late = grown.early().unwrap().after().late().unwrap();
    assert_eq!((late.len(), late.is_empty(), late.iter().count()), (0, true, 0));
    assert_eq!(late.after().tail().bytes(), [0xEE]);
    let mut current = message;
    current[7] = 2;
    let Message::Grown(grown) = Message::decode(&current).unwrap() else { panic!() };
    assert!(grown.early().unwrap().after().late().is_err(), "its dimension is not there");
}

#[test]
fn dimensions_have_their_own_layout() {
    let mut buffer = [0xAA; 64];
    let mut message = GrownEncoder::new(&mut buffer).unwrap();
    message.fields().number(1);
    let mut early = message.early().unwrap();
    early.entry().unwrap().a(2);
    let mut late = early.end().late().unwrap();
    late.entry().unwrap().b(3);
    late.entry().unwrap().b(4);
    let length = late.end();
    let expected = [
        [0, 4, 0, 3, 0, 77, 0, 3].as_slice(),
        &[0, 0, 0, 1],
        &[0, 2, 1, 0, 2],
        &[0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 2, 0, 3, 0, 4],
    ];
    assert_eq!(buffer[..length], expected.concat());
}

#[test]
fn entries_shorter_than_their_fields_are_refused() {
    let message = [0, 4, 0, 3, 0, 77, 0, 1, 0, 0, 0, 42, 0, 1, 1, 0, 7];
    let Message::Grown(grown) = Message::decode(&message).unwrap() else { panic!() };
    assert_eq!(grown.early().unwrap_err(), Malformed::Block { part: "Early", needs: 2, block_length: 1 });
}

/// Of all that is sent to a reader, entries without bytes are the cheapest: their number would be work without end.
#[test]
fn entries_without_bytes_are_refused() {
    // 255 names of no bytes each cannot be: a name has a length. A leg without bytes: its block length is short of its field.
    let legs = [0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF];
    let message = [&[0, 2, 0, 4, 0, 77, 0, 3, 0, 1][..], &[0, 9, 0], &legs].concat();
    let Message::Parts(parts) = Message::decode(&message).unwrap() else { panic!() };
    let mut legs = parts.points().unwrap().after().legs().unwrap();
    assert_eq!(legs.left(), u32::MAX);
    assert!(matches!(legs.next(), Some(Err(Malformed::Block { .. }))));
    assert!(legs.next().is_none() && legs.after().is_err());
}

#[test]
fn a_count_larger_than_the_message_is_refused_before_the_first_entry() {
    let late = [0, 0, 0xFF, 0xFF, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF];
    let message = [&[0, 4, 0, 3, 0, 77, 0, 3, 0, 0, 0, 42, 0, 2, 0][..], &late].concat();
    let Message::Grown(grown) = Message::decode(&message).unwrap() else { panic!() };
    assert!(matches!(grown.early().unwrap().after().late(), Err(Malformed::Truncated { part: "Late", .. })));
}

#[test]
fn other_schemas_are_refused_and_unknown_templates_are_not() {
    assert_eq!(Message::decode(&[0, 0, 0, 2, 0, 78, 0, 3]), Err(Malformed::Schema { schema: 78 }));
    let header = Header { block_length: 1, template: 99, schema: 77, version: 3 };
    assert_eq!(Message::decode(&[0, 1, 0, 99, 0, 77, 0, 3, 5]), Ok(Message::Unknown(header, &[5])));
}

#[test]
fn a_message_can_be_a_header_alone() {
    let mut buffer = [0; 8];
    assert_eq!(EmptyEncoder::new(&mut buffer).unwrap().finish(), 8);
    let Message::Empty(empty) = Message::decode(&buffer).unwrap() else { panic!() };
    assert_eq!((empty.as_bytes().len(), Empty::TEMPLATE, Parts::TEMPLATE, Grown::TEMPLATE), (0, 2, 4, 3));
    let full = Unwritable::Full { needs: 8, bytes: 7 };
    assert_eq!(EmptyEncoder::new(&mut [0; 7]).unwrap_err(), full);
}

#[test]
fn counts_and_lengths_that_do_not_fit_are_refused() {
    let mut buffer = [0; 4096];
    let mut points = PartsEncoder::new(&mut buffer).unwrap().points().unwrap();
    for _ in 0..254 {
        points.entry().unwrap();
    }
    assert_eq!(points.entry().unwrap_err(), Unwritable::TooManyEntries { max: 254 });
    let names = points.end().legs().unwrap().end().names().unwrap();
    assert_eq!(names.end().note(&[0; 255]).unwrap_err(), Unwritable::TooLong { max: 254 });
}

/// Writes fields behind each other: `name=value`, parts in brackets.
#[derive(Default)]
struct Printed(String);

impl Walker for Printed {
    fn value(&mut self, name: &'static str, value: Value<'_>) {
        let value = match value {
            Value::Null => "null".to_owned(),
            Value::Number(number) => number.to_string(),
            Value::Float(number) => format!("{number:?}"),
            Value::Text(bytes) => format!("{:?}", sidestep_market::sbe::text(bytes)),
            Value::Enum(name, code) => format!("{}({code})", name.unwrap_or("?")),
            Value::Set(bits, choice) => (0..16)
                .filter(|bit| bits >> bit & 1 == 1)
                .map(|bit| choice(bit).unwrap_or("?"))
                .collect::<Vec<_>>()
                .join("+"),
        };
        self.0 += &format!("{name}={value} ");
    }

    fn begin(&mut self, name: &'static str, part: Part) {
        self.0 += &match part {
            Part::Entry => "{ ".to_owned(),
            Part::Group | Part::Array => format!("{name}=[ "),
            Part::Composite => format!("{name}=( "),
        };
    }

    fn end(&mut self) {
        self.0.push_str("; ");
    }
}

fn walked(bytes: &[u8]) -> (String, Result<(), Malformed>) {
    let mut printed = Printed::default();
    let result = Message::decode(bytes).unwrap().walk(&mut printed);
    (printed.0, result)
}

#[test]
fn parts_are_walked_in_their_order_and_a_fault_ends_the_walk() {
    let content = Content {
        number: 5,
        points: vec![(-1, None, Some(3))],
        legs: vec![(9, vec![(2, vec![(b'B', b"me".to_vec())])], b"memo".to_vec())],
        names: vec![b"n".to_vec()],
        note: b"note".to_vec(),
        blob: Some(Vec::new()),
    };
    let mut buffer = [0; 256];
    let length = write(&content, &mut buffer).unwrap();
    let (text, result) = walked(&buffer[..length]);
    let expected = "Number=5 Points=[ { X=-1 Y=null Z=3 ; ; Legs=[ { Quantity=9 Fills=[ { Count=2 Parties=[ { Role=Buy(66) \
                    Party=\"me\" ; ; ; ; Memo=\"memo\" ; ; Names=[ { Name=\"n\" ; ; Note=\"note\" Blob=\"\" ";
    assert_eq!((text.as_str(), result), (expected, Ok(())));
    for end in 10..length {
        let (text, result) = walked(&buffer[..end]);
        assert!(result.is_err() && expected.starts_with(&text), "{end}: {text}");
    }
}

#[test]
fn fields_of_every_kind_are_walked_and_those_of_later_versions_are_null() {
    let mut buffer = [0; 180];
    let mut message = fields(&mut buffer);
    let mut block = message.fields();
    block.type_(b'x').int8_field(-1).float_field(0.5).code(b"IBM\0\0\0").three([1, -2, 3]).side(Side(b'?'));
    block.flags(Flags::default().with_first(true).with_last(true)).added(7).price().mantissa(Some(12));
    let length = buffer.len();
    let (text, result) = walked(&buffer[..length]);
    assert_eq!(result, Ok(()));
    for part in [
        "type=\"x\" Int8Field=-1 ",
        "FloatField=0.5 ",
        "OptionalInt8=null ",
        "Code=\"IBM\" OptionalCode=null Three=[ Three=1 Three=-2 Three=3 ; Side=?(63) OptionalSide=null ",
        "Flags=First+Last Engine=( capacity=0 fuel=\"Petrol\" ",
        "Price=( mantissa=12 exponent=-9 ; Venue=\"XSSP\" FixedSide=Sell(83) Added=7 ",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    // Version 1 has none of the later ones.
    buffer[6..8].copy_from_slice(&1_u16.to_be_bytes());
    let (text, _) = walked(&buffer[..length]);
    assert!(text.ends_with("Added=null AddedOptional=null AddedCode=null AddedLevel=null AddedFlags=null AddedPrice=null AddedThree=null "), "{text}");
}
