//! The rest of a hand-over whose control was lost in the middle.
//!
//! The end of repair mode decides, which control alone can bring about. A socket in that mode has received nothing of the peer's: it
//! is disconnected without a segment, which gives the segments back to the stack. One that is out of it has the segments, and lacks
//! nothing that needs a privilege.

use rustix::net::sockopt::{set_socket_reuseaddr, socket_reuseaddr};
use rustix::net::{Shutdown, shutdown};
use sidestep_control_api::message::HandOver;
use sidestep_sys::socket::{TcpState, detach_filter, tcp_state};
use sidestep_sys::stream_options::has_filter;
use sidestep_sys::tcp_queue::fill;
use sidestep_sys::tcp_repair::{self, BufferSizes};
use std::io;
use std::os::fd::BorrowedFd;

/// What control changes of a socket, as it was before.
pub(super) struct Before {
    may_reuse: bool,
    has_filter: bool,
    /// Of its buffers; `None` for what is no socket.
    sizes: Option<BufferSizes>,
}

impl Before {
    pub(super) fn of(socket: BorrowedFd<'_>) -> Self {
        Self {
            may_reuse: socket_reuseaddr(socket).unwrap_or(false),
            has_filter: has_filter(socket),
            sizes: BufferSizes::of(socket).ok(),
        }
    }

    /// Returns whether the socket is the connection; it is unconnected if not.
    pub(super) fn settle(&self, socket: BorrowedFd<'_>, connection: &HandOver, bytes: BorrowedFd<'_>) -> bool {
        let is_in_repair = tcp_repair::is_on(socket).unwrap_or(false);
        if is_in_repair {
            // One that was never connected is as wanted.
            let _ = tcp_repair::disconnect(socket);
            // Not beyond the limits of the host: then they stay larger.
            let _ = self.sizes.map(|sizes| sizes.restore(socket));
        }
        let is_made = !is_in_repair && tcp_state(socket).is_ok_and(|state| state == TcpState::Connection);
        if !self.has_filter {
            // It may have none, or none any more.
            let _ = detach_filter(socket);
        }
        // Repair mode has changed it. A connection that was accepted lets its listener's successor bind.
        let _ = set_socket_reuseaddr(socket, self.may_reuse || is_made);
        if is_made && finish(socket, connection, bytes).is_err() {
            // Half of a stream is worse than none.
            let _ = tcp_repair::disconnect(socket);
        }
        is_made
    }
}

