//! A file that a thread reads ahead, so that whoever polls never waits for a disk or a pipe.

use sidestep_sys::Problem;
use std::io::{self, Read};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};

/// Bytes that are read at once, at most.
const CHUNK_BYTES: usize = 256 << 10;

/// Chunks that wait at most: 4 MiB, about 130,000 messages.
const CHUNKS: usize = 16;

/// The reader's side. A read gives [`io::ErrorKind::WouldBlock`] while nothing has come.
pub struct ReadAhead {
    chunks: Receiver<io::Result<Vec<u8>>>,
    chunk: Vec<u8>,
    at: usize,
}

impl ReadAhead {
    /// Reads from here on. The thread ends with the file, or at its next chunk after this is dropped.
    ///
    /// # Errors
    ///
    /// The system has no thread.
    pub fn start(read: impl Read + Send + 'static) -> Result<Self, Problem> {
        let (sender, chunks) = sync_channel(CHUNKS);
        let thread = std::thread::Builder::new().name("recording".to_owned());
        thread.spawn(move || read_all(read, &sender)).map_err(|error| {
            Problem::failed("cannot start the thread that reads the recording", error)
                .next("allow more threads: ulimit -u")
        })?;
        Ok(Self { chunks, chunk: Vec::new(), at: 0 })
    }

    /// Waits until something has come, or the file has ended.
    pub fn wait(&mut self) -> io::Result<()> {
        if self.at == self.chunk.len()
            && let Ok(chunk) = self.chunks.recv()
        {
            (self.chunk, self.at) = (chunk?, 0);
        }
        Ok(())
    }
}

fn read_all(mut read: impl Read, sender: &SyncSender<io::Result<Vec<u8>>>) {
    loop {
        let mut chunk = vec![0; CHUNK_BYTES];
        let result = match read.read(&mut chunk) {
            Ok(0) => return,
            Ok(count) => {
                chunk.truncate(count);
                Ok(chunk)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => Err(error),
        };
        let is_last = result.is_err();
        if sender.send(result).is_err() || is_last {
            return;
        }
    }
}

impl Read for ReadAhead {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == self.chunk.len() {
            match self.chunks.try_recv() {
                Ok(chunk) => (self.chunk, self.at) = (chunk?, 0),
                Err(TryRecvError::Empty) => return Err(io::ErrorKind::WouldBlock.into()),
                Err(TryRecvError::Disconnected) => return Ok(0),
            }
        }
        let mut rest = &self.chunk[self.at..];
        let count = rest.read(buffer)?;
        self.at += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(mut ahead: ReadAhead) -> (Vec<u8>, Option<io::Error>) {
        let (mut bytes, mut buffer) = (Vec::new(), [0; 5_000]);
        loop {
            match ahead.read(&mut buffer) {
                Ok(0) => return (bytes, None),
                Ok(count) => bytes.extend(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::yield_now(),
                Err(error) => return (bytes, Some(error)),
            }
        }
    }

    #[test]
    fn all_bytes_come_in_their_order() {
        let bytes: Vec<u8> = (0..3 * CHUNK_BYTES + 7).map(|at| (at / 3) as u8).collect();
        assert_eq!(all(ReadAhead::start(io::Cursor::new(bytes.clone())).unwrap()).0, bytes);
    }

    #[test]
    fn an_error_comes_after_what_was_read() {
        struct Broken(bool);
        impl Read for Broken {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                if self.0 {
                    return Err(io::Error::other("the medium"));
                }
                (self.0, buffer[0]) = (true, 9);
                Ok(1)
            }
        }
        let (bytes, error) = all(ReadAhead::start(Broken(false)).unwrap());
        assert_eq!((bytes, error.unwrap().to_string()), (vec![9], "the medium".to_owned()));
    }

    #[test]
    fn a_pipe_that_is_silent_blocks_nobody() {
        let (read, write) = io::pipe().unwrap();
        let mut ahead = ReadAhead::start(read).unwrap();
        assert_eq!(ahead.read(&mut [0; 8]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(write);
        ahead.wait().unwrap();
        assert!(all(ahead).0.is_empty());
    }
}
