//! Finding messages in what people have: logs of QuickFIX, lines copied from a screen, captured bytes.
//!
//! Fields may be ended by SOH, `|`, `^A`, or SOH as some viewers show it (U+2401, `<SOH>`). A message begins at `8=FIX`; it ends
//! by its BodyLength where that leads to `10=`, else at the first `10=` with three digits.

use crate::SOH;

/// The longest message that is looked for, bytes.
pub const MESSAGE_BYTES_MAX: usize = 1 << 20;

/// How SOH is written besides itself.
const SEPARATORS: [&[u8]; 5] = [b"\x01", b"|", b"^A", "\u{2401}".as_bytes(), b"<SOH>"];
/// The longest BeginString.
const BEGIN_STRING_MAX: usize = 16;

/// Shows every message in `text`, its fields ended by SOH, with what stood before it on its line (a time, a direction).
/// Returns the position from which on nothing has been decided: more text may follow there.
pub fn messages(text: &[u8], at_end: bool, visit: &mut dyn FnMut(&str, &[u8])) -> usize {
    let mut at = 0;
    let mut line = 0;
    while let Some(found) = find(&text[at..], b"8=FIX").map(|found| at + found) {
        if let Some(newline) = text[at..found].iter().rposition(|byte| *byte == b'\n') {
            line = at + newline + 1;
        }
        let Some((separator, front)) = separator(&text[found..]) else {
            if !at_end && text.len() - found < 2 + BEGIN_STRING_MAX + 5 {
                return line.min(found);
            }
            at = found + 1;
            continue;
        };
        match end(&text[found..], separator, front) {
            Some(length) => {
                let prefix = String::from_utf8_lossy(&text[line..found]);
                let message = replace(&text[found..found + length], separator);
                visit(prefix.trim().trim_end_matches(':').trim_end(), &message);
                at = found + length;
                line = at;
            }
            None if !at_end && text.len() - found < MESSAGE_BYTES_MAX && next(&text[found..]).is_none() => {
                return line.min(found);
            }
            None => at = found + 1,
        }
    }
    // The beginning of a message may be the end of the text.
    if at_end { text.len() } else { text.len().saturating_sub(4).max(at).min(text.len()) }
}

/// How the message at the front of `text` ends its fields, and where its second field begins.
fn separator(text: &[u8]) -> Option<(&'static [u8], usize)> {
    (5..text.len().min(2 + BEGIN_STRING_MAX)).find_map(|at| {
        let found = SEPARATORS.iter().find(|separator| text[at..].starts_with(separator))?;
        Some((*found, at + found.len()))
    })
}

/// The length of the message at the front of `text`.
fn end(text: &[u8], separator: &[u8], front: usize) -> Option<usize> {
    by_length(text, separator, front).or_else(|| by_trailer(text, separator, front))
}

/// By BodyLength, which counts what SOH was: only where it is written as one byte does it lead anywhere.
fn by_length(text: &[u8], separator: &[u8], front: usize) -> Option<usize> {
    let digits = text.get(front..)?.strip_prefix(b"9=")?;
    let count = digits.iter().take(8).position(|byte| !byte.is_ascii_digit())?;
    let length: usize = std::str::from_utf8(&digits[..count]).ok()?.parse().ok()?;
    let trailer = (front + 2 + count + separator.len()).checked_add(length)?;
    let is_there = separator.len() == 1 && text.get(trailer.checked_sub(1)?..)?.starts_with(separator);
    if is_there { trailer_end(text, trailer, separator) } else { None }
}

/// Where the message after the one at the front of `text` begins; `58=FIX` is none.
fn next(text: &[u8]) -> Option<usize> {
    let window = &text[..text.len().min(MESSAGE_BYTES_MAX)];
    let mut at = 1;
    loop {
        at += find(window.get(at..)?, b"8=FIX")?;
        if !window[at - 1].is_ascii_digit() {
            return Some(at);
        }
        at += 1;
    }
}

/// What was cut off has no end of its own: the next message's is not it.
fn by_trailer(text: &[u8], separator: &[u8], front: usize) -> Option<usize> {
    let window = &text[..next(text).unwrap_or(text.len().min(MESSAGE_BYTES_MAX))];
    let mut at = front;
    loop {
        at += find(window.get(at..)?, b"10=")?;
        if window[..at].ends_with(separator)
            && let Some(end) = trailer_end(window, at, separator)
        {
            return Some(end);
        }
        at += 1;
    }
}

