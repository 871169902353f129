//! Files of market data: captures and BinaryFILE, told apart by their first bytes.

use sidestep_market::capture::{BinaryFile, Capture, CaptureError};
use sidestep_sys::{Problem, file};
use std::io::{self, Cursor, ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The first bytes of a file.
const MAGIC_BYTES: usize = 4;
/// The longest first message of a BinaryFILE that is believed: far above any of ITCH.
const FIRST_MESSAGE_MAX: u16 = 512;

/// First bytes of pcapng, of pcap in both byte orders and both units of time, and of what is packed.
const CAPTURES: [[u8; 4]; 5] = [
    [0x0a, 0x0d, 0x0d, 0x0a],
    [0xa1, 0xb2, 0xc3, 0xd4],
    [0xd4, 0xc3, 0xb2, 0xa1],
    [0xa1, 0xb2, 0x3c, 0x4d],
    [0x4d, 0x3c, 0xb2, 0xa1],
];

pub(super) type Bytes = Box<dyn Read>;

/// An opened file.
pub(super) enum Input {
    Capture(Capture<Bytes>),
    Messages(BinaryFile<Bytes>),
}

/// Refuses an output that is the input itself: it would be emptied before it is read.
pub(super) fn check_other(input: &Path, output: &Path) -> Result<(), Problem> {
    let place = |path: &Path| std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino(), file.is_file()));
    match (place(input), place(output)) {
        (Some(read), Some(written)) if read == written && read.2 => {
            Err(Problem::usage(format!("cannot write {}", output.display()), "it is the file that is read")
                .next("name another file"))
        }
        _ => Ok(()),
    }
}

/// Opens a file; standard input for `-`.
pub(super) fn open(path: &Path) -> Result<Input, Problem> {
    if path == Path::new("-") {
        return of(path, Box::new(io::stdin().lock()));
    }
    let file = file::open(path)
        .map_err(|error| unreadable(path, &error, "name a file that you may read, or - for standard input"))?;
    of(path, Box::new(file))
}

fn of(path: &Path, mut bytes: Bytes) -> Result<Input, Problem> {
    let mut first = Vec::with_capacity(MAGIC_BYTES);
    let mut byte = [0];
    while first.len() < MAGIC_BYTES {
        match bytes.read(&mut byte) {
            Ok(0) => break,
            Ok(_) => first.push(byte[0]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(unreadable(path, &error, "check the medium that it is on")),
        }
    }
    let is_packed = first.starts_with(&[0x1f, 0x8b]) || first.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]);
    let is_capture = is_packed || CAPTURES.iter().any(|magic| first == magic);
    let length = first.first_chunk().map(|length| u16::from_be_bytes(*length));
    let is_empty = first.is_empty();
    let all: Bytes = Box::new(Cursor::new(first).chain(bytes));
    match length {
        _ if is_capture => Capture::new(all).map(Input::Capture).map_err(|error| faulty(path, &error)),
        Some(0..=FIRST_MESSAGE_MAX) => Ok(Input::Messages(BinaryFile::new(all))),
        _ => {
            let why = if is_empty { "it is empty" } else { "it is neither a capture (pcap, pcapng) nor a BinaryFILE" };
            Err(unreadable(path, &why, "see what it is: file FILE"))
        }
    }
}

fn unreadable(path: &Path, why: &dyn std::fmt::Display, next: &str) -> Problem {
    Problem::failed(format!("cannot read {}", path.display()), why).next(next)
}

/// A file that is not what it seems to be.
pub(super) fn faulty(path: &Path, error: &CaptureError) -> Problem {
    let next = match error {
        CaptureError::Io(_) => "check the medium that it is on",
        CaptureError::Truncated { .. } => "what stands before is whole; copy the file again for the rest",
        CaptureError::Malformed { .. } => "unpack it, or see what it is: file FILE",
    };
    unreadable(path, error, next)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_bytes(bytes: &'static [u8]) -> Result<Input, Problem> {
        of(Path::new("day"), Box::new(bytes))
    }

    #[test]
    fn files_are_told_apart_by_their_first_bytes() {
        assert!(matches!(of_bytes(b"\0\x0cS\0\0\0\0\0\0\0\0\0\0O"), Ok(Input::Messages(_))));
        assert!(matches!(of_bytes(b"\0\0"), Ok(Input::Messages(_))), "a BinaryFILE without a message");
        assert!(matches!(of_bytes(&[0x0a, 0x0d, 0x0d, 0x0a, 0, 0, 0, 0]), Ok(Input::Capture(_))));
    }

    #[test]
    fn what_is_no_market_data_says_what_to_do() {
        let why = |bytes| of_bytes(bytes).err().expect("refused").to_string();
        assert!(why(b"").contains("it is empty"));
        assert!(why(b"#!/bin/sh").contains("neither a capture"));
        assert!(why(&[0x1f, 0x8b, 8, 0]).contains("zcat"));
    }
}
