//! The sockets of a server over SoupBinTCP.

use crate::core::Core;
use crate::service::{Service, Time};
use sidestep_socket::stream::{Endpoint, Io, Listener, Options, Stream, is_retry};
use sidestep_sys::Problem;
use std::os::fd::BorrowedFd;

/// Connections that are accepted in one poll.
const ACCEPTS_MAX: usize = 16;

/// Writes for one connection in one poll, of up to 64 KiB each.
const WRITES_MAX: usize = 8;

/// Bytes that are taken of one client in one poll: some 150 orders, so that a flood does not hold up the others.
const CLIENT_BYTES_MAX: usize = 8 * 1024;

/// Bytes that are taken of all clients in one poll, some 1,200 orders: the feed has its turn after a ms or two, whoever floods.
const BYTES_MAX: usize = 64 * 1024;

/// Time for the last bytes of a connection that ends.
const LINGER_NS: u64 = 1_000_000_000;

struct Client {
    connection: usize,
    stream: Stream,
    ends_ns: Option<u64>,
}

/// A listener, its connections, and the server that they are for.
pub(super) struct Door<S> {
    pub(super) service: S,
    listener: Listener,
    clients: Vec<Client>,
    /// The client that is read first in the next poll.
    first: usize,
}

impl<S: Service> Door<S> {
    pub(super) fn listen(io: &mut Io, endpoint: &Endpoint, options: &Options, service: S) -> Result<Self, Problem> {
        Ok(Self { service, listener: Listener::bind(io, endpoint, options)?, clients: Vec::new(), first: 0 })
    }

    pub(super) fn endpoint(&self) -> &Endpoint {
        self.listener.endpoint()
    }

    pub(super) fn connections(&self) -> usize {
        self.clients.len()
    }

    /// What becomes readable when there is something to do.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.clients.iter().filter_map(|client| client.stream.descriptor()).chain(self.listener.descriptor())
    }

    /// Takes connections that have come.
    pub(super) fn accept(&mut self, io: &mut Io, time: Time) -> usize {
        for count in 0..ACCEPTS_MAX {
            // Without descriptors, or after a connection that was gone at once: tried again at the next poll.
            let Ok(Some(mut accepted)) = self.listener.accept(io) else { return count };
            match self.service.accept(time) {
                Some(connection) => self.clients.push(Client { connection, stream: accepted.stream, ends_ns: None }),
                None => drop(accepted.stream.abort(io)),
            }
        }
        ACCEPTS_MAX
    }

    /// Reads what clients have sent, in turn and within bounds. Answers are written by [`Self::write`].
    pub(super) fn read(&mut self, io: &mut Io, time: Time, core: &mut Core) -> usize {
        let Self { service, clients, first, .. } = self;
        let (mut work, mut left) = (0, BYTES_MAX);
        let (begin, count) = (*first, clients.len());
        for at in (begin.min(count)..count).chain(0..begin.min(count)) {
            if left == 0 {
                *first = at;
                break;
            }
            let client = &mut clients[at];
            let mut deliver = |bytes: &[u8]| {
                let taken = bytes.len().min(left).min(CLIENT_BYTES_MAX);
                receive(service, time, client.connection, &bytes[..taken], core);
                left -= taken;
                taken
            };
            match client.stream.receive_with(io, &mut deliver) {
                Ok(0) => client.ends_ns = Some(0),
                Ok(_) => work += 1,
                Err(error) if is_retry(&error) => {}
                Err(_) => client.ends_ns = Some(0),
            }
        }
        work
    }

    /// Writes what waits, and closes connections that have ended.
    pub(super) fn write(&mut self, io: &mut Io, time: Time, core: &mut Core) -> usize {
        let mut work = 0;
        let mut at = 0;
        while at < self.clients.len() {
            let (sent, is_over) = self.serve(io, time, at);
            work += sent;
            if is_over {
                let mut client = self.clients.swap_remove(at);
                let _ = client.stream.close(io);
                self.service.close(time, client.connection, core);
                work += 1;
            } else {
                at += 1;
            }
        }
        work
    }

    /// Writes for one client. Returns how often, and true if its connection is over.
    fn serve(&mut self, io: &mut Io, time: Time, at: usize) -> (usize, bool) {
        let Self { service, clients, .. } = self;
        let client = &mut clients[at];
        let mut work = 0;
        while work < WRITES_MAX
            && let waiting @ [_, ..] = service.output(client.connection)
        {
            match client.stream.write(io, waiting) {
                Ok(count) => service.sent(time, client.connection, count),
                Err(error) if is_retry(&error) => break,
                Err(_) => return (work, true),
            }
            work += 1;
        }
        if service.poll(time, client.connection).is_some() {
            let ends_ns = *client.ends_ns.get_or_insert(time.mono_ns + LINGER_NS);
            let is_over = service.output(client.connection).is_empty() || time.mono_ns >= ends_ns;
            return (work, is_over);
        }
        (work, client.ends_ns.is_some())
    }

    /// The session ends for all.
    pub(super) fn end(&mut self, time: Time) {
        self.service.end(time);
    }
}

/// Hands bytes over in pieces, as large as there is room for.
fn receive(service: &mut impl Service, time: Time, connection: usize, mut bytes: &[u8], core: &mut Core) {
    while !bytes.is_empty() {
        let taken = service.room(connection).min(bytes.len());
        if taken == 0 {
            // A connection that is gone.
            return;
        }
        let (now, rest) = bytes.split_at(taken);
        service.receive(time, connection, now, core);
        bytes = rest;
    }
}
