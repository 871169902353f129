//! TCP_REPAIR: a TCP socket of the kernel becomes a connection that was made elsewhere (Linux 3.5, CONFIG_CHECKPOINT_RESTORE).
//!
//! The facts are those of linux/tcp.h, tcp(7) and of CRIU, which restores connections so. In repair mode connect(2), close(2)
//! and shutdown(2) send nothing; bind(2) takes a port whoever holds it; the sequence numbers of both queues are set before connect(2),
//! options, timestamp and windows behind it; send(2) fills the chosen queue. Bytes put into the send queue count as sent. Segments that
//! arrive are processed all the same. It needs CAP_NET_ADMIN in the user namespace of the socket's network namespace, once: whoever
//! has a descriptor of a socket in repair mode may use the mode.

use crate::socket::{NOTHING, attach_filter, unread_by_peer_bytes};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

const TCP_REPAIR: i32 = 19;
const TCP_REPAIR_QUEUE: i32 = 20;
const TCP_QUEUE_SEQ: i32 = 21;
const TCP_REPAIR_OPTIONS: i32 = 22;
const TCP_TIMESTAMP: i32 = 24;
const TCP_REPAIR_WINDOW: i32 = 29;

/// Values of TCP_REPAIR; the last one ends it without a window probe (Linux 4.20).
const ON: i32 = 1;
const OFF: i32 = 0;
const OFF_WITHOUT_PROBE: i32 = -1;

/// Kinds of options (RFC 9293 section 3.1, RFC 2018, RFC 7323), as TCP_REPAIR_OPTIONS has them.
const MAXIMUM_SEGMENT_SIZE: u32 = 2;
const WINDOW_SCALE: u32 = 3;
const SACK_PERMITTED: u32 = 4;
const TIMESTAMPS: u32 = 8;

/// Missing in the libc crate (asm-generic/socket.h).
const SO_BUF_LOCK: i32 = 72;

/// A queue of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// Neither: send(2) is refused.
    None = 0,
    /// Bytes received and not read.
    Receive = 1,
    /// Bytes sent and not acknowledged.
    Send = 2,
}

/// The options that both SYNs have agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Negotiated {
    /// The largest segment to send, options included.
    pub segment_bytes: u16,
    /// The scale of the peer's windows, and of ours; 0 without scaling.
    pub send_shift: u8,
    /// See `send_shift`.
    pub receive_shift: u8,
    /// SACK was agreed on.
    pub sack: bool,
    /// Timestamps were agreed on.
    pub timestamps: bool,
}

/// `struct tcp_repair_window`: sequence numbers and bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// SND.WL1
    pub send_update: u32,
    /// SND.WND
    pub send: u32,
    /// The largest SND.WND so far.
    pub send_max: u32,
    /// The room behind `receive_from` that the peer was offered.
    pub receive: u32,
    /// RCV.NXT when that was offered.
    pub receive_from: u32,
}

/// Enters repair mode. The socket is closed, bound or not; EPERM without the capability.
pub fn begin(socket: BorrowedFd<'_>) -> io::Result<()> {
    set(socket, libc::IPPROTO_TCP, TCP_REPAIR, &ON)
}

/// Leaves repair mode, or has left it; an established connection asks its peer for its window. The address may not be shared from
/// then on (SO_REUSEADDR).
pub fn end(socket: BorrowedFd<'_>) -> io::Result<()> {
    set(socket, libc::IPPROTO_TCP, TCP_REPAIR, &OFF)
}

/// Leaves repair mode without a segment.
pub fn abandon(socket: BorrowedFd<'_>) -> io::Result<()> {
    set(socket, libc::IPPROTO_TCP, TCP_REPAIR, &OFF_WITHOUT_PROBE)
}

/// Returns whether the socket is in repair mode.
pub fn is_on(socket: BorrowedFd<'_>) -> io::Result<bool> {
    Ok(get(socket, libc::IPPROTO_TCP, TCP_REPAIR)? != 0)
}

/// The urgent pointer, without URG, of segments that a secluded socket receives: RFC 9293 gives it no meaning there.
pub const MARK: u16 = 0x5352;

/// Has a socket receive none but marked segments, until its filter is detached: whatever a connection in repair mode receives it
/// acknowledges, and it may never come out of that mode.
pub fn seclude(socket: BorrowedFd<'_>) -> io::Result<()> {
    // The filter begins at the header of TCP, whose last two bytes are the urgent pointer (linux/bpf_common.h).
    let load = libc::sock_filter { code: 0x28, jt: 0, jf: 0, k: 18 };
    let compare = libc::sock_filter { code: 0x15, jt: 0, jf: 1, k: u32::from(MARK) };
    let all = libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: u32::MAX };
    attach_filter(socket, &[load, compare, all, NOTHING])
}

