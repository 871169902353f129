//! Text from outside, made safe to display.

/// Returns whether a character is displayed as itself: not a control character, not one that changes the text's
/// direction (U+202E), not invisible, private or unassigned, not one that combines with the character before it.
pub fn is_printable(character: char) -> bool {
    // The standard library escapes what is not printable, and also three characters that need it in literals, and
    // spaces.
    matches!(character, '\'' | '"' | '\\' | '\u{a0}' | '\u{202f}') || character.escape_debug().len() == 1
}

/// At most `bytes_max` bytes of a text, with a question mark for each character that is not printable.
pub fn printable(text: &str, bytes_max: usize) -> String {
    let mut clean = String::new();
    for character in text.chars().map(|character| if is_printable(character) { character } else { '?' }) {
        if clean.len() + character.len_utf8() > bytes_max {
            break;
        }
        clean.push(character);
    }
    clean
}

/// Formats numbers, such as those of queues, as ranges: "0-3, 7".
pub fn ranges(queues: impl IntoIterator<Item = u32>) -> String {
    let mut sorted: Vec<u32> = queues.into_iter().collect();
    sorted.sort_unstable();
    sorted.dedup();
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for queue in sorted {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == queue => *last = queue,
            _ => ranges.push((queue, queue)),
        }
    }
    let text = |(first, last): (u32, u32)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    ranges.into_iter().map(text).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_or_hides_is_replaced() {
        assert_eq!(printable("feed\x1b[2J\n", 100), "feed?[2J?");
        assert_eq!(printable(r#"it's "50 µs" \ 10 % – größer 市"#, 100), r#"it's "50 µs" \ 10 % – größer 市"#);
        let hidden = [
            '\u{7f}',
            '\u{9b}',
            '\u{ad}',
            '\u{61c}',
            '\u{200b}',
            '\u{200e}',
            '\u{202a}',
            '\u{202e}',
            '\u{2066}',
            '\u{2069}',
            '\u{2028}',
            '\u{feff}',
            '\u{301}',
            '\u{e000}',
            '\u{fff9}',
            '\u{ffff}',
            '\u{e0041}',
            '\u{10ffff}',
        ];
        for character in hidden {
            assert!(!is_printable(character), "{character:?}");
        }
    }

    #[test]
    fn it_is_cut_at_a_character() {
        assert_eq!(printable(&"ä".repeat(100), 7), "äää");
    }

    #[test]
    fn ranges_are_as_people_write_them() {
        assert_eq!(ranges([]), "");
        assert_eq!(ranges([3]), "3");
        assert_eq!(ranges([7, 2, 0, 1, 2]), "0-2, 7");
        assert_eq!(ranges([u32::MAX, 5]), "5, 4294967295");
    }
}
