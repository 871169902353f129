//! A descriptor that does not close.

use rustix::net::sockopt::set_socket_linger;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::time::Duration;

/// A TCP connection over loopback whose close(2) waits for ten minutes, because its peer, which waits at the listener, does not
/// read.
///
/// # Panics
/// Loopback does not work.
pub fn lingering() -> (TcpListener, OwnedFd) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback can be bound");
    let mut stream = TcpStream::connect(listener.local_addr().expect("it is bound")).expect("it listens");
    stream.set_nonblocking(true).expect("any socket can");
    while stream.write(&[0; 65_536]).is_ok() {}
    stream.set_nonblocking(false).expect("any socket can");
    set_socket_linger(&stream, Some(Duration::from_secs(600))).expect("any socket can");
    (listener, stream.into())
}
