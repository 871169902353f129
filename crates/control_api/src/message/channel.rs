//! One end of a connection: packets in, packets out, with descriptors.

use super::{DESCRIPTORS_MAX, Numbered, PACKET_BYTES_MAX};
use rustix::cmsg_space;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recvmsg, sendmsg, socket_with,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sidestep_sys::own_descriptors::keep;
use std::fmt;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

/// The longest wait for space at the other end, for a connection or a message.
const SEND_WAIT: Duration = Duration::from_secs(5);

/// The most descriptors of one packet (net/scm.h).
const SCM_MAX_FD: usize = 253;

/// A connected packet socket.
#[derive(Debug)]
pub struct Channel(OwnedFd);

/// A received packet with its descriptors.
#[derive(Debug)]
pub struct Incoming<T> {
    /// The message.
    pub message: Numbered<T>,
    /// Descriptors, close-on-exec.
    pub descriptors: Vec<OwnedFd>,
}

/// The reason why a packet could not be received or sent.
#[derive(Debug)]
pub enum Fault {
    /// The other end is gone.
    Closed,
    /// Nothing there yet, or no space: the channel does not wait, or has waited long enough.
    WouldBlock,
    /// The message came, but this process cannot open more descriptors, and those sent with it are lost.
    NoDescriptors {
        /// The number of the message.
        number: u32,
    },
    /// Not a message of this protocol; the text has the reason.
    Malformed(String),
    /// An error of the kernel.
    Io(io::Error),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("the connection was closed"),
            Self::WouldBlock => f.write_str("no answer in time"),
            Self::NoDescriptors { .. } => f.write_str("this process can open no more descriptors"),
            Self::Malformed(text) => write!(f, "not a message of this protocol: {text}"),
            Self::Io(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for Fault {}

impl From<rustix::io::Errno> for Fault {
    fn from(error: rustix::io::Errno) -> Self {
        use rustix::io::Errno;
        match error {
            Errno::WOULDBLOCK => Self::WouldBlock,
            Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN => Self::Closed,
            error => Self::Io(error.into()),
        }
    }
}

impl Channel {
    /// Connects to the socket at `path`.
    pub fn connect(path: &Path) -> io::Result<Self> {
        let address = SocketAddrUnix::new(path)?;
        let socket = keep(socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?);
        // Also bounds the wait of connect(2) for space in the listener's queue (unix(7)).
        set_socket_timeout(&socket, Timeout::Send, Some(SEND_WAIT))?;
        connect(&socket, &address)?;
        Ok(Self(socket))
    }

    /// Wraps a connected socket, blocking or not.
    pub fn over(socket: OwnedFd) -> Self {
        Self(socket)
    }

    /// Sends one message with at most [`DESCRIPTORS_MAX`] descriptors, as a whole or not at all.
    pub fn send<T: Serialize>(&self, message: &Numbered<T>, descriptors: &[BorrowedFd<'_>]) -> Result<(), Fault> {
        let bytes = serde_json::to_vec(message).map_err(|error| Fault::Malformed(error.to_string()))?;
        if bytes.len() > PACKET_BYTES_MAX || descriptors.len() > DESCRIPTORS_MAX {
            return Err(Fault::Malformed(format!("{} bytes, {} descriptors", bytes.len(), descriptors.len())));
        }
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(Fault::Malformed("the descriptors do not fit".into()));
        }
        loop {
            match sendmsg(&self.0, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL) {
                Ok(_) => return Ok(()),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Receives one message. Descriptors of a refused packet are closed.
    pub fn receive<T: DeserializeOwned>(&self) -> Result<Incoming<T>, Fault> {
        let mut descriptors = Vec::new();
        let message = self.receive_beside(&mut descriptors)?;
        Ok(Incoming { message, descriptors })
    }

    /// Receives one message and puts every received descriptor into `descriptors`, those of a refused packet, too:
    /// closing a stranger's descriptor may take long, and the caller does it at a better place.
    pub fn receive_beside<T: DeserializeOwned>(&self, descriptors: &mut Vec<OwnedFd>) -> Result<Numbered<T>, Fault> {
        let mut bytes = [0; PACKET_BYTES_MAX];
        // Space for all that a packet can carry: the kernel would close the rest on this thread.
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(SCM_MAX_FD))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut is_second = false;
        let received = loop {
            match recvmsg(&self.0, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC) {
                Err(rustix::io::Errno::INTR) => {}
                // The other end has hung up with a packet of ours unread. The error is reported once, before its last
                // messages.
                Err(rustix::io::Errno::CONNRESET) if !is_second => is_second = true,
                result => break result?,
            }
        };
        let before = descriptors.len();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                descriptors.extend(rights.map(keep));
            }
        }
        if received.flags.contains(ReturnFlags::TRUNC) {
            return Err(Fault::Malformed(format!("longer than {PACKET_BYTES_MAX} bytes")));
        }
        if descriptors.len() - before > DESCRIPTORS_MAX {
            return Err(Fault::Malformed("more descriptors than allowed".into()));
        }
        // An empty packet looks like the end of the connection; this side never sends one, and takes it as the end.
        if received.bytes == 0 {
            return Err(Fault::Closed);
        }
        let message: Numbered<T> = parse(&bytes[..received.bytes])?;
        // There was space for all that a packet can carry, so this process is at its limit.
        if received.flags.contains(ReturnFlags::CTRUNC) {
            return Err(Fault::NoDescriptors { number: message.number });
        }
        Ok(message)
    }
}

impl From<Channel> for OwnedFd {
    fn from(channel: Channel) -> Self {
        channel.0
    }
}

/// Parses a packet, possibly a stranger's, as a message.
fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<Numbered<T>, Fault> {
    serde_json::from_slice(bytes).map_err(|error| Fault::Malformed(error.to_string()))
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Reply, Request};
    use super::*;
    use rustix::net::{send, socketpair};
    use std::fs::File;

    fn pair() -> (Channel, Channel) {
        let pair =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC, None)
                .unwrap();
        (Channel::over(pair.0), Channel::over(pair.1))
    }

