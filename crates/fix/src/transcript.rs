//! Finding messages in what people have: logs of QuickFIX, lines copied from a screen, captured bytes.
//!
//! Fields may be ended by SOH, `|`, `^A`, or SOH as some viewers show it (U+2401, `<SOH>`). A message begins at `8=FIX`, or with a
//! damaged BeginString at an `8=` behind no letter or digit, in whose next field `9=` stands before a digit; it ends by its BodyLength
//! where that leads to `10=`, else at the first `10=` with three digits.

use crate::SOH;

/// The longest message that is searched for, bytes.
pub const MESSAGE_BYTES_MAX: usize = 1 << 20;

/// The forms of SOH besides itself.
const SEPARATORS: [&[u8]; 5] = [b"\x01", b"|", b"^A", "\u{2401}".as_bytes(), b"<SOH>"];
/// The longest BeginString.
const BEGIN_STRING_MAX: usize = 16;
/// The bytes with which a message begins: `8=`, BeginString, a separator, `9=` and a digit.
const FRONT_MAX: usize = 2 + BEGIN_STRING_MAX + 5 + 3;

/// The text that was skipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Lines with something on them, but no message.
    pub lines: u64,
    /// Messages that begin and do not end.
    pub cut: u64,
    /// Of the line that goes on: whether it has anything, and whether it has a message.
    line: (bool, bool),
}

impl Skipped {
    /// Text that is no part of a message.
    fn text(&mut self, text: &[u8]) {
        let mut lines = text.split(|byte| *byte == b'\n');
        self.line.0 |= lines.next().is_some_and(|first| !first.trim_ascii().is_empty());
        for line in lines {
            self.end_line();
            self.line.0 = !line.trim_ascii().is_empty();
        }
    }

    fn end_line(&mut self) {
        self.lines += u64::from(self.line == (true, false));
        self.line = (false, false);
    }
}

/// Shows every message in `text`, its fields ended by SOH, with what stood before it on its line (a time, a direction), and
/// counts what it passes over. Returns the position from which on nothing has been decided: more text may follow there.
pub fn messages(text: &[u8], at_end: bool, skipped: &mut Skipped, visit: &mut dyn FnMut(&str, &[u8])) -> usize {
    let (decided, told) = scan(text, at_end, skipped, visit);
    skipped.text(&text[told..decided]);
    if at_end {
        skipped.end_line();
    }
    decided
}

/// Returns the position up to which the text is decided, and the position from which on `skipped` has not counted it.
fn scan(text: &[u8], at_end: bool, skipped: &mut Skipped, visit: &mut dyn FnMut(&str, &[u8])) -> (usize, usize) {
    let mut at = 0;
    let mut line = 0;
    let mut told = 0;
    while let Some(found) = front(text, at, at_end) {
        if let Some(newline) = text[at..found].iter().rposition(|byte| *byte == b'\n') {
            line = at + newline + 1;
        }
        let Some((separator, front)) = separator(&text[found..]) else {
            if !at_end && text.len() - found < 2 + BEGIN_STRING_MAX + 5 {
                return (line.min(found), told);
            }
            at = found + 1;
            continue;
        };
        match end(&text[found..], separator, front) {
            Some(length) => {
                let prefix = String::from_utf8_lossy(&text[line..found]);
                let message = replace(&text[found..found + length], separator);
                skipped.text(&text[told..found]);
                skipped.line.1 = true;
                visit(prefix.trim().trim_end_matches(':').trim_end(), &message);
                at = found + length;
                (line, told) = (at, at);
            }
            None if !at_end && text.len() - found < MESSAGE_BYTES_MAX && next(&text[found..]).is_none() => {
                return (line.min(found), told);
            }
            None => {
                at = found + 1;
                // `58=FIX` is a field.
                if found == 0 || !text[found - 1].is_ascii_digit() {
                    skipped.text(&text[told..found]);
                    skipped.line.1 = true;
                    skipped.cut += 1;
                    (line, told) = (line.max(told), found);
                }
            }
        }
    }
    // The beginning of a message may be the end of the text.
    (if at_end { text.len() } else { text.len().saturating_sub(FRONT_MAX).max(at).min(text.len()) }, told)
}

