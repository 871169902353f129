//! Text in markup, for the page and for the drawings in it.

use sidestep_sys::printable::is_printable;

/// Text as it may stand in an element or between double quotes. Characters that markup cannot hold, or that turn the
/// direction of what follows, become a visible sign.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\n' | '\t' => escaped.push(' '),
            c if is_printable(c) => escaped.push(c),
            _ => escaped.push('\u{fffd}'),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_markup_obeys_is_left() {
        assert_eq!(escape("<a href=\"x\">'&\u{0}\u{202e}"), "&lt;a href=&quot;x&quot;&gt;&#39;&amp;\u{fffd}\u{fffd}");
        assert_eq!(escape("µs 99.9 %"), "µs 99.9 %");
    }
}
