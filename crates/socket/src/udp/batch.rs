//! Several datagrams in one call, as sendmmsg(2) and recvmmsg(2): one flush for all that is sent, one turn of the engine for all that has
//! come.

use crate::engine::Engine;
use crate::engine::event_loop::FRAMES_PER_CALL;
use crate::error::{Error, SendError};
use crate::udp::datagram::Datagram;
use crate::udp::socket::Handle;
use std::net::SocketAddr;

/// A payload and where it goes; no address: to the peer of a connected socket.
pub type Message<'p> = (&'p [u8], Option<SocketAddr>);

impl Engine {
    /// Sends several datagrams, in their order, by one flush; returns how many. Past the kernel they cost one system call for as many as the
    /// kernel takes in one (32 in copy mode unless configured otherwise), or none; by the kernel one each. Ends at the first that cannot be sent:
    /// its error is returned if it is the first of all, else the next call meets it again. Where the ring is full, what it holds is
    /// sent before the next is tried. A link that fails to send is an error, too, however many it has taken.
    pub fn send_many<'p>(
        &mut self,
        handle: Handle,
        messages: impl IntoIterator<Item = Message<'p>>,
    ) -> Result<usize, SendError> {
        let mut count = 0;
        for (payload, to) in messages {
            let put = match self.put(handle, payload, to) {
                Err(SendError::Full) if count > 0 => {
                    self.flush()?;
                    self.poll_link();
                    self.put(handle, payload, to)
                }
                put => put,
            };
            match put {
                Ok(()) => count += 1,
                Err(error) if count == 0 => return Err(error),
                Err(_) => break,
            }
        }
        self.flush()?;
        Ok(count)
    }

    /// Appends the next datagrams of a socket to `into`: at most `most`, and at most 64 of the ring; returns how many. Each must be given back.
    /// No system call while the socket's traffic goes past the kernel; by the kernel one each, and one that finds nothing.
    pub fn receive_many(&mut self, handle: Handle, most: usize, into: &mut Vec<Datagram>) -> Result<usize, Error> {
        let begin = into.len();
        while into.len() - begin < most.min(FRAMES_PER_CALL) {
            match self.receive(handle)? {
                Some(datagram) => into.push(datagram),
                None => break,
            }
        }
        Ok(into.len() - begin)
    }
}
