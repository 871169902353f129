//! A stored message made into one that is sent again: PossDupFlag, a new SendingTime, OrigSendingTime, new BodyLength and
//! CheckSum; every other byte as it was. FIX session layer, "possible duplicates".
//!
//! ```text
//! 8=FIX.4.4␁9=98␁35=D␁34=2␁       49=A␁52=(then)␁56=B␁            11=...␁10=...␁
//! 8=FIX.4.4␁9=129␁35=D␁34=2␁43=Y␁ 49=A␁52=(now)␁ 56=B␁122=(then)␁ 11=...␁10=...␁
//! ```

use crate::SOH;
use crate::tag;
use crate::value::{Precision, UtcTimestamp};

/// `10=nnn␁`
const TRAILER_BYTES: usize = 7;

/// Header fields, after which the body begins; OrigSendingTime goes among them by its number. SecureData (90, 91) and XmlData
/// (212, 213) are left out: they may hold SOH, so that the fields behind them are not parsed.
const HEADER: [u32; 25] =
    [8, 9, 34, 35, 43, 49, 50, 52, 56, 57, 97, 115, 116, 122, 128, 129, 142, 143, 144, 145, 347, 369, 627, 1128, 1129];

/// Writes the patched message into `into`. `None` if the stored bytes are no message of ours.
pub(super) fn resend(raw: &[u8], now: UtcTimestamp, precision: Precision, into: &mut Vec<u8>) -> Option<()> {
    let (front, rest) = split_front(raw)?;
    let body = rest.get(..rest.len().checked_sub(TRAILER_BYTES)?)?;
    into.clear();
    into.extend_from_slice(front);
    // BodyLength is written when it is known: five digits are kept free for it.
    let length_at = into.len();
    let body_at = length_at + LENGTH_ROOM;
    into.resize(body_at, 0);
    write_body(body, now, precision, into)?;
    let length = into.len() - body_at;
    close_front(into, length_at, length);
    let sum = into.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
    into.extend_from_slice(&[b'1', b'0', b'=', b'0' + sum / 100, b'0' + sum / 10 % 10, b'0' + sum % 10, SOH]);
    Some(())
}

/// The digits of the largest BodyLength, and the SOH after them.
const LENGTH_ROOM: usize = 9;