/// Returns the start of the next message, from `at` on. One with a damaged BeginString is decided once its front is there.
fn front(text: &[u8], at: usize, at_end: bool) -> Option<usize> {
    let mut at = at;
    loop {
        at += find(text.get(at..)?, b"8=")?;
        let rest = &text[at..];
        let is_damaged = || {
            let is_field = at > 0 && text[at - 1].is_ascii_alphanumeric();
            !is_field && (at_end || rest.len() >= FRONT_MAX) && is_front(rest)
        };
        if rest.starts_with(b"8=FIX") || is_damaged() {
            return Some(at);
        }
        at += 1;
    }
}

/// Returns whether BodyLength follows the text in BeginString's place.
fn is_front(text: &[u8]) -> bool {
    separator(text).is_some_and(|(_, second)| {
        let has_length =
            text[second..].strip_prefix(b"9=").is_some_and(|rest| rest.first().is_some_and(u8::is_ascii_digit));
        has_length && !text[..second].contains(&b'\n')
    })
}

/// Returns whether it has the form of a version of FIX.
fn is_begin_string(text: &[u8]) -> bool {
    let version = text.strip_prefix(b"FIXT.").or_else(|| text.strip_prefix(b"FIX."));
    matches!(version, Some([major, b'.', minor]) if major.is_ascii_digit() && minor.is_ascii_digit())
}

/// The faults of a message whose fields are ended by SOH, one line each.
pub fn damage(message: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    let begin = message.split(|byte| *byte == SOH).next().and_then(|first| first.strip_prefix(b"8="));
    if let Some(begin) = begin.filter(|begin| !is_begin_string(begin)) {
        found.push(format!("BeginString (8) is {}, no version of FIX", String::from_utf8_lossy(begin)));
    }
    let number = |text: &[u8]| std::str::from_utf8(text).ok().and_then(|text| text.parse::<usize>().ok());
    let lengths = || {
        let first = message.iter().position(|byte| *byte == SOH)? + 1;
        let said = message[first..].strip_prefix(b"9=")?;
        let end = said.iter().position(|byte| *byte == SOH)?;
        let body = first + 2 + end + 1;
        // From behind BodyLength to the SOH before CheckSum (FIX tag=value, "BodyLength").
        let trailer = message.windows(4).rposition(|window| window == b"\x0110=")? + 1;
        Some((&said[..end], trailer.checked_sub(body)?, trailer))
    };
    let Some((said, length, trailer)) = lengths() else {
        found.push("BodyLength (9) is not its second field, or CheckSum (10) is missing".to_owned());
        return found;
    };
    if number(said) != Some(length) {
        found.push(format!("BodyLength (9) is {}, and there are {length} bytes", String::from_utf8_lossy(said)));
    }
    // All bytes up to CheckSum, modulo 256, in three digits (FIX tag=value, "CheckSum").
    let sum = message[..trailer].iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
    let said = message[trailer + 3..].strip_suffix(&[SOH]).unwrap_or(&message[trailer + 3..]);
    if said != format!("{sum:03}").as_bytes() {
        found.push(format!("CheckSum (10) is {}, and the bytes give {sum:03}", String::from_utf8_lossy(said)));
    }
    found
}

