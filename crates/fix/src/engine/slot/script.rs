//! A transport in memory that takes and gives as little as chance wants.

use fastrand::Rng;
use sidestep_socket::stream::{Script, Stream};
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex};

/// One direction.
#[derive(Debug)]
struct Pipe {
    bytes: VecDeque<u8>,
    capacity: usize,
}

/// One end. Each call moves between nothing and all that it could.
struct End {
    random: Rng,
    from: Arc<Mutex<Pipe>>,
    to: Arc<Mutex<Pipe>>,
}

impl End {
    /// Returns how much of `most` a call moves: often all, sometimes one byte or none.
    fn some_of(&mut self, most: usize) -> usize {
        match self.random.u8(..8) {
            0 => 0,
            1 => most.min(1),
            2..5 => self.random.usize(..=most),
            _ => most,
        }
    }
}

impl Script for End {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = {
            let pipe = self.to.lock().expect("no test panics here");
            pipe.capacity - pipe.bytes.len()
        };
        let count = self.some_of(room.min(bytes.len()));
        if count == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        self.to.lock().expect("no test panics here").bytes.extend(&bytes[..count]);
        Ok(count)
    }

    fn receive_with(&mut self, deliver: &mut dyn FnMut(&[u8]) -> usize) -> io::Result<usize> {
        let there = self.from.lock().expect("no test panics here").bytes.len();
        let count = self.some_of(there);
        if count == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        let mut pipe = self.from.lock().expect("no test panics here");
        let taken = deliver(&pipe.bytes.make_contiguous()[..count]);
        pipe.bytes.drain(..taken);
        Ok(taken)
    }
}

/// Two ends with so many bytes of room between them, each way.
pub(super) fn pair(seed: u64, capacity: usize) -> [Stream; 2] {
    let pipe = || Arc::new(Mutex::new(Pipe { bytes: VecDeque::new(), capacity }));
    let (there, back) = (pipe(), pipe());
    let end = |seed, from: &Arc<Mutex<Pipe>>, to: &Arc<Mutex<Pipe>>| {
        let (from, to) = (Arc::clone(from), Arc::clone(to));
        Stream::Script(Box::new(End { random: Rng::with_seed(seed), from, to }))
    };
    [end(seed, &back, &there), end(!seed, &there, &back)]
}
