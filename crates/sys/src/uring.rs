//! An io_uring for one connected socket: at most one send and one receive under way, each with a buffer of its own.
//!
//! A send is staged; the next [`SocketRing::recv`] or [`SocketRing::flush`] submits it. When no receive is under way the two
//! are linked, so that the receive starts when the send is done and one completion, the receive's, reports both: the thread
//! sleeps and wakes once per message instead of twice.
//!
//! The ring is created disabled and enabled by the first call, because with IORING_SETUP_SINGLE_ISSUER it belongs to the
//! thread that enables it. With IORING_SETUP_DEFER_TASKRUN (Linux 6.1) completions are made inside our own calls, never
//! by interrupting the thread: a spinning receive is therefore a system call that does not wait.

use io_uring::{IoUring, cqueue, opcode, squeue, types};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

/// Submission entries: a send, a receive, a cancel.
const ENTRIES: u32 = 4;
/// The largest message taken whole: the largest UDP datagram, rounded up. Longer streams are taken in parts.
const BUFFER_BYTES: usize = 64 << 10;
/// The longest wait for cancelled operations when a ring is dropped.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(1);

const SEND: u64 = 1;
const RECV: u64 = 2;
const CANCEL: u64 = 3;

/// The state of an operation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    /// Copied to the buffer, not yet submitted.
    Staged,
    Underway,
}

/// The ring of one connected socket, used by one thread.
pub struct SocketRing {
    ring: IoUring,
    /// A descriptor of its own: operations never reach a file that took the number of a closed one.
    socket: OwnedFd,
    /// Bytes that did not fit the caller's buffer are kept for the next receive; of a datagram they are cut off.
    is_stream: bool,
    enabled: bool,
    spin: bool,
    timeout: types::Timespec,
    send: State,
    send_buffer: Box<[u8]>,
    send_len: usize,
    /// The send was submitted linked to a receive and has no completion when it succeeds.
    send_linked: bool,
    recv: State,
    recv_buffer: Box<[u8]>,
    /// Outcome of a finished receive that the caller has not taken, and how much of its bytes have been.
    received: Option<(i32, usize)>,
    failure: Option<i32>,
}

impl SocketRing {
    /// Makes the ring of `socket`, of which it keeps a descriptor of its own. `is_stream`: bytes without borders, not
    /// datagrams. A receive sleeps for at most `timeout`; with `spin` it never does.
    ///
    /// # Errors
    /// io_uring is missing, switched off (kernel.io_uring_disabled) or older than Linux 6.1.
    pub fn new(socket: impl AsFd, is_stream: bool, spin: bool, timeout: Duration) -> io::Result<Self> {
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_r_disabled()
            .dontfork()
            .build(ENTRIES)?;
        Ok(Self {
            ring,
            socket: socket.as_fd().try_clone_to_owned()?,
            is_stream,
            enabled: false,
            spin,
            timeout: timeout.into(),
            send: State::Idle,
            send_buffer: vec![0; BUFFER_BYTES].into(),
            send_len: 0,
            send_linked: false,
            recv: State::Idle,
            recv_buffer: vec![0; BUFFER_BYTES].into(),
            received: None,
            failure: None,
        })
    }

    /// Stages `bytes` and returns how many were taken: at most 64 KiB.
    ///
    /// # Errors
    /// `WouldBlock` while the send before is under way; the error of an earlier send.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.fail_late()?;
        if self.send != State::Idle {
            self.flush()?;
            self.reap();
            self.fail_late()?;
        }
        if self.send != State::Idle {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let taken = bytes.len().min(BUFFER_BYTES);
        self.send_buffer[..taken].copy_from_slice(&bytes[..taken]);
        self.send_len = taken;
        self.send = State::Staged;
        Ok(taken)
    }

    /// Submits a staged send without waiting.
    ///
    /// # Errors
    /// The error of an earlier send, or of io_uring_enter.
    pub fn flush(&mut self) -> io::Result<()> {
        self.fail_late()?;
        if self.send == State::Staged {
            self.push_send(false)?;
        }
        self.enter(0)
    }

    /// Receives into `buffer`; 0 is the end of a stream.
    ///
    /// # Errors
    /// `WouldBlock` when nothing came in time; the error of the receive, or of an earlier send.
    pub fn recv(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.complete()?;
        self.take(buffer)
    }

