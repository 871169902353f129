//! Messages printed as hex dump, lines or raw bytes.

use sidestep_ring::Loss;
use std::fmt::{self, Write as _};
use std::io::{self, BufWriter, Stdout, Write};

/// Bytes of a row of the dump.
const ROW: usize = 16;

/// The format of a printed message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Number, length, bytes in hex and as text.
    Hex,
    /// One line each; unprintable bytes as `\xNN`.
    Lines,
    /// The bytes only.
    Raw,
}

/// Standard output, buffered: one system call per message would be too slow for a fast ring.
pub(super) struct Printer {
    form: Form,
    out: BufWriter<Stdout>,
    text: String,
}

impl Printer {
    pub(super) fn new(form: Form) -> Self {
        Self { form, out: BufWriter::with_capacity(64 << 10, io::stdout()), text: String::new() }
    }

    pub(super) fn message(&mut self, number: u64, bytes: &[u8]) -> io::Result<()> {
        self.text.clear();
        match self.form {
            Form::Raw => return self.out.write_all(bytes),
            Form::Lines => line(bytes, &mut self.text),
            Form::Hex => dump(format_args!("#{number} {} bytes", bytes.len()), bytes, &mut self.text),
        }
        self.out.write_all(self.text.as_bytes())
    }

    /// Prints a packet: its facts before its payload, except raw.
    pub(super) fn packet(&mut self, head: &impl fmt::Display, payload: &[u8]) -> io::Result<()> {
        self.text.clear();
        match self.form {
            Form::Raw => return self.out.write_all(payload),
            Form::Lines => {
                let _ = write!(self.text, "{head} ");
                line(payload, &mut self.text);
            }
            Form::Hex => dump(format_args!("{head}"), payload, &mut self.text),
        }
        self.out.write_all(self.text.as_bytes())
    }

    /// Prints a remark between packets, if the format has a place for it.
    pub(super) fn note(&mut self, text: fmt::Arguments<'_>) -> io::Result<()> {
        match self.form {
            Form::Hex | Form::Lines => writeln!(self.out, "# {text}"),
            Form::Raw => Ok(()),
        }
    }

    /// Prints a gap, if the format has a place for it.
    pub(super) fn gap(&mut self, number: u64, loss: Loss) -> io::Result<()> {
        match self.form {
            Form::Hex => writeln!(self.out, "#{number} {} messages lost ({} bytes)", loss.messages, loss.bytes),
            Form::Lines | Form::Raw => Ok(()),
        }
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Appends a message as a line. A backslash is doubled, so that the line can be parsed again.
fn line(bytes: &[u8], text: &mut String) {
    for &byte in bytes {
        match byte {
            b'\\' => text.push_str("\\\\"),
            b' '..=b'~' => text.push(char::from(byte)),
            _ => {
                let _ = write!(text, "\\x{byte:02x}");
            }
        }
    }
    text.push('\n');
}

fn dump(head: fmt::Arguments<'_>, bytes: &[u8], text: &mut String) {
    let _ = writeln!(text, "{head}");
    for (index, row) in bytes.chunks(ROW).enumerate() {
        let _ = write!(text, "  {:04x} ", index * ROW);
        for at in 0..ROW {
            let _ = match row.get(at) {
                Some(byte) => write!(text, " {byte:02x}"),
                None => write!(text, "   "),
            };
        }
        let shown = row.iter().map(|byte| if (b' '..=b'~').contains(byte) { char::from(*byte) } else { '.' });
        text.push_str("  ");
        text.extend(shown);
        text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_as_a_line_and_as_a_dump() {
        let mut text = String::new();
        line(b"8=FIX\x01\\\n\xff", &mut text);
        assert_eq!(text, "8=FIX\\x01\\\\\\x0a\\xff\n");
        text.clear();
        dump(format_args!("#7 19 bytes"), b"0123456789abcdefXY\x01", &mut text);
        let rows: Vec<&str> = text.lines().collect();
        assert_eq!(rows[0], "#7 19 bytes");
        assert_eq!(rows[1], "  0000  30 31 32 33 34 35 36 37 38 39 61 62 63 64 65 66  0123456789abcdef");
        assert_eq!(rows[2], format!("  0010  58 59 01{:39}  XY.", ""));
        assert_eq!(rows.len(), 3);
        text.clear();
        dump(format_args!("#8 0 bytes"), b"", &mut text);
        assert_eq!(text, "#8 0 bytes\n");
    }
}
