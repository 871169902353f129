use super::*;
use crate::decode::tests::whole;

const BODY: &str = "35=0|34=2|49=TW|56=ISLD|";

/// The messages when `bytes` arrive in pieces of `piece` bytes, read into the buffer or cut in place.
fn cut(bytes: &[u8], piece: usize) -> Vec<Result<Vec<u8>, Garbled>> {
    let out = cut_by(bytes, piece, |framer, part| {
        let count = framer.push(part);
        *part = &part[count..];
        framer.next().map(|message| message.map(<[u8]>::to_vec))
    });
    let in_place = cut_by(bytes, piece, |framer, part| framer.next_in(part).map(|message| message.map(<[u8]>::to_vec)));
    // Garbage is reported as often as some of it is dropped, which depends on the pieces that are read.
    let without_garbage = |all: &[Result<Vec<u8>, Garbled>]| -> Vec<_> {
        all.iter().filter(|one| **one != garbled(Fault::Garbage)).cloned().collect()
    };
    assert_eq!(without_garbage(&in_place), without_garbage(&out), "in place, pieces of {piece}");
    out
}

type Next = fn(&mut Framer, &mut &[u8]) -> Result<Option<Vec<u8>>, Garbled>;

fn cut_by(bytes: &[u8], piece: usize, next: Next) -> Vec<Result<Vec<u8>, Garbled>> {
    let mut framer = Framer::default();
    let mut out = Vec::new();
    for mut part in bytes.chunks(piece) {
        loop {
            match next(&mut framer, &mut part) {
                Ok(None) => break,
                Ok(Some(frame)) => out.push(Ok(frame)),
                Err(garbled) => {
                    out.push(Err(garbled));
                    if garbled.is_fatal() {
                        return out;
                    }
                }
            }
        }
        assert!(part.is_empty(), "everything is cut or kept");
    }
    out
}

fn garbled(fault: Fault) -> Result<Vec<u8>, Garbled> {
    Err(Garbled { fault, logon: false })
}

/// The message with another BodyLength.
fn with_length(length: &str, body: &str) -> Vec<u8> {
    let good = String::from_utf8(whole("FIX.4.4", body)).unwrap();
    good.replacen(&format!("9={}", body.len()), &format!("9={length}"), 1).into_bytes()
}

#[test]
fn messages_are_cut_wherever_the_stream_is() {
    let stream: Vec<u8> =
        [BODY, "35=1|112=x|", "35=B|95=8|96=a|10=000||", BODY].iter().flat_map(|body| whole("FIX.4.4", body)).collect();
    let once = cut(&stream, usize::MAX);
    assert_eq!(once.len(), 4);
    assert_eq!(once.iter().flatten().flatten().copied().collect::<Vec<_>>(), stream);
    for piece in 1..stream.len() {
        assert_eq!(cut(&stream, piece), once, "pieces of {piece}");
    }
}

#[test]
fn a_length_too_long_takes_the_next_message_with_it() {
    let good = whole("FIX.4.4", BODY);
    let stream = [with_length("40", BODY), good.clone(), good.clone()].concat();
    for piece in [1, 7, 1000] {
        assert_eq!(cut(&stream, piece), [garbled(Fault::BodyLength), Ok(good.clone())], "pieces of {piece}");
    }
}

#[test]
fn a_length_too_short_loses_only_its_own_message() {
    let good = whole("FIX.4.4", BODY);
    for length in ["0", "1", "10", "23"] {
        let stream = [with_length(length, BODY), good.clone()].concat();
        for piece in [1, 7, 1000] {
            assert_eq!(cut(&stream, piece), [garbled(Fault::BodyLength), Ok(good.clone())], "{length}, {piece}");
        }
    }
}

