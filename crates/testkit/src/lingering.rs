//! A descriptor whose close(2) blocks.

use rustix::net::sockopt::set_socket_linger;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::time::Duration;

/// A TCP connection over loopback whose close(2) lingers for this time, because its peer, still in the listener's
/// queue, does not read. A program that another thread starts meanwhile has a copy until execve(2), and may be the one
/// that lingers: use a few seconds unless the test needs more.
///
/// # Panics
/// Panics if loopback does not work.
pub fn lingering(time: Duration) -> (TcpListener, OwnedFd) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback can be bound");
    let mut stream = TcpStream::connect(listener.local_addr().expect("it is bound")).expect("it listens");
    stream.set_nonblocking(true).expect("any socket can");
    while stream.write(&[0; 65_536]).is_ok() {}
    stream.set_nonblocking(false).expect("any socket can");
    set_socket_linger(&stream, Some(time)).expect("any socket can");
    (listener, stream.into())
}