/// Writes BodyLength and closes the room that it did not need.
fn close_front(into: &mut Vec<u8>, at: usize, length: usize) {
    let mut digits = [0; LENGTH_ROOM];
    let mut from = LENGTH_ROOM - 1;
    digits[from] = SOH;
    let mut rest = length;
    while rest > 0 || from == LENGTH_ROOM - 1 {
        from -= 1;
        digits[from] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    let used = LENGTH_ROOM - from;
    into[at..at + used].copy_from_slice(&digits[from..]);
    into.copy_within(at + LENGTH_ROOM.., at + used);
    into.truncate(into.len() - (LENGTH_ROOM - used));
}

/// `8=...␁9=`, and the part after BodyLength.
fn split_front(raw: &[u8]) -> Option<(&[u8], &[u8])> {
    let begin = raw.iter().position(|byte| *byte == SOH)? + 1;
    let length = raw.get(begin..)?.strip_prefix(b"9=")?;
    let end = length.iter().position(|byte| *byte == SOH)? + 1;
    Some((&raw[..begin + 2], &length[end..]))
}

fn write_body(body: &[u8], now: UtcTimestamp, precision: Precision, into: &mut Vec<u8>) -> Option<()> {
    let mut rest = body;
    let mut original: &[u8] = b"";
    let (mut flagged, mut dated) = (false, false);
    while !rest.is_empty() {
        let (tag, field) = field(rest)?;
        let is_header = HEADER.contains(&tag);
        if !flagged && tag != tag::MSG_TYPE && (tag > tag::POSS_DUP_FLAG || !is_header) {
            into.extend_from_slice(b"43=Y\x01");
            flagged = true;
        }
        if !dated && (!is_header || tag > tag::ORIG_SENDING_TIME) {
            write_original(original, into);
            dated = true;
        }
        if !is_header {
            break;
        }
        match tag {
            tag::SENDING_TIME => {
                original = field.get(3..field.len() - 1)?;
                write_time(now, precision, into);
            }
            // Written anew.
            tag::POSS_DUP_FLAG | tag::ORIG_SENDING_TIME => {}
            _ => into.extend_from_slice(field),
        }
        rest = &rest[field.len()..];
    }
    if !flagged {
        into.extend_from_slice(b"43=Y\x01");
    }
    if !dated {
        write_original(original, into);
    }
    into.extend_from_slice(rest);
    Some(())
}

fn write_original(original: &[u8], into: &mut Vec<u8>) {
    if !original.is_empty() {
        into.extend_from_slice(b"122=");
        into.extend_from_slice(original);
        into.push(SOH);
    }
}

fn write_time(now: UtcTimestamp, precision: Precision, into: &mut Vec<u8>) {
    let mut text = [0; 27];
    let length = now.write(precision, &mut text);
    into.extend_from_slice(b"52=");
    into.extend_from_slice(&text[..length]);
    into.push(SOH);
}

/// Tag and bytes, SOH included, of the first field.
fn field(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let equals = bytes.iter().take(10).position(|byte| *byte == b'=')?;
    let tag = bytes[..equals].iter().try_fold(0_u32, |tag, byte| {
        byte.is_ascii_digit().then(|| tag.saturating_mul(10).saturating_add(u32::from(byte - b'0')))
    })?;
    let end = bytes.iter().position(|byte| *byte == SOH)?;
    Some((tag, &bytes[..=end]))
}

/// MsgType (35) of a stored message, which is the third field of all that we write.
pub(super) fn msg_type(raw: &[u8]) -> &[u8] {
    let third = raw.splitn(4, |byte| *byte == SOH).nth(2);
    third.and_then(|field| field.strip_prefix(b"35=")).unwrap_or(b"")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Now;
    use crate::decode::Index;
    use crate::encode::{Encoder, Parties};

    const SECOND: i64 = 1_000_000_000;

    fn encoder() -> Encoder {
        let parties = Parties {
            begin_string: "FIX.4.4".to_owned(),
            sender: "A".to_owned(),
            target: "B".to_owned(),
            target_location: "L".to_owned(),
            ..Parties::default()
        };
        Encoder::new(&parties, Precision::Millis).unwrap()
    }

    fn patched(fill: impl Fn(&mut crate::encode::Builder<'_>), later_s: i64) -> String {
        let mut encoder = encoder();
        let mut builder = encoder.message(b"D");
        fill(&mut builder);
        let raw = builder.finish(7, Now::default()).unwrap().to_vec();
        let mut out = Vec::new();
        resend(&raw, UtcTimestamp { ns: later_s * SECOND }, Precision::Millis, &mut out).unwrap();
        Index::default().decode(&out).expect("BodyLength and CheckSum are right");
        String::from_utf8(out).unwrap().replace('\x01', "|")
    }

    #[test]
    fn flag_and_times_go_where_their_numbers_say_and_the_rest_stays() {
        let text = patched(
            |order| {
                order.str(11, "ID").str(58, "x=y");
            },
            5,
        );
        let body =
            "|35=D|34=7|43=Y|49=A|52=19700101-00:00:05.000|56=B|122=19700101-00:00:00.000|143=L|11=ID|58=x=y|10=";
        assert!(text.contains(body), "{text}");
    }

    #[test]
    fn a_message_of_header_only_and_one_with_more_header_are_patched_too() {
        assert!(patched(|_| {}, 5).contains("|56=B|122=19700101-00:00:00.000|143=L|10="));
        let text = patched(
            |order| {
                order.str(97, "Y").str(115, "C").str(11, "ID");
            },
            5,
        );
        assert!(text.contains("|11=ID|10=") && text.contains("122="), "{text}");
    }

    #[test]
    fn data_with_separators_survives() {
        let text = patched(
            |order| {
                order.data(95, 96, b"a\x0110=000\x01b").str(11, "ID");
            },
            5,
        );
        assert!(text.contains("|95=10|96=a|10=000|b|11=ID|10="), "{text}");
        for (length, data) in [(90, 91), (212, 213)] {
            let text = patched(
                |order| {
                    order.data(length, data, b"a\x01b\x0152=c").str(11, "ID");
                },
                5,
            );
            let rest = format!("|122=19700101-00:00:00.000|143=L|{length}=8|{data}=a|b|52=c|11=ID|10=");
            assert!(text.contains("|34=7|43=Y|49=A|") && text.contains(&rest), "{text}");
        }
    }

    #[test]
    fn what_is_no_message_is_refused() {
        let mut out = Vec::new();
        for raw in
            [&b""[..], b"8=FIX.4.4\x01", b"8=FIX.4.4\x019=5\x01", b"8=FIX.4.4\x019=5\x01xx\x01yy=1\x0110=000\x01"]
        {
            assert!(resend(raw, UtcTimestamp { ns: 0 }, Precision::Millis, &mut out).is_none());
        }
    }
}