/// Behind `10=ddd` and its separator, which copying may have lost.
fn trailer_end(text: &[u8], at: usize, separator: &[u8]) -> Option<usize> {
    let digits = text.get(at..)?.strip_prefix(b"10=")?.get(..3)?;
    let end = at + 6;
    let has_separator = text[end..].starts_with(separator);
    digits.iter().all(u8::is_ascii_digit).then_some(if has_separator { end + separator.len() } else { end })
}

fn replace(message: &[u8], separator: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(message.len() + 1);
    let mut rest = message;
    while let Some((first, others)) = rest.split_first() {
        if let Some(after) = rest.strip_prefix(separator) {
            out.push(SOH);
            rest = after;
        } else {
            out.push(*first);
            rest = others;
        }
    }
    if out.last() != Some(&SOH) {
        out.push(SOH);
    }
    out
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|window| window == what)
}

/// The fields of a message, whatever state it is in: tag and value. A field without a number is left out.
pub fn fields(message: &[u8]) -> impl Iterator<Item = (u32, &[u8])> {
    message.split(|byte| *byte == SOH).filter_map(|field| {
        let equals = field.iter().position(|byte| *byte == b'=')?;
        Some((std::str::from_utf8(&field[..equals]).ok()?.parse().ok()?, &field[equals + 1..]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &[u8]) -> Vec<(String, String)> {
        let mut found = Vec::new();
        messages(text, true, &mut |prefix, message| {
            found.push((prefix.to_owned(), String::from_utf8_lossy(message).replace('\u{1}', "|")));
        });
        found
    }

    #[test]
    fn messages_of_a_log_are_found_however_soh_is_written() {
        let message = "8=FIX.4.4|9=5|35=0|10=161|";
        for separator in ["\u{1}", "|", "^A", "\u{2401}", "<SOH>"] {
            let text = format!("20261121-10:00:00.000 : {}\nnoise 8=FIX\n", message.replace('|', separator));
            assert_eq!(
                found(text.as_bytes()),
                [("20261121-10:00:00.000".to_owned(), message.to_owned())],
                "{separator}"
            );
        }
    }

    #[test]
    fn data_may_hold_what_looks_like_an_end() {
        let text = "8=FIX.4.4\u{1}9=31\u{1}35=B\u{1}95=14\u{1}96=a\u{1}10=123\u{1}8=FIX.b\u{1}10=000\u{1}";
        let all = found(text.as_bytes());
        assert_eq!(all.len(), 1, "{all:?}");
    }

    #[test]
    fn two_messages_on_a_line_and_a_lost_separator() {
        let all = found(b"8=FIX.4.2|9=5|35=0|10=000|8=FIX.4.2|9=9|35=1|10=111\n");
        assert_eq!(all.len(), 2);
        assert_eq!(all[1].1, "8=FIX.4.2|9=9|35=1|10=111|");
    }

    #[test]
    fn a_message_that_was_cut_does_not_take_the_next_one_with_it() {
        let whole = "8=FIX.4.4|9=5|35=0|10=161|";
        let all = found(format!("8=FIX.4.4|9=300|35=8|58=FIXED|37=\na : {whole}\n8=FIX.4.4|9=70|35=8|\n").as_bytes());
        assert_eq!(all, [("a".to_owned(), whole.to_owned())]);
    }

    #[test]
    fn a_log_of_cut_messages_is_passed_over_line_by_line() {
        let line = b"8=FIX.4.4^A9=300^A35=8^A37=1^A17=\n";
        let text = line.repeat(10_000);
        let mut count = 0;
        let decided = messages(&text, false, &mut |_, _| count += 1);
        assert_eq!((count, decided), (0, text.len() - line.len()), "the last one may go on");
    }

    #[test]
    fn text_that_comes_in_pieces_gives_the_same() {
        let text = b"a : 8=FIX.4.4|9=5|35=0|10=161|\nb : 8=FIX.4.4|9=5|35=1|10=162|\nrest";
        for cut in 0..text.len() {
            let (mut buffer, mut count) = (Vec::new(), 0);
            for (piece, at_end) in [(&text[..cut], false), (&text[cut..], true)] {
                buffer.extend_from_slice(piece);
                let decided = messages(&buffer, at_end, &mut |_, _| count += 1);
                buffer.drain(..decided);
            }
            assert_eq!(count, 2, "cut at {cut}");
        }
    }

    #[test]
    fn fields_of_a_broken_message_are_still_read() {
        assert_eq!(
            fields(b"8=FIX.4.4\x01x=1\x0155=\x01=\x0158=a=b\x01").collect::<Vec<_>>(),
            [(8, &b"FIX.4.4"[..]), (55, b""), (58, b"a=b")]
        );
    }
}