/// Bytes that were put into the send queue of a connection since it was made, acknowledged or not, and its FIN as one. They are
/// exact where nobody writes meanwhile.
pub fn bytes_put(socket: BorrowedFd<'_>) -> io::Result<u64> {
    loop {
        let before = bytes_acknowledged(socket)?;
        let unacknowledged = unread_by_peer_bytes(socket)?;
        // What is acknowledged in between leaves one for the other.
        if bytes_acknowledged(socket)? == before {
            return Ok(before + unacknowledged as u64);
        }
    }
}

/// `tcpi_bytes_acked` of `struct tcp_info` (Linux 4.1), which the libc crate does not have.
fn bytes_acknowledged(socket: BorrowedFd<'_>) -> io::Result<u64> {
    const PLACE: usize = 15;
    let mut info = [0_u64; PLACE + 1];
    let mut size = size_of_val(&info) as libc::socklen_t;
    // SAFETY: `info` and `size` are valid for the kernel to write to, which writes no more than `size` bytes.
    let result = unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, info.as_mut_ptr().cast(), &raw mut size)
    };
    if result == 0 { Ok(info[PLACE]) } else { Err(io::Error::last_os_error()) }
}

/// Chooses a queue.
pub fn choose(socket: BorrowedFd<'_>, queue: Queue) -> io::Result<()> {
    set(socket, libc::IPPROTO_TCP, TCP_REPAIR_QUEUE, &(queue as i32))
}

/// Sets the number of the next byte of a queue; before connect(2).
pub fn set_sequence(socket: BorrowedFd<'_>, queue: Queue, sequence: u32) -> io::Result<()> {
    choose(socket, queue)?;
    set(socket, libc::IPPROTO_TCP, TCP_QUEUE_SEQ, &sequence)
}

/// Sets the options that were agreed on; behind connect(2). The window scales are always set: without them the kernel has
/// scaled its own window by its default.
pub fn set_negotiated(socket: BorrowedFd<'_>, negotiated: &Negotiated) -> io::Result<()> {
    let scales = u32::from(negotiated.send_shift) | u32::from(negotiated.receive_shift) << 16;
    let all = [
        Some([MAXIMUM_SEGMENT_SIZE, u32::from(negotiated.segment_bytes)]),
        Some([WINDOW_SCALE, scales]),
        negotiated.sack.then_some([SACK_PERMITTED, 0]),
        negotiated.timestamps.then_some([TIMESTAMPS, 0]),
    ];
    all.into_iter().flatten().try_for_each(|option| set(socket, libc::IPPROTO_TCP, TCP_REPAIR_OPTIONS, &option))
}

/// Has the clock of our timestamps, whose tick is a millisecond, go on from `value`, or from the next number: the lowest bit means
/// microseconds (Linux 6.7).
pub fn set_timestamp(socket: BorrowedFd<'_>, value: u32) -> io::Result<()> {
    set(socket, libc::IPPROTO_TCP, TCP_TIMESTAMP, &(value.wrapping_add(1) & !1))
}

/// Sets the windows (Linux 4.8); once the receive queue is filled.
pub fn set_window(socket: BorrowedFd<'_>, window: &Window) -> io::Result<()> {
    set(socket, libc::IPPROTO_TCP, TCP_REPAIR_WINDOW, window)
}

/// Dissolves the connection of a socket in repair mode: nothing is sent, a port that was bound stays bound. The error that the
/// kernel leaves is taken.
pub fn disconnect(socket: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: all-zero bytes are a valid sockaddr, of the family AF_UNSPEC.
    let nobody: libc::sockaddr = unsafe { std::mem::zeroed() };
    // SAFETY: the address lives for the call, and its size is given.
    let result =
        unsafe { libc::connect(socket.as_raw_fd(), &raw const nobody, size_of_val(&nobody) as libc::socklen_t) };
    let outcome = if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
    let _ = get(socket, libc::SOL_SOCKET, libc::SO_ERROR);
    outcome
}

