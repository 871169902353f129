use super::*;
use proptest::prelude::*;

/// Writes BodyLength and CheckSum around a body in which `|` stands for SOH.
pub(crate) fn whole(begin_string: &str, body: &str) -> Vec<u8> {
    let mut bytes = format!("8={begin_string}\x019={}\x01{}", body.len(), body.replace('|', "\x01")).into_bytes();
    let total = sum(&bytes);
    bytes.extend(format!("10={total:03}\x01").into_bytes());
    bytes
}

const LOGON: &str = "35=A|34=1|49=S|52=20010909-01:46:40.123|56=T|98=0|108=30|";

fn fault(bytes: &[u8]) -> Option<Fault> {
    Index::default().decode(bytes).err().map(|garbled| garbled.fault)
}

#[test]
fn a_logon_is_read() {
    let (bytes, mut index) = (whole("FIX.4.4", LOGON), Index::default());
    let message = index.decode(&bytes).unwrap();
    assert_eq!((message.begin_string(), message.msg_type()), (&b"FIX.4.4"[..], &b"A"[..]));
    assert_eq!(message.seq_num(), Ok(1));
    assert_eq!(message.integer(108), Ok(30));
    assert_eq!(message.timestamp(52).map(|time| time.ns), Ok(1_000_000_000_123_000_000));
    assert_eq!(message.unsigned(789), Err(FieldError::Missing(789)));
    assert_eq!(message.integer(49), Err(FieldError::Format(49)));
    assert_eq!(message.fields().map(|(tag, _)| tag).collect::<Vec<_>>(), [8, 9, 35, 34, 49, 52, 56, 98, 108, 10]);
}

#[test]
fn data_holds_any_byte() {
    let body = "35=B|34=1|95=12|96=a|10=000|b=c|58=x|";
    let (bytes, mut index) = (whole("FIX.4.2", body), Index::default());
    let message = index.decode(&bytes).unwrap();
    assert_eq!(message.get(96), Some(&b"a\x0110=000\x01b=c"[..]));
    assert_eq!(message.get(58), Some(&b"x"[..]));
}

#[test]
fn a_wrong_length_of_data_ends_at_the_next_delimiter() {
    for length in ["1", "3", "50", "99999999999999999999", "-1", "x"] {
        let body = format!("35=B|34=1|95={length}|96=ab|58=x|");
        let (bytes, mut index) = (whole("FIX.4.2", &body), Index::default());
        let message = index.decode(&bytes).unwrap();
        assert_eq!((message.get(96), message.get(58)), (Some(&b"ab"[..]), Some(&b"x"[..])), "{length}");
    }
}

#[test]
fn garbled_messages_are_told_apart() {
    let good = whole("FIX.4.4", LOGON);
    assert_eq!(fault(&good), None);
    let mut wrong_sum = good.clone();
    let last = wrong_sum.len() - 2;
    wrong_sum[last] = if wrong_sum[last] == b'0' { b'1' } else { b'0' };
    let garbled = Index::default().decode(&wrong_sum).unwrap_err();
    assert_eq!(garbled, Garbled { fault: Fault::CheckSum, logon: true });
    assert_eq!(fault(&whole("FIX.4.4", "34=1|35=0|")), Some(Fault::MsgType));
    assert_eq!(fault(&whole("FIX.4.4", "")), Some(Fault::MsgType));
    for body in ["35=0|4x9=TW|", "35=0|x|", "35=0||", "35=0|=1|", "35=0|1234567890=1|", "35=0|--1=2|", "35=0|58|"] {
        assert_eq!(fault(&whole("FIX.4.4", body)), Some(Fault::Field), "{body}");
    }
    for length in 0..good.len() {
        assert!(fault(&good[..length]).is_some());
    }
}

#[test]
fn a_tag_that_cannot_be_is_tag_0() {
    let (bytes, mut index) = (whole("FIX.4.4", "35=0|-1=HI|0=x|58=|"), Index::default());
    let message = index.decode(&bytes).unwrap();
    assert_eq!(message.field(3), Some((0, &b"HI"[..])));
    assert_eq!(message.field(4), Some((0, &b"x"[..])));
    assert_eq!(message.required(58), Err(FieldError::Empty(58)));
}

#[test]
fn the_index_is_bounded() {
    let body = format!("35=0|{}", "58=x|".repeat(100));
    let bytes = whole("FIX.4.4", &body);
    assert_eq!(Index::new(50).decode(&bytes).unwrap_err().fault, Fault::Fields);
    assert!(Index::new(104).decode(&bytes).is_ok());
}

/// Bodies out of pieces that matter: lengths of data, delimiters, odd tags, empty values.
fn bodies() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        "[0-9]{1,10}=[ -~]{0,20}\x01",
        Just("35=D\x01".to_owned()),
        "(95|90|93|212|1184|2372)=[0-9]{1,2}\x01",
        "(96|91|89|213|1185|2371)=[a-c=\x01]{0,12}\x01",
        "-?[0-9]{0,6}=[\x00-\x1f]{0,3}\x01",
        Just("10=000\x01".to_owned()),
        "[ -~\x01]{0,12}",
    ];
    proptest::collection::vec(piece, 0..12).prop_map(|pieces| format!("35=D\x01{}", pieces.concat()).into_bytes())
}

fn agrees(raw: &[u8]) {
    let mut index = Index::new(64);
    let found = index.decode(raw).ok();
    let fast = found.map(|message| {
        let place = |value: &[u8]| value.as_ptr() as usize - raw.as_ptr() as usize;
        message.fields().map(|(tag, value)| (tag, place(value), place(value) + value.len())).collect::<Vec<_>>()
    });
    assert_eq!(fast, reference::decode(raw, data::PAIRS, 64), "{}", String::from_utf8_lossy(raw));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn both_decoders_read_the_same(body in bodies(), begin in "FIX.4.[0-4]|[A-Z]{0,20}") {
        let mut raw = format!("8={begin}\x019={}\x01", body.len()).into_bytes();
        raw.extend(body);
        raw.extend(format!("10={:03}\x01", sum(&raw)).into_bytes());
        agrees(&raw);
    }

    #[test]
    fn both_decoders_refuse_the_same(mut raw in bodies(), at: prop::sample::Index, byte: u8) {
        let place = at.index(raw.len());
        raw[place] = byte;
        let mut whole = format!("8=FIX.4.4\x019={}\x01", raw.len()).into_bytes();
        whole.extend(&raw);
        agrees(&whole);
        whole.extend(format!("10={:03}\x01", sum(&whole)).into_bytes());
        agrees(&whole);
    }
}