    #[test]
    fn messages_and_descriptors_arrive_together() {
        let (one, two) = pair();
        let file = File::open("/dev/null").unwrap();
        let message = Numbered { number: 7, body: Request::List { from: 3 } };
        one.send(&message, &[file.as_fd(), file.as_fd()]).unwrap();
        one.send(&message, &[]).unwrap();
        let incoming = two.receive::<Request>().unwrap();
        assert_eq!((incoming.message, incoming.descriptors.len()), (message, 2));
        assert_eq!(two.receive::<Request>().unwrap().descriptors.len(), 0);
        assert!(matches!(two.receive::<Request>(), Err(Fault::WouldBlock)));
        drop(one);
        // A program that another test starts has a copy of it until execve(2).
        let end =
            std::iter::repeat_with(|| two.receive::<Request>()).find(|end| !matches!(end, Err(Fault::WouldBlock)));
        assert!(matches!(end, Some(Err(Fault::Closed))));
        assert!(matches!(two.send(&Numbered { number: 0, body: Reply::Done }, &[]), Err(Fault::Closed)));
    }

    #[test]
    fn garbage_is_named_and_leaves_nothing_open() {
        let (one, two) = pair();
        let too_long = vec![b' '; PACKET_BYTES_MAX + 1];
        for bytes in [&b"\0"[..], b"{}", b"{\"number\":1,\"body\":{\"type\":\"nothing\"}}", &[0xff; 4096], &too_long] {
            send(&one, bytes, SendFlags::empty()).unwrap();
            assert!(matches!(two.receive::<Request>(), Err(Fault::Malformed(_))));
        }
        let deep = "[".repeat(4096);
        send(&one, deep.as_bytes(), SendFlags::empty()).unwrap();
        assert!(matches!(two.receive::<Request>(), Err(Fault::Malformed(_))));
        assert!(one.send(&Numbered { number: 0, body: "x".repeat(PACKET_BYTES_MAX) }, &[]).is_err());
    }

    /// Runs this test alone in its own process, because the limit is the process's.
    #[test]
    fn descriptors_for_which_there_is_no_room_do_not_make_a_message_malformed() {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        const ALONE: &str = "SIDESTEP_TEST_ALONE";
        if std::env::var_os(ALONE).is_none() {
            let name =
                "message::channel::tests::descriptors_for_which_there_is_no_room_do_not_make_a_message_malformed";
            let mut command = std::process::Command::new(std::env::current_exe().unwrap());
            let done = command.args(["--exact", name]).env(ALONE, "1").output().unwrap();
            let text = String::from_utf8_lossy(&done.stdout).into_owned();
            return assert!(done.status.success() && text.contains("1 passed"), "{text}");
        }
        let (one, two) = pair();
        let file = File::open("/dev/null").unwrap();
        one.send(&Numbered { number: 7, body: Request::List { from: 3 } }, &[file.as_fd(), file.as_fd()]).unwrap();
        let maximum = getrlimit(Resource::Nofile).maximum;
        setrlimit(Resource::Nofile, Rlimit { current: Some(3), maximum }).unwrap();
        assert!(matches!(two.receive::<Request>(), Err(Fault::NoDescriptors { number: 7 })));
        setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
        one.send(&Numbered { number: 8, body: Request::List { from: 3 } }, &[file.as_fd()]).unwrap();
        assert_eq!(two.receive::<Request>().unwrap().descriptors.len(), 1, "and the connection goes on");
    }

    #[test]
    fn a_hundred_descriptors_are_refused_and_closed() {
        let (one, two) = pair();
        // One end of a pipe: the other end sees when every copy is closed.
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let many = [writer.as_fd(); 100];
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(100))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(control.push(SendAncillaryMessage::ScmRights(&many)));
        let bytes = br#"{"number":1,"body":{"type":"list","from":0}}"#;
        sendmsg(&one, &[IoSlice::new(bytes)], &mut control, SendFlags::empty()).unwrap();
        drop(writer);
        let refused = two.receive::<Request>().unwrap_err().to_string();
        assert!(refused.contains("more descriptors than allowed"), "{refused}");
        assert_eq!(rustix::io::read(&reader, &mut [0; 1]), Ok(0), "no copy of the writing end is left");
    }
}