/// Has a buffer hold at least so many bytes, whatever the limits of the host and whatever it is set to (SO_SNDBUFFORCE,
/// SO_RCVBUFFORCE). One that the kernel sizes by itself goes on growing (SO_BUF_LOCK, Linux 5.14).
pub fn enlarge_buffer(socket: BorrowedFd<'_>, queue: Queue, bytes: usize) -> io::Result<()> {
    let (read, write) = match queue {
        Queue::None => return Ok(()),
        Queue::Receive => (libc::SO_RCVBUF, libc::SO_RCVBUFFORCE),
        Queue::Send => (libc::SO_SNDBUF, libc::SO_SNDBUFFORCE),
    };
    let wanted = i32::try_from(bytes).unwrap_or(i32::MAX / 4).min(i32::MAX / 4);
    // The kernel doubles what is set, for its own part.
    if get(socket, libc::SOL_SOCKET, read)? >= 2 * wanted {
        return Ok(());
    }
    let locks = get(socket, libc::SOL_SOCKET, SO_BUF_LOCK);
    set(socket, libc::SOL_SOCKET, write, &wanted)?;
    if let Ok(locks) = locks {
        set(socket, libc::SOL_SOCKET, SO_BUF_LOCK, &locks)?;
    }
    Ok(())
}

/// The sizes of a socket's buffers, and which of them the program has set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferSizes {
    receive: i32,
    send: i32,
    /// `None` before Linux 5.14.
    locks: Option<i32>,
}

impl BufferSizes {
    /// Those of a socket now.
    pub fn of(socket: BorrowedFd<'_>) -> io::Result<Self> {
        let option = |name| get(socket, libc::SOL_SOCKET, name);
        Ok(Self { receive: option(libc::SO_RCVBUF)?, send: option(libc::SO_SNDBUF)?, locks: option(SO_BUF_LOCK).ok() })
    }

    /// Gives a socket these sizes again: without CAP_NET_ADMIN as far as the limits of the host allow.
    pub fn restore(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        let now = Self::of(socket)?;
        let restore = |size: i32, [forced, limited]: [i32; 2]| {
            // The kernel doubles it.
            let half = size / 2;
            set(socket, libc::SOL_SOCKET, forced, &half).or_else(|_| set(socket, libc::SOL_SOCKET, limited, &half))
        };
        if now.receive != self.receive {
            restore(self.receive, [libc::SO_RCVBUFFORCE, libc::SO_RCVBUF])?;
        }
        if now.send != self.send {
            restore(self.send, [libc::SO_SNDBUFFORCE, libc::SO_SNDBUF])?;
        }
        self.locks.map_or(Ok(()), |locks| set(socket, libc::SOL_SOCKET, SO_BUF_LOCK, &locks))
    }
}

/// States in which the peer's FIN has come (linux/tcp_states.h): TIME-WAIT, CLOSE, CLOSE-WAIT, LAST-ACK, CLOSING.
const PEER_HAS_FINISHED: [u8; 5] = [6, 7, 8, 9, 11];

/// Returns whether the peer of a connection has finished.
pub fn has_peer_fin(socket: BorrowedFd<'_>) -> io::Result<bool> {
    // The first byte of `struct tcp_info`.
    let mut state: u8 = 0;
    let mut size = size_of::<u8>() as libc::socklen_t;
    // SAFETY: `state` and `size` are valid for the kernel to write to, which writes no more than `size` bytes.
    let result = unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, (&raw mut state).cast(), &raw mut size)
    };
    if result == 0 { Ok(PEER_HAS_FINISHED.contains(&state)) } else { Err(io::Error::last_os_error()) }
}

/// The cookie of a socket, which no other socket has while this host runs (SO_COOKIE, Linux 4.12).
pub fn cookie(socket: BorrowedFd<'_>) -> io::Result<u64> {
    let mut value: u64 = 0;
    let mut size = size_of::<u64>() as libc::socklen_t;
    // SAFETY: `value` and `size` are valid for the kernel to write to.
    let result = unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_COOKIE, (&raw mut value).cast(), &raw mut size)
    };
    if result == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}

fn set<T>(socket: BorrowedFd<'_>, level: i32, name: i32, value: &T) -> io::Result<()> {
    // SAFETY: every caller gives the plain words that the option takes; they live for the call, and their size is given.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn get(socket: BorrowedFd<'_>, level: i32, name: i32) -> io::Result<i32> {
    let mut value: i32 = 0;
    let mut size = size_of::<i32>() as libc::socklen_t;
    // SAFETY: `value` and `size` are valid for the kernel to write to.
    let result = unsafe { libc::getsockopt(socket.as_raw_fd(), level, name, (&raw mut value).cast(), &raw mut size) };
    if result == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}