/// Puts in what control has not: the rest of the bytes that were never sent, and the FIN.
fn finish(socket: BorrowedFd<'_>, connection: &HandOver, bytes: BorrowedFd<'_>) -> io::Result<()> {
    let sent = u64::from(connection.sampled()) + u64::from(connection.unacknowledged);
    // A FIN counts as a byte, and comes last.
    let put = tcp_repair::bytes_put(socket)?.saturating_sub(sent).min(u64::from(connection.unsent));
    let from = u64::from(connection.received) + u64::from(connection.unacknowledged) + put;
    fill(socket, bytes, from..connection.bytes())?;
    if connection.own_fin {
        shutdown(socket, Shutdown::Write)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidestep_sys::memory::memfd;
    use sidestep_sys::process::is_root;
    use sidestep_sys::tcp_repair::{MARK, Negotiated, Queue, Window};
    use socket2::{Domain, Socket, Type};
    use std::fs::File;
    use std::io::{Read, Write};
    use std::net::SocketAddr;
    use std::os::fd::AsFd;

    const UNACKNOWLEDGED: &[u8] = b"which the peer has";
    const UNSENT: &[u8] = b"and what it has not";

    fn can_repair() -> bool {
        if !is_root() {
            println!("skipped: needs root");
        }
        is_root()
    }

    fn bound() -> (Socket, SocketAddr) {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        let at = socket.local_addr().unwrap().as_socket().unwrap();
        (socket, at)
    }

    /// One end of a connection, in repair mode.
    fn make(socket: &Socket, remote: SocketAddr, [send, receive]: [u32; 2]) {
        let socket_fd = socket.as_fd();
        tcp_repair::begin(socket_fd).unwrap();
        tcp_repair::seclude(socket_fd).unwrap();
        tcp_repair::set_sequence(socket_fd, Queue::Receive, receive).unwrap();
        tcp_repair::set_sequence(socket_fd, Queue::Send, send).unwrap();
        socket.connect(&remote.into()).unwrap();
        let negotiated =
            Negotiated { segment_bytes: 1460, send_shift: 0, receive_shift: 0, sack: true, timestamps: false };
        tcp_repair::set_negotiated(socket_fd, &negotiated).unwrap();
        let (room, send_update) = (30_000, receive);
        let window = Window { send_update, send: room, send_max: room, receive: room, receive_from: receive };
        tcp_repair::set_window(socket_fd, &window).unwrap();
        tcp_repair::choose(socket_fd, Queue::Send).unwrap();
    }

    fn record(local: SocketAddr, remote: SocketAddr) -> (HandOver, File) {
        let mut bytes = File::from(memfd("test", false).unwrap());
        bytes.write_all(&[UNACKNOWLEDGED, UNSENT].concat()).unwrap();
        let connection = HandOver {
            local,
            remote,
            vlan: None,
            send_start: 1000,
            has_acknowledged: true,
            unacknowledged: UNACKNOWLEDGED.len() as u32,
            unsent: UNSENT.len() as u32,
            receive_end: 2000,
            received: 0,
            own_fin: true,
            is_fin_sent: false,
            peer_fin: false,
            segment_bytes: 1460,
            sack: true,
            send_shift: 0,
            receive_shift: 0,
            timestamps: None,
            send_window: 30_000,
            send_window_max: 30_000,
            send_update: 2000,
            receive_window: 30_000,
        };
        (connection, bytes)
    }

    #[test]
    fn a_socket_in_repair_mode_is_given_up_in_every_step_of_it() {
        if !can_repair() {
            return;
        }
        for is_connected in [false, true] {
            let ((socket, local), (_peer, remote)) = (bound(), bound());
            let before = Before::of(socket.as_fd());
            let sizes = BufferSizes::of(socket.as_fd()).unwrap();
            let (connection, bytes) = record(local, remote);
            if is_connected {
                tcp_repair::enlarge_buffer(socket.as_fd(), Queue::Receive, 1 << 20).unwrap();
                make(&socket, remote, [999, 2000]);
                (&socket).write_all(UNACKNOWLEDGED).unwrap();
            } else {
                tcp_repair::begin(socket.as_fd()).unwrap();
            }
            assert!(!before.settle(socket.as_fd(), &connection, bytes.as_fd()));
            assert_eq!(tcp_state(socket.as_fd()).unwrap(), TcpState::Closed);
            assert!(!has_filter(socket.as_fd()) && !socket.reuse_address().unwrap());
            assert_eq!(BufferSizes::of(socket.as_fd()).unwrap(), sizes);
            assert!(socket.take_error().unwrap().is_none());
            // The next control can have it as it is.
            make(&socket, remote, [999, 2000]);
        }
    }

    /// Control has put in so much of what was never sent, or all and the FIN.
    #[test]
    fn a_connection_out_of_repair_mode_gets_what_it_lacks() {
        if !can_repair() {
            return;
        }
        for put in 0..=UNSENT.len() + 1 {
            let ((socket, local), (peer, remote)) = (bound(), bound());
            let before = Before::of(socket.as_fd());
            let (connection, bytes) = record(local, remote);
            make(&peer, local, [2000, 1000 + UNACKNOWLEDGED.len() as u32]);
            tcp_repair::abandon(peer.as_fd()).unwrap();
            detach_filter(peer.as_fd()).unwrap();
            make(&socket, remote, [999, 2000]);
            (&socket).write_all(&[&[0], UNACKNOWLEDGED].concat()).unwrap();
            tcp_repair::abandon(socket.as_fd()).unwrap();
            (&socket).write_all(&UNSENT[..put.min(UNSENT.len())]).unwrap();
            if put > UNSENT.len() {
                socket.shutdown(std::net::Shutdown::Write).unwrap();
            }
            assert!(before.settle(socket.as_fd(), &connection, bytes.as_fd()));
            assert!(!has_filter(socket.as_fd()));
            let mut got = Vec::new();
            (&peer).read_to_end(&mut got).unwrap();
            assert_eq!(got, UNSENT, "of which there were {put}");
        }
    }

    #[test]
    fn a_filter_of_the_programs_own_stays() {
        let (socket, local) = bound();
        sidestep_sys::drop_filter::attach(socket.as_fd(), sidestep_sys::drop_filter::Owner::new()).unwrap();
        let (connection, bytes) = record(local, local);
        assert!(!Before::of(socket.as_fd()).settle(socket.as_fd(), &connection, bytes.as_fd()));
        assert!(has_filter(socket.as_fd()));
    }

    #[test]
    fn a_secluded_connection_receives_marked_segments_alone() {
        if !can_repair() {
            return;
        }
        assert_ne!(MARK, 0, "no segment without URG has it");
        let ((socket, local), (peer, remote)) = (bound(), bound());
        make(&peer, local, [2000, 1000]);
        make(&socket, remote, [1000, 2000]);
        for end in [&peer, &socket] {
            tcp_repair::abandon(end.as_fd()).unwrap();
        }
        (&peer).write_all(b"dropped").unwrap();
        // On loopback it has arrived by now.
        assert_eq!(tcp_repair::bytes_put(peer.as_fd()).unwrap(), 7);
        socket.set_nonblocking(true).unwrap();
        assert_eq!((&socket).read(&mut [0; 8]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        detach_filter(socket.as_fd()).unwrap();
        socket.set_nonblocking(false).unwrap();
        let mut got = [0; 7];
        (&socket).read_exact(&mut got).unwrap();
        assert_eq!(&got, b"dropped", "it is sent again");
    }
}
