//! Changes of what is watched, one line each on standard error, with the time: a journal needs no more.

use sidestep_sys::printable::is_printable;
use std::fmt::Display;
use std::io::Write;
use std::time::SystemTime;

/// The longest line, characters: values of the host are part of it.
const LINE_MAX: usize = 500;

/// Tells one. A failure to write is ignored: there is nowhere else to tell it.
pub(crate) fn tell(text: impl Display) {
    let _ = std::io::stderr().write_all(line(&text.to_string(), SystemTime::now()).as_bytes());
}

fn line(text: &str, now: SystemTime) -> String {
    let clean = text.chars().map(|c| if is_printable(c) { c } else { '?' });
    let shown: String = clean.take(LINE_MAX).collect();
    format!("{} sidestep watch: {shown}\n", humantime::format_rfc3339_seconds(now))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn an_event_is_one_line_with_its_time() {
        let at = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        assert_eq!(line("a\nb\u{1b}[0m", at), "2023-11-14T22:13:20Z sidestep watch: a?b?[0m\n");
        assert_eq!(line(&"x".repeat(9_999), at).len(), LINE_MAX + "2023-11-14T22:13:20Z sidestep watch: \n".len());
    }
}