/// The form in which the message at the front of `text` ends its fields, and the start of its second field.
fn separator(text: &[u8]) -> Option<(&'static [u8], usize)> {
    (2..text.len().min(2 + BEGIN_STRING_MAX)).find_map(|at| {
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

/// The start of the message after the one at the front of `text`; `58=FIX` is none.
fn next(text: &[u8]) -> Option<usize> {
    let window = &text[..text.len().min(MESSAGE_BYTES_MAX)];
    let mut at = 1;
    loop {
        at = front(window, at, true)?;
        if !window[at - 1].is_ascii_digit() {
            return Some(at);
        }
        at += 1;
    }
}

/// Returns the end of a message by its trailer. A message that was cut off has none: the next message's is not it.
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
        messages(text, true, &mut Skipped::default(), &mut |prefix, message| {
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
        let mut skipped = Skipped::default();
        let decided = messages(&text, false, &mut skipped, &mut |_, _| count += 1);
        assert_eq!((count, decided), (0, text.len() - line.len()), "the last one may go on");
        assert_eq!((skipped.cut, skipped.lines), (9_999, 0));
    }

    #[test]
    fn text_that_comes_in_pieces_gives_the_same() {
        let text = b"a : 8=FIX.4.4|9=5|35=0|10=161|\nb : 8=FIX.4.4|9=5|35=1|10=162|\nrest";
        for cut in 0..text.len() {
            let (mut buffer, mut count, mut skipped) = (Vec::new(), 0, Skipped::default());
            for (piece, at_end) in [(&text[..cut], false), (&text[cut..], true)] {
                buffer.extend_from_slice(piece);
                let decided = messages(&buffer, at_end, &mut skipped, &mut |_, _| count += 1);
                buffer.drain(..decided);
            }
            assert_eq!((count, skipped.lines, skipped.cut), (2, 1, 0), "cut at {cut}");
        }
    }

    #[test]
    fn what_is_passed_over_is_counted() {
        let whole = "8=FIX.4.4|9=5|35=0|10=161|";
        let text = format!("start\n\n  \na : {whole}\nb 58=FIX|\n{whole} rest\n8=FIX.4.4|9=5|35=0|\nend");
        let (mut skipped, mut count) = (Skipped::default(), 0);
        messages(text.as_bytes(), true, &mut skipped, &mut |_, _| count += 1);
        assert_eq!((count, skipped.lines, skipped.cut), (2, 3, 1));
    }

    #[test]
    fn a_damaged_begin_string_is_a_damaged_message_and_no_noise() {
        for begin in ["FIZ.4.4", "fix.4.4", "\u{1b}IX.4.4", "FIX.4", "FI", ""] {
            let text = format!("20261121 : 8={begin}|9=5|35=0|10=000|\n");
            for cut in 0..text.len() {
                let (mut buffer, mut all, mut skipped) = (Vec::new(), Vec::new(), Skipped::default());
                for (piece, at_end) in [(&text.as_bytes()[..cut], false), (&text.as_bytes()[cut..], true)] {
                    buffer.extend_from_slice(piece);
                    let decided = messages(&buffer, at_end, &mut skipped, &mut |_, message| all.push(damage(message)));
                    buffer.drain(..decided);
                }
                assert_eq!((all.len(), skipped.lines, skipped.cut), (1, 0, 0), "{begin} cut at {cut}");
                assert!(all[0][0].starts_with("BeginString (8) is "), "{:?}", all[0]);
            }
        }
        // Fields of that number's end, words, and what two lines have between them.
        for noise in
            ["58=A|9=1|", "x8=FIZ|9=5|35=0|10=000|", "8=FIZ.4.4|35=0|10=000|", "8=\nFIZ|9=5|10=000|", "8=a|9=x|"]
        {
            assert_eq!(found(noise.as_bytes()), [], "{noise}");
        }
        let cut = "8=FIZ.4.4|9=70|35=8|\n8=FIX.4.4|9=5|35=0|10=163|\n";
        let mut skipped = Skipped::default();
        messages(cut.as_bytes(), true, &mut skipped, &mut |_, _| {});
        assert_eq!((skipped.cut, found(cut.as_bytes()).len()), (1, 1));
    }

    #[test]
    fn a_wrong_length_and_a_wrong_sum_are_told() {
        let wrong = |text: &str| damage(text.replace('|', "\u{1}").as_bytes());
        assert_eq!(wrong("8=FIX.4.4|9=5|35=0|10=163|"), [""; 0]);
        assert_eq!(wrong("8=FIX.4.4|9=5|35=0|10=162|"), ["CheckSum (10) is 162, and the bytes give 163"]);
        let both = wrong("8=FIX.4.4|9=7|35=0|10=163|");
        assert_eq!(both.len(), 2, "{both:?}");
        assert_eq!(both[0], "BodyLength (9) is 7, and there are 5 bytes");
        for odd in ["", "8=FIX.4.4|", "8=FIX.4.4|35=0|10=1|", "8=FIX.4.4|9=5|35=0|", "9=|10=|"] {
            assert_eq!(wrong(odd).len(), 1, "{odd}");
        }
        assert!(!wrong("8=FIX.4.4|9=x|35=0|10=|").is_empty());
    }

    #[test]
    fn fields_of_a_broken_message_are_still_read() {
        assert_eq!(
            fields(b"8=FIX.4.4\x01x=1\x0155=\x01=\x0158=a=b\x01").collect::<Vec<_>>(),
            [(8, &b"FIX.4.4"[..]), (55, b""), (58, b"a=b")]
        );
    }
}
