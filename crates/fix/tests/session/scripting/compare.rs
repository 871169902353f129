//! Whether a message is the one that a script expects.

/// How strict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Same fields, same order, same values, BodyLength included: what QuickFIX's own suite asks for.
    Strict,
    /// Fields in any order; BodyLength and CheckSum may be others. What two different engines can agree on.
    Unordered,
}

/// Compares, and says what is different. Only what stands before a second `=` counts, as QuickFIX compares.
pub(crate) fn compare(expected: &[u8], got: &[u8], mode: Mode) -> Result<(), String> {
    let (mut expected, mut got) = (fields(expected), fields(got));
    if mode == Mode::Unordered {
        for side in [&mut expected, &mut got] {
            side.retain(|(tag, _)| tag != "9" && tag != "10");
            side.sort();
        }
    }
    if expected.len() != got.len() {
        return Err(format!("{} fields expected, {} came", expected.len(), got.len()));
    }
    for ((tag, value), (got_tag, got_value)) in expected.iter().zip(&got) {
        if tag != got_tag {
            return Err(format!("field {tag} expected, {got_tag} came"));
        }
        let same = match tag.as_str() {
            "10" => got_value.len() == 3 && got_value.bytes().all(|byte| byte.is_ascii_digit()),
            "42" | "52" | "60" | "122" => is_time(got_value),
            _ => value == got_value,
        };
        if !same {
            return Err(format!("field {tag} should be {value:?}, is {got_value:?}"));
        }
    }
    Ok(())
}

fn fields(message: &[u8]) -> Vec<(String, String)> {
    let text = String::from_utf8_lossy(message);
    let fields = text.split('\x01').filter(|field| !field.is_empty());
    let parts = fields.map(|field| {
        let mut parts = field.split('=');
        (parts.next().unwrap_or_default().to_owned(), parts.next().unwrap_or_default().to_owned())
    });
    parts.collect()
}

/// `YYYYMMDD-HH:MM:SS` in front.
fn is_time(value: &str) -> bool {
    let pattern = "dddddddd-dd:dd:dd";
    let matches = |(byte, kind): (u8, u8)| if kind == b'd' { byte.is_ascii_digit() } else { byte == kind };
    value.len() >= pattern.len() && value.bytes().zip(pattern.bytes()).all(matches)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strict_wants_the_order_and_unordered_does_not() {
        let (one, other) = (b"8=F\x019=1\x0158=a\x0145=2\x0110=001\x01", b"8=F\x019=2\x0145=2\x0158=a\x0110=002\x01");
        assert!(compare(one, other, Mode::Strict).is_err());
        assert!(compare(one, other, Mode::Unordered).is_ok());
        assert!(compare(one, b"8=F\x019=1\x0158=b\x0145=2\x0110=001\x01", Mode::Unordered).is_err());
    }

    #[test]
    fn times_are_times_and_other_values_are_literal() {
        let one = b"52=00000000-00:00:00\x0158=a\x01";
        assert!(compare(one, b"52=20240308-12:00:00.000\x0158=a\x01", Mode::Strict).is_ok());
        assert!(compare(one, b"52=now\x0158=a\x01", Mode::Strict).is_err());
        assert!(compare(one, b"52=20240308-12:00:00\x0158=a\x0159=0\x01", Mode::Strict).is_err());
    }
}