#[test]
fn a_garbled_message_ends_in_one_place_however_long_its_checksum_is() {
    // Found by the fuzz target `fix_frame`: in pieces, the message after it went, too.
    let good = whole("FIX.4.4", BODY);
    let bad = with_length("10", BODY);
    let bad = [&bad[..bad.len() - 1], b"0-a-sum-that-does-not-end-for-long\x01"].concat();
    let stream = [bad, good.clone(), good.clone()].concat();
    for piece in (1..60).chain([1000]) {
        let expected = [garbled(Fault::BodyLength), Ok(good.clone()), Ok(good.clone())];
        assert_eq!(cut(&stream, piece), expected, "pieces of {piece}");
    }
}

#[test]
fn a_garbled_logon_is_told_apart() {
    let stream = with_length("10", "35=A|34=1|98=0|108=30|");
    assert_eq!(cut(&stream, 5), [Err(Garbled { fault: Fault::BodyLength, logon: true })]);
    let mut sum = whole("FIX.4.4", "35=A|34=1|98=0|108=30|");
    sum.truncate(sum.len() - 4);
    sum.extend(b"0\x01");
    assert_eq!(cut(&sum, 5), [Err(Garbled { fault: Fault::CheckSum, logon: true })]);
}

#[test]
fn garbage_is_dropped_up_to_the_next_front() {
    let good = whole("FIX.4.4", BODY);
    for noise in [
        "x",
        "8=FIX.4.4\x0135=0\x01",
        "8=\x019=5\x01",
        "8=FIX.4.4\x019=\x01",
        "8=FIX.4.4\x019=-5\x01",
        "49=8\x01",
        "88=8=8",
    ] {
        let stream = [noise.as_bytes(), &good, noise.as_bytes(), &good].concat();
        let cut = cut(&stream, usize::MAX);
        let whole: Vec<_> = cut.iter().flatten().collect();
        assert_eq!(whole, [&good, &good], "{noise:?}");
        assert!(cut.iter().all(|one| one.is_ok() || *one == garbled(Fault::Garbage)), "{noise:?}");
    }
}

#[test]
fn overlong_and_overflowing_lengths_end_the_connection() {
    for length in ["65537", "0000065537", "4294967290", "9999999999"] {
        assert_eq!(cut(&with_length(length, BODY), 9), [garbled(Fault::TooLong)], "{length}");
    }
    let digits = with_length("18446744073709551615", BODY);
    assert!(cut(&digits, 9).iter().all(|one| *one == garbled(Fault::Garbage)));
}

#[test]
fn endless_garbage_ends_the_connection() {
    for noise in [&b"x"[..], b"8=", b"8=FIX.4.4\x019=", b"8=FIX.4.4\x01", b"\x01"] {
        let stream = noise.repeat(200_000 / noise.len());
        let mut framer = Framer::default();
        let mut taken = 0;
        let end = loop {
            taken += framer.push(&stream[taken..(taken + 1000).min(stream.len())]);
            match framer.next() {
                Err(garbled) if garbled.is_fatal() => break garbled,
                Ok(Some(frame)) => panic!("{frame:?}"),
                _ => {}
            }
        };
        assert_eq!(end.fault, Fault::Endless, "{noise:?}");
        assert_eq!(framer.next(), Err(end));
        assert!(framer.counters().garbled_bytes > 0);
        framer.clear();
        assert_eq!(framer.next(), Ok(None));
    }
}

#[test]
fn a_garbled_message_without_end_ends_the_connection() {
    let mut stream = b"8=FIX.4.4\x019=10\x0135=A\x0158=".to_vec();
    stream.extend([b'x'; 100_000]);
    assert_eq!(cut(&stream, 1000), [Err(Garbled { fault: Fault::TooLong, logon: true })]);
}

#[test]
fn the_largest_message_passes() {
    let text = "x".repeat(MESSAGE_BYTES_MAX - 32);
    let body = format!("35=B|58={text}|");
    let largest = whole("FIX.4.4", &body[body.len() - (MESSAGE_BYTES_MAX - 25)..].replacen("xxxxxxxx", "35=B|58=", 1));
    assert_eq!(largest.len(), MESSAGE_BYTES_MAX);
    let stream = largest.repeat(5);
    assert_eq!(cut(&stream, 1447).len(), 5);
}