    /// Shows the bytes of a stream that have come to `deliver`, which returns how many it has taken; 0 is the end of the stream.
    ///
    /// # Errors
    /// As [`SocketRing::recv`]; `WouldBlock`, too, when nothing was taken.
    pub fn recv_with(&mut self, deliver: &mut dyn FnMut(&[u8]) -> usize) -> io::Result<usize> {
        self.complete()?;
        let (result, taken) = self.take_result()?;
        let rest = &self.recv_buffer[taken..result];
        if rest.is_empty() {
            return Ok(0);
        }
        let count = deliver(rest).min(rest.len());
        if count < rest.len() {
            self.received = Some((result as i32, taken + count));
        }
        if count == 0 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(count) }
    }

    /// Receives, unless the bytes of an earlier receive are there.
    fn complete(&mut self) -> io::Result<()> {
        self.fail_late()?;
        if self.received.is_none() {
            self.begin()?;
            self.enter(u32::from(!self.spin))?;
            self.reap();
            self.fail_late()?;
        }
        Ok(())
    }

    /// Takes the outcome of a finished receive: the bytes that came, and how many of them the caller has had.
    fn take_result(&mut self) -> io::Result<(usize, usize)> {
        match self.received.take() {
            None => Err(io::ErrorKind::WouldBlock.into()),
            Some((result, _)) if result < 0 => Err(io::Error::from_raw_os_error(-result)),
            Some((result, taken)) => Ok((result as usize, taken)),
        }
    }

    /// Puts a staged send and, unless one is under way, a receive into the submission queue.
    fn begin(&mut self) -> io::Result<()> {
        let needs_recv = self.recv == State::Idle;
        if self.send == State::Staged {
            self.push_send(needs_recv)?;
        }
        if needs_recv {
            self.push_recv()?;
        }
        Ok(())
    }

    fn push_send(&mut self, linked: bool) -> io::Result<()> {
        let entry =
            opcode::Send::new(types::Fd(self.socket.as_raw_fd()), self.send_buffer.as_ptr(), self.send_len as u32)
                .flags(libc::MSG_WAITALL | libc::MSG_NOSIGNAL)
                .build()
                .user_data(SEND);
        let flags = if linked { squeue::Flags::IO_LINK | squeue::Flags::SKIP_SUCCESS } else { squeue::Flags::empty() };
        self.push(&entry.flags(flags))?;
        self.send = State::Underway;
        self.send_linked = linked;
        Ok(())
    }

    fn push_recv(&mut self) -> io::Result<()> {
        let entry =
            opcode::Recv::new(types::Fd(self.socket.as_raw_fd()), self.recv_buffer.as_mut_ptr(), BUFFER_BYTES as u32);
        self.push(&entry.build().user_data(RECV))?;
        self.recv = State::Underway;
        Ok(())
    }

    fn push(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        // SAFETY: the entry's buffer is boxed in `self`, is not touched while the operation is under way (`State`), and
        // outlives it: `drop` cancels and waits, or leaks the buffers.
        let pushed = unsafe { self.ring.submission().push(entry) };
        pushed.map_err(|_| io::Error::other("the submission queue is full"))
    }

    /// One io_uring_enter: submits, lets the kernel complete, and sleeps until `want` completions are there.
    fn enter(&mut self, want: u32) -> io::Result<()> {
        if !self.enabled {
            self.ring.submitter().register_enable_rings()?;
            self.enabled = true;
        }
        let result = if want == 0 { self.enter_without_waiting() } else { self.enter_and_wait(want) };
        match result {
            Ok(_) => Ok(()),
            Err(error) if matches!(error.raw_os_error(), Some(libc::ETIME | libc::EINTR | libc::EBUSY)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn enter_and_wait(&self, want: u32) -> io::Result<usize> {
        let arguments = types::SubmitArgs::new().timespec(&self.timeout);
        self.ring.submitter().submit_with_args(want as usize, &arguments)
    }

    fn enter_without_waiting(&mut self) -> io::Result<usize> {
        let staged = self.ring.submission().len() as u32;
        const GETEVENTS: u32 = 1; // IORING_ENTER_GETEVENTS: also run what the kernel deferred to us.
        // SAFETY: no argument is passed, and the entries submitted meet `push`'s conditions.
        unsafe { self.ring.submitter().enter::<libc::sigset_t>(staged, 0, GETEVENTS, None) }
    }

    /// Handles the completions.
    fn reap(&mut self) {
        while let Some(entry) = self.next_completion() {
            match entry.user_data() {
                SEND => self.sent(entry.result()),
                RECV => self.received(entry.result()),
                _ => {}
            }
        }
    }

    fn next_completion(&mut self) -> Option<cqueue::Entry> {
        self.ring.completion().next()
    }

    fn sent(&mut self, result: i32) {
        self.send = State::Idle;
        if result < 0 {
            self.failure = Some(-result);
        } else if (result as usize) < self.send_len {
            self.failure = Some(libc::EPIPE);
        }
    }

    fn received(&mut self, result: i32) {
        self.recv = State::Idle;
        if self.send_linked && self.send == State::Underway {
            self.send = State::Idle; // No completion: it succeeded before the receive began.
        }
        // A receive is cancelled when the send before it failed; that error is the one to report.
        if result != -libc::ECANCELED {
            self.received = Some((result, 0));
        }
    }

    /// Reports once the error of a send whose bytes had been taken.
    fn fail_late(&mut self) -> io::Result<()> {
        self.failure.take().map_or(Ok(()), |errno| Err(io::Error::from_raw_os_error(errno)))
    }

    /// Copies the bytes of a finished receive to the caller.
    fn take(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (result, taken) = self.take_result()?;
        let rest = &self.recv_buffer[taken..result];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        if self.is_stream && count < rest.len() {
            self.received = Some((result as i32, taken + count));
        }
        Ok(count)
    }
}

impl Drop for SocketRing {
    fn drop(&mut self) {
        if self.enabled && !self.cancel_all() {
            // The kernel may still write to them: losing 128 KiB is the safe side.
            std::mem::forget(std::mem::take(&mut self.recv_buffer));
            std::mem::forget(std::mem::take(&mut self.send_buffer));
        }
    }
}

impl SocketRing {
    /// Cancels what is under way and waits for its completions; returns whether the buffers are ours again.
    fn cancel_all(&mut self) -> bool {
        self.timeout = CANCEL_TIMEOUT.into();
        let cancel = opcode::AsyncCancel2::new(types::CancelBuilder::any()).build().user_data(CANCEL);
        for _ in 0..ENTRIES {
            self.reap();
            if self.send != State::Underway && self.recv != State::Underway {
                return true;
            }
            if self.push(&cancel).is_err() || self.enter(2).is_err() {
                return false;
            }
        }
        false
    }
}
