//! BinaryFILE: the messages of a session without sequence numbers (Nasdaq, "BinaryFILE 1.00").
//!
//! ```text
//!  0        2
//!  | length | message |  ...  | 0 |      lengths are big-endian; 0, or the end of the file, is the end
//! ```

use super::CaptureError;
use super::source::Source;
use std::io::{self, Read, Write};

/// The end of a BinaryFILE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// A message of length 0: the file is whole. What follows is not looked at.
    Marked,
    /// The file ends after a message.
    OfFile,
}

/// A reader. The first message has sequence number 1.
pub struct BinaryFile<R> {
    source: Source<R>,
    messages: u64,
    end: Option<End>,
    is_over: bool,
}

impl<R: Read> BinaryFile<R> {
    /// Reads from here on.
    pub fn new(read: R) -> Self {
        Self { source: Source::new(read), messages: 0, end: None, is_over: false }
    }

    /// The next message, 1 to 65,535 bytes; nothing at the end. After an error comes nothing more.
    pub fn try_next(&mut self) -> Result<Option<&[u8]>, CaptureError> {
        if self.is_over {
            return Ok(None);
        }
        // Until it has gone well.
        self.is_over = true;
        if !self.source.begin()? {
            self.end = Some(End::OfFile);
            return Ok(None);
        }
        let length = u16::from_be_bytes(self.source.chunk()?);
        if length == 0 {
            self.end = Some(End::Marked);
            return Ok(None);
        }
        let message = self.source.take(usize::from(length))?;
        self.messages += 1;
        self.is_over = false;
        Ok(Some(message))
    }

    /// The messages read so far: the sequence number of the last one.
    pub fn messages(&self) -> u64 {
        self.messages
    }

    /// The end that was found; nothing before it, and after an error.
    pub fn end(&self) -> Option<End> {
        self.end
    }
}

/// A writer.
pub struct BinaryFileWriter<W> {
    write: W,
}

impl<W: Write> BinaryFileWriter<W> {
    /// Writes to this; two calls per message, so that a buffer pays.
    pub fn new(write: W) -> Self {
        Self { write }
    }

    /// Appends a message. One of no bytes, which would be the end, and one above 65,535 are refused.
    pub fn message(&mut self, message: &[u8]) -> io::Result<()> {
        let length = u16::try_from(message.len()).ok().filter(|length| *length > 0).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidInput, "a message of a BinaryFILE has 1 to 65,535 bytes")
        })?;
        self.write.write_all(&length.to_be_bytes())?;
        self.write.write_all(message)
    }

    /// Marks the end, and gives back what was written to.
    pub fn finish(mut self) -> io::Result<W> {
        self.write.write_all(&[0, 0])?;
        self.write.flush()?;
        Ok(self.write)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Gives the bytes one by one.
    struct Slow<'a>(&'a [u8]);

    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let bytes = self.0.len().min(1);
            buffer[..bytes].copy_from_slice(&self.0[..bytes]);
            self.0 = &self.0[bytes..];
            Ok(bytes)
        }
    }

    fn all(read: impl Read) -> (Vec<Vec<u8>>, Option<End>, bool) {
        let mut file = BinaryFile::new(read);
        let mut messages = Vec::new();
        let is_cut = loop {
            match file.try_next() {
                Ok(Some(message)) => messages.push(message.to_vec()),
                Ok(None) => break false,
                Err(CaptureError::Truncated { .. }) => break true,
                Err(error) => panic!("{error}"),
            }
        };
        assert!(matches!(file.try_next(), Ok(None)));
        (messages, file.end(), is_cut)
    }

    proptest! {
        #[test]
        fn messages_are_read_as_they_were_written(messages in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..300), 0..20)) {
            let mut writer = BinaryFileWriter::new(Vec::new());
            messages.iter().for_each(|message| writer.message(message).unwrap());
            let bytes = writer.finish().unwrap();
            prop_assert_eq!(all(&bytes[..]), (messages.clone(), Some(End::Marked), false));
            prop_assert_eq!(all(Slow(&bytes)), (messages.clone(), Some(End::Marked), false));
            let unmarked = &bytes[..bytes.len() - 2];
            prop_assert_eq!(all(unmarked), (messages.clone(), Some(End::OfFile), false));
            if let Some(last) = messages.last() {
                let cut = &unmarked[..unmarked.len() - 1];
                prop_assert_eq!(all(cut), (messages[..messages.len() - 1].to_vec(), None, true));
                let in_length = &unmarked[..unmarked.len() - last.len() - 1];
                prop_assert!(all(in_length).2);
            }
        }
    }

    #[test]
    fn messages_of_other_lengths_are_refused() {
        let mut writer = BinaryFileWriter::new(Vec::new());
        assert!(writer.message(&[]).is_err() && writer.message(&[0; 65_536]).is_err());
        writer.message(&[7; 65_535]).unwrap();
        let bytes = writer.finish().unwrap();
        assert_eq!(all(&bytes[..]).0[0].len(), 65_535);
        // Nothing behind the mark is looked at.
        assert_eq!(all(&[0, 1, 9, 0, 0, 0, 5][..]), (vec![vec![9]], Some(End::Marked), false));
    }
}
