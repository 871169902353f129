//! BinaryFILE (Nasdaq, "BinaryFILE 1.00"): each message behind its length in two big-endian bytes; a length of 0, or the end of the
//! file, is the end.

use std::fmt;
use std::io::{self, Read};

/// Bytes that are read at once. It holds the longest message, of 65,535 bytes, with its length.
const BUFFER_BYTES: usize = 128 << 10;

/// First bytes of files that are something else, and what they are.
const OTHERS: [(&[u8], Other); 7] = [
    (&[0x1f, 0x8b], Other::Packed),
    (&[0x28, 0xb5, 0x2f, 0xfd], Other::Packed),
    (&[0x0a, 0x0d, 0x0d, 0x0a], Other::Capture),
    (&[0xa1, 0xb2, 0xc3, 0xd4], Other::Capture),
    (&[0xd4, 0xc3, 0xb2, 0xa1], Other::Capture),
    (&[0xa1, 0xb2, 0x3c, 0x4d], Other::Capture),
    (&[0x4d, 0x3c, 0xb2, 0xa1], Other::Capture),
];

/// A file that is no BinaryFILE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Other {
    /// gzip or zstd.
    Packed,
    /// pcap or pcapng.
    Capture,
}

/// Why a recording cannot be read on.
#[derive(Debug)]
pub enum FaultKind {
    /// Its first bytes are those of another format.
    Other(Other),
    /// It ends within a message, or within its length.
    CutOff,
    /// A message is shorter than its type.
    Short {
        /// The type.
        kind: u8,
        /// Bytes that are there.
        length: usize,
        /// Bytes that the type has.
        needs: usize,
    },
    /// A first message that is no type of ITCH 5.0.
    NotItch,
    /// The system does not give more.
    Io(io::Error),
}

/// Why a recording cannot be read on, and where.
#[derive(Debug)]
pub struct Fault {
    /// Bytes before the message.
    pub offset: u64,
    /// The reason.
    pub kind: FaultKind,
}

impl Fault {
    /// A step that helps; `name` is the file's.
    pub fn next(&self, name: &str) -> String {
        match self.kind {
            FaultKind::Other(Other::Packed) => {
                format!("unpack it into a pipe, as zcat {name} | sidestep market exchange --profile replay:-")
            }
            FaultKind::Other(Other::Capture) => {
                format!("write its messages first: sidestep market decode {name} --binaryfile OUT")
            }
            FaultKind::CutOff => "all before was replayed; copy the file again for the rest".to_owned(),
            FaultKind::Short { .. } | FaultKind::NotItch => {
                format!("see what it has: sidestep market decode {name} --count 5")
            }
            FaultKind::Io(_) => "check the medium that it is on".to_owned(),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            FaultKind::Other(Other::Packed) => f.write_str("it is packed")?,
            FaultKind::Other(Other::Capture) => f.write_str("it is a capture of packets, no BinaryFILE")?,
            FaultKind::CutOff => f.write_str("it ends within a message")?,
            FaultKind::Short { kind, length, needs } => {
                write!(f, "a message of type {} has {length} bytes, not {needs}", kind.escape_ascii())?;
            }
            FaultKind::NotItch => f.write_str("its first message is none of ITCH 5.0")?,
            FaultKind::Io(error) => error.fmt(f)?,
        }
        write!(f, ", at byte {}", self.offset)
    }
}

/// What a reader has.
pub(super) enum Frame<'a> {
    /// A message, and the bytes before it.
    Message(u64, &'a [u8]),
    /// Nothing now: reading would block.
    Pending,
    /// Nothing any more.
    End,
}

/// A reader of a BinaryFILE. Its memory does not grow with the file. What cannot be read without blocking
/// ([`io::ErrorKind::WouldBlock`]) is asked for again.
pub(super) struct File {
    read: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    /// Where the bytes stand that were read and not given away.
    start: usize,
    end: usize,
    /// Bytes of the file before `start`.
    offset: u64,
    is_over: bool,
}

impl File {
    pub(super) fn new(read: Box<dyn Read + Send>) -> Self {
        Self { read, buffer: vec![0; BUFFER_BYTES], start: 0, end: 0, offset: 0, is_over: false }
    }

