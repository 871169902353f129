use super::*;
use crate::{Index, Now};

const NOW: Now = Now { utc_ns: 1_000_000_000_123_456_789, mono_ns: 0 };

fn parties() -> Parties {
    let text = String::from;
    Parties { begin_string: text("FIX.4.4"), sender: text("S"), target: text("T"), ..Parties::default() }
}

fn encoder() -> Encoder {
    Encoder::new(&parties(), Precision::Millis).unwrap()
}

fn readable(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).replace('\x01', "|")
}

#[test]
fn a_heartbeat_is_written_as_quickfix_writes_it() {
    let mut encoder = encoder();
    let message = encoder.message(b"0").finish(7, NOW).unwrap();
    assert_eq!(readable(message), "8=FIX.4.4|9=45|35=0|34=7|49=S|52=20010909-01:46:40.123|56=T|10=124|");
    assert!(Index::default().decode(message).is_ok());
}

#[test]
fn messages_stand_behind_each_other_without_gaps() {
    let mut encoder = encoder();
    let mut expected = Vec::new();
    for seq_num in [1, 9, 10, 99_999, 5, u64::MAX, 1] {
        for text in [1, 40, 30, 900, 2000, 1] {
            let mut message = encoder.message(b"8");
            if text == 30 {
                message.poss_dup();
            }
            message.str(58, &"x".repeat(text));
            let bytes = message.finish(seq_num, NOW).unwrap().to_vec();
            let mut index = Index::default();
            assert_eq!(index.decode(&bytes).unwrap().seq_num(), Ok(seq_num));
            expected.extend(bytes);
        }
    }
    assert_eq!(readable(encoder.output()), readable(&expected));
    encoder.sent(expected.len() - 1);
    assert_eq!(encoder.output(), b"\x01");
    encoder.sent(1);
    assert_eq!(encoder.output(), b"");
}

#[test]
fn every_type_is_written_as_fix_writes_it() {
    let mut encoder = encoder();
    let mut message = encoder.message(b"D");
    message.str(11, "order 1").char(54, b'1').bool(114, false).int(900, -42).unsigned(38, 100);
    message.decimal(44, Decimal::new(10_125, 2).unwrap()).timestamp(60, NOW.utc()).data(95, 96, b"a\x01b=");
    message.timestamp_with(126, NOW.utc(), Precision::Seconds);
    let text = readable(message.finish(1, NOW).unwrap());
    let body =
        "11=order 1|54=1|114=N|900=-42|38=100|44=101.25|60=20010909-01:46:40.123|95=4|96=a|b=|126=20010909-01:46:40|";
    assert!(text.contains(body), "{text}");
}

#[test]
fn a_rejected_message_leaves_nothing_behind() {
    let mut encoder = encoder();
    encoder.message(b"0").finish(1, NOW).unwrap();
    let before = encoder.output().to_vec();
    let mut rejected = |write: &dyn Fn(&mut Builder<'_>)| {
        let mut message = encoder.message(b"D");
        write(&mut message);
        message.finish(2, NOW).map(<[u8]>::len)
    };
    assert_eq!(rejected(&|message| _ = message.str(58, "a\x01 55=b").str(1, "x")), Err(Rejected::ControlByte(58)));
    assert_eq!(rejected(&|message| _ = message.str(58, "")), Err(Rejected::Empty(58)));
    assert_eq!(rejected(&|message| _ = message.str(34, "1")), Err(Rejected::Tag(34)));
    assert_eq!(rejected(&|message| _ = message.str(0, "1")), Err(Rejected::Tag(0)));
    assert_eq!(rejected(&|message| _ = message.str(58, &"x".repeat(MESSAGE_BYTES_MAX))), Err(Rejected::TooLong));
    assert_eq!(encoder.message(b"").finish(2, NOW).map(<[u8]>::len), Err(Rejected::Empty(35)));
    assert_eq!(encoder.output(), before);
}

#[test]
fn what_waits_is_bounded() {
    let mut encoder = encoder();
    let text = "x".repeat(50_000);
    let mut last = Ok(0);
    for seq_num in 1..=10 {
        let mut message = encoder.message(b"B");
        message.str(58, &text);
        last = message.finish(seq_num, NOW).map(<[u8]>::len);
    }
    assert!(matches!(last, Err(Rejected::Full | Rejected::TooLong)));
    encoder.clear();
    assert!(encoder.message(b"0").finish(1, NOW).is_ok());
}

#[test]
fn names_stand_in_the_order_of_their_tags() {
    let text = String::from;
    let all = Parties {
        sender_sub: text("desk"),
        target_sub: text("book"),
        sender_location: text("LD"),
        target_location: text("NY"),
        ..parties()
    };
    let mut encoder = Encoder::new(&all, Precision::Seconds).unwrap();
    let mut message = encoder.message(b"0");
    message.poss_dup();
    let text = readable(message.finish(12, NOW).unwrap());
    assert!(
        text.contains("|35=0|34=12|43=Y|49=S|50=desk|52=20010909-01:46:40|56=T|57=book|142=LD|143=NY|10="),
        "{text}"
    );
    let forged = Parties { sender: "S\x0156=X".to_owned(), ..parties() };
    assert_eq!(Encoder::new(&forged, Precision::Millis).err(), Some(Rejected::ControlByte(49)));
}

#[test]
fn who_reads_slowly_does_not_fill_the_buffer() {
    let mut encoder = encoder();
    let text = "x".repeat(1000);
    let (mut written, mut read) = (Vec::<u8>::new(), Vec::<u8>::new());
    for seq_num in 1..=2000 {
        let mut message = encoder.message(b"B");
        message.str(58, &text);
        written.extend(message.finish(seq_num, NOW).expect("room for one more"));
        // Always some bytes behind, and never at the end of a message.
        let count = if seq_num < 50 { 500 } else { encoder.output().len() - 20_001 + (seq_num as usize % 7) };
        read.extend(&encoder.output()[..count]);
        encoder.sent(count);
    }
    read.extend(encoder.output());
    assert!(read == written);
}

#[test]
fn a_full_buffer_refuses_whatever_is_written() {
    let mut encoder = encoder();
    while encoder.append(&[b'x'; 1000]) {}
    let mut message = encoder.message(b"B");
    message.str(58, "").str(58, "x").int(1, -5).data(95, 96, &[1; 5000]);
    assert!(message.finish(1, NOW).is_err());
}
