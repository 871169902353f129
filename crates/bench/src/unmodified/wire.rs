//! A blocking socket of std, over TCP or UDP.

use crate::link::Link;
use crate::transport::Transport;
use sidestep_unmodified::status::SocketKind;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

/// A connected socket.
pub(super) enum Wire {
    Stream(TcpStream),
    Datagrams(UdpSocket),
}

impl Wire {
    /// Connects, within `timeout`.
    pub(super) fn connect(transport: Transport, remote: SocketAddr, timeout: Duration) -> io::Result<Self> {
        if !transport.is_datagram() {
            return TcpStream::connect_timeout(&remote, timeout).map(Self::Stream);
        }
        let socket = match remote {
            SocketAddr::V4(_) => UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)),
            SocketAddr::V6(_) => UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)),
        }?;
        socket.connect(remote)?;
        Ok(Self::Datagrams(socket))
    }

    /// What the status page calls it.
    pub(super) fn kind(&self) -> SocketKind {
        match self {
            Self::Stream(_) => SocketKind::TcpStream,
            Self::Datagrams(_) => SocketKind::UdpSocket,
        }
    }

    /// Sets the options: a receive waits for `silence` at the most, and small segments leave at once.
    pub(super) fn set(&self, silence: Duration) -> io::Result<()> {
        match self {
            Self::Stream(stream) => stream.set_nodelay(true).and_then(|()| stream.set_read_timeout(Some(silence))),
            Self::Datagrams(socket) => socket.set_read_timeout(Some(silence)),
        }
    }
}

impl Link for Wire {
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Stream(stream) => stream.write(bytes),
            Self::Datagrams(socket) => socket.send(bytes),
        }
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Stream(stream) => stream.read(buffer),
            Self::Datagrams(socket) => socket.recv(buffer),
        }
    }

    fn shutdown(&mut self) -> io::Result<()> {
        match self {
            Self::Stream(stream) => stream.shutdown(Shutdown::Write),
            Self::Datagrams(_) => Ok(()),
        }
    }
}