    /// The next message. After the end, and after a fault, there is none.
    pub(super) fn next(&mut self) -> Result<Frame<'_>, Fault> {
        loop {
            if self.is_over {
                return Ok(Frame::End);
            }
            let held = &self.buffer[self.start..self.end];
            self.check_first(held)?;
            let length = held.first_chunk().map(|length| usize::from(u16::from_be_bytes(*length)));
            match length {
                Some(0) => {
                    self.is_over = true;
                    return Ok(Frame::End);
                }
                Some(length) if held.len() >= 2 + length => return Ok(self.take(length)),
                _ => {}
            }
            if !self.fill()? {
                return Ok(Frame::Pending);
            }
        }
    }

    fn take(&mut self, length: usize) -> Frame<'_> {
        let (start, offset) = (self.start + 2, self.offset);
        self.start = start + length;
        self.offset += 2 + length as u64;
        Frame::Message(offset, &self.buffer[start..start + length])
    }

    fn check_first(&self, held: &[u8]) -> Result<(), Fault> {
        let other = OTHERS.iter().find(|(magic, _)| self.offset == 0 && held.starts_with(magic));
        other.map_or(Ok(()), |(_, other)| Err(self.fault(FaultKind::Other(*other))))
    }

    /// Reads once. False if that would block.
    fn fill(&mut self) -> Result<bool, Fault> {
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        match self.read.read(&mut self.buffer[self.end..]) {
            Ok(0) if self.end > 0 => Err(self.fault(FaultKind::CutOff)),
            Ok(0) => {
                self.is_over = true;
                Ok(true)
            }
            Ok(count) => {
                self.end += count;
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(self.fault(FaultKind::Io(error))),
        }
    }

    fn fault(&self, kind: FaultKind) -> Fault {
        Fault { offset: self.offset, kind }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Gives the bytes one by one, and would block before each.
    struct Slow {
        bytes: Vec<u8>,
        at: usize,
        is_ready: bool,
    }

    impl Read for Slow {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.is_ready = !self.is_ready;
            if !self.is_ready {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let Some(byte) = self.bytes.get(self.at) else { return Ok(0) };
            buffer[0] = *byte;
            self.at += 1;
            Ok(1)
        }
    }

    fn all(mut file: File) -> (Vec<(u64, Vec<u8>)>, Option<Fault>) {
        let mut messages = Vec::new();
        loop {
            match file.next() {
                Ok(Frame::Message(offset, message)) => messages.push((offset, message.to_vec())),
                Ok(Frame::Pending) => {}
                Ok(Frame::End) => return (messages, None),
                Err(fault) => return (messages, Some(fault)),
            }
        }
    }

    fn of(bytes: &[u8]) -> File {
        File::new(Box::new(io::Cursor::new(bytes.to_vec())))
    }

    proptest! {
        #[test]
        fn messages_are_read_as_they_were_written(messages in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..200), 0..20)) {
            let mut bytes = Vec::new();
            let mut expected = Vec::new();
            for message in &messages {
                expected.push((bytes.len() as u64, message.clone()));
                bytes.extend((message.len() as u16).to_be_bytes());
                bytes.extend(message);
            }
            prop_assert_eq!(&all(of(&bytes)).0, &expected);
            let slow = Slow { bytes: bytes.clone(), at: 0, is_ready: false };
            prop_assert_eq!(&all(File::new(Box::new(slow))).0, &expected);
            if let Some((at, _)) = expected.pop() {
                let (whole, fault) = all(of(&bytes[..bytes.len() - 1]));
                prop_assert_eq!(whole, expected);
                let fault = fault.unwrap();
                prop_assert!(matches!(fault.kind, FaultKind::CutOff) && fault.offset == at);
            }
        }

        #[test]
        fn garbage_ends(bytes in proptest::collection::vec(any::<u8>(), 0..2_000)) {
            let (messages, _) = all(of(&bytes));
            prop_assert!(messages.len() <= bytes.len());
        }
    }

    #[test]
    fn the_longest_messages_fit_and_nothing_behind_the_mark_is_read() {
        let mut bytes = vec![0xff; 2 + 65_535];
        bytes.extend_from_slice(&bytes.clone());
        bytes.extend([0, 0, 0, 9]);
        let (messages, fault) = all(of(&bytes));
        assert!(fault.is_none());
        assert_eq!(
            messages.iter().map(|(at, message)| (*at, message.len())).collect::<Vec<_>>(),
            [(0, 65_535), (65_537, 65_535)]
        );
    }

    #[test]
    fn files_of_another_kind_are_named_with_a_next_step() {
        let why = |bytes: &[u8]| {
            let fault = all(of(bytes)).1.unwrap();
            format!("{fault}; {}", fault.next("day"))
        };
        assert!(why(&[0x1f, 0x8b, 8, 0]).contains("zcat day | sidestep market exchange"));
        assert!(why(&[0x0a, 0x0d, 0x0d, 0x0a]).contains("market decode day --binaryfile"));
        assert_eq!(
            why(&[0, 9, b'S']),
            "it ends within a message, at byte 0; all before was replayed; copy the file again for the rest"
        );
    }
}
