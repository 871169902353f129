//! Several datagrams of a connected socket in one system call: sendmmsg(2), recvmmsg(2) (Linux 3.0).

use std::fmt;
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, BorrowedFd};

/// Datagrams that leave, or have come, by one call; each has a place of the same length. The headers are written once: a call costs no more
/// than that of a program that has prepared them.
pub struct MessageBatch {
    // The memory that the pieces point to, and the pieces that the headers point to. Neither moves.
    memory: Box<[u8]>,
    pieces: Box<[libc::iovec]>,
    headers: Box<[libc::mmsghdr]>,
    /// The number of datagrams that are here; the length of each is in its header.
    count: usize,
}

// SAFETY: the pointers lead to memory that the structure owns, and nobody else has them.
unsafe impl Send for MessageBatch {}

impl MessageBatch {
    /// Room for `most` datagrams of up to `bytes` each; what comes longer is cut.
    pub fn new(most: usize, bytes: usize) -> Self {
        let mut memory: Box<[u8]> = vec![0; most.max(1) * bytes.max(1)].into();
        let mut pieces: Box<[libc::iovec]> = memory.chunks_exact_mut(bytes.max(1)).map(piece).collect();
        let headers = pieces.iter_mut().map(header).collect();
        Self { memory, pieces, headers, count: 0 }
    }

    /// The number of datagrams that are here.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns whether there is room for no more.
    pub fn is_full(&self) -> bool {
        self.count == self.headers.len()
    }

    /// Datagram number `at`; empty where there is none.
    pub fn get(&self, at: usize) -> &[u8] {
        let length = if at < self.count { self.headers[at].msg_len as usize } else { 0 };
        self.memory.get(at * self.place_bytes()..).and_then(|from| from.get(..length)).unwrap_or_default()
    }

    /// Adds a datagram to send. False: there is no room for it.
    pub fn push(&mut self, payload: &[u8]) -> bool {
        if self.is_full() || payload.len() > self.place_bytes() {
            return false;
        }
        let start = self.count * self.place_bytes();
        self.memory[start..start + payload.len()].copy_from_slice(payload);
        self.pieces[self.count].iov_len = payload.len();
        self.headers[self.count].msg_len = payload.len() as libc::c_uint;
        self.count += 1;
        true
    }

    /// Sends all of them in their order, by as many calls as that takes: the kernel ends one early where its buffer is full, which is tried
    /// again without an end. After an error the rest is dropped.
    pub fn send(&mut self, socket: BorrowedFd<'_>) -> io::Result<()> {
        let (mut sent, count) = (0, std::mem::take(&mut self.count));
        while sent < count {
            let rest = &mut self.headers[sent..count];
            let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
            // SAFETY: each header has one piece, each piece a part of our memory; all of them live until the call is over.
            let some = unsafe {
                libc::sendmmsg(socket.as_raw_fd(), rest.as_mut_ptr(), rest.len() as libc::c_uint, flags as _)
            };
            if some >= 0 {
                sent += some as usize;
                continue;
            }
            let error = io::Error::last_os_error();
            if !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) {
                return Err(error);
            }
            std::hint::spin_loop();
        }
        Ok(())
    }

    /// Replaces what is here by what has come, and returns how many. `waits`: the call sleeps until the first has come, as the socket's
    /// options say (SO_RCVTIMEO, SO_BUSY_POLL), and takes what is there then (MSG_WAITFORONE); else it does not sleep.
    pub fn receive(&mut self, socket: BorrowedFd<'_>, waits: bool) -> io::Result<usize> {
        self.count = 0;
        let (bytes, flags) = (self.place_bytes(), if waits { libc::MSG_WAITFORONE } else { libc::MSG_DONTWAIT });
        self.pieces.iter_mut().for_each(|piece| piece.iov_len = bytes);
        let (headers, no_limit) = (&mut self.headers, std::ptr::null_mut());
        // SAFETY: each header has one piece, each piece a part of our memory; all of them live until the call is over.
        let count = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                headers.as_mut_ptr(),
                headers.len() as libc::c_uint,
                flags as _,
                no_limit,
            )
        };
        if count < 0 {
            return Err(io::Error::last_os_error());
        }
        self.count = count as usize;
        Ok(self.count)
    }

    fn place_bytes(&self) -> usize {
        self.memory.len() / self.headers.len()
    }
}

impl fmt::Debug for MessageBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MessageBatch").field("len", &self.count).field("most", &self.headers.len()).finish()
    }
}

fn piece(bytes: &mut [u8]) -> libc::iovec {
    libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() }
}

fn header(piece: &mut libc::iovec) -> libc::mmsghdr {
    // SAFETY: mmsghdr is plain data; all zeroes is one without an address, control data or pieces.
    let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
    header.msg_hdr.msg_iov = piece;
    header.msg_hdr.msg_iovlen = 1;
    header
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;
    use std::time::Duration;

    fn pair() -> [UdpSocket; 2] {
        let sockets = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").expect("a port is free"));
        for (at, other) in [(0, 1), (1, 0)] {
            sockets[at].connect(sockets[other].local_addr().expect("it is bound")).expect("it can");
        }
        sockets
    }

    #[test]
    fn what_is_sent_by_one_call_comes_by_one_call() {
        let [near, far] = pair();
        let (mut out, mut back) = (MessageBatch::new(5, 8), MessageBatch::new(3, 6));
        let payloads: [&[u8]; 5] = [b"one", b"", b"three", b"eightish", b"5"];
        assert!(payloads.iter().all(|payload| out.push(payload)) && out.is_full() && !out.push(b"6"));
        out.send(near.as_fd()).expect("it can");
        assert!(out.is_empty() && !out.push(b"longer than it"));
        far.set_read_timeout(Some(Duration::from_secs(20))).expect("it can");
        assert_eq!(back.receive(far.as_fd(), true).expect("they are there"), 3);
        assert_eq!([back.get(0), back.get(1), back.get(2), back.get(3)], [&b"one"[..], b"", b"three", b""]);
        assert_eq!(back.receive(far.as_fd(), false).expect("they are there"), 2);
        assert_eq!([back.get(0), back.get(1), back.get(2)], [&b"eighti"[..], b"5", b""], "cut");
        assert_eq!(back.receive(far.as_fd(), false).expect_err("none").kind(), ErrorKind::WouldBlock);
        assert!(back.is_empty());
        out.send(near.as_fd()).expect("nothing is no error");
    }

    #[test]
    fn an_error_ends_a_batch() {
        let [near, far] = pair();
        drop(far);
        let mut out = MessageBatch::new(4, 8);
        for _ in 0..2 {
            (0..4).for_each(|_| assert!(out.push(b"x")));
            // The first call sends one at least, whose ICMP message the next meets.
            if let Err(error) = out.send(near.as_fd()) {
                assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
                assert!(out.is_empty());
                return;
            }
        }
        panic!("the port is closed");
    }
}
