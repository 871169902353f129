//! Passive OPEN (RFC 9293 section 3.10.1): listen, accept.

use crate::tcp::demux::ids::{ConnectionId, ListenerId};
use crate::tcp::engine::Tcp;
use crate::tcp::error::Error;
use crate::tcp::events::{Place, Readiness};
use crate::tcp::options::Options;
use crate::tcp::tcb::connection::{Connection, Context};
use crate::tcp::time::Instant;
use crate::tcp::transmit::output::Output;
use std::net::SocketAddr;

impl Tcp {
    /// Listens on `local`; an unspecified address means any of its family. At most `backlog` connections wait to be
    /// accepted. What is accepted gets `options`.
    pub fn listen(&mut self, local: SocketAddr, backlog: usize, options: Options) -> Result<ListenerId, Error> {
        options.check()?;
        self.listeners.add(local, backlog, options)
    }

    /// Takes the connection that has waited longest; an event follows if it has data already. [`Error::WouldBlock`]: none
    /// waits.
    pub fn accept(&mut self, id: ListenerId) -> Result<ConnectionId, Error> {
        let listener = self.listeners.held(id).ok_or(Error::NotFound)?;
        let accepted = listener.pop().ok_or(Error::WouldBlock)?;
        let connection = self.slots.connection_at(accepted.index).ok_or(Error::NotFound)?;
        connection.owner.accept();
        connection.notices.set_readiness(connection.current_readiness());
        if connection.current_readiness().has(Readiness::READABLE) {
            self.events.push(Place::Connection(accepted.index));
        }
        Ok(accepted)
    }

    /// Changes how many connections may wait to be accepted; those that wait stay.
    pub fn set_backlog(&mut self, id: ListenerId, backlog: usize) -> Result<(), Error> {
        self.listeners.held(id).ok_or(Error::NotFound)?.set_backlog(backlog);
        Ok(())
    }

    /// Changes the options that connections get which begin from now on.
    pub fn set_listener_options(&mut self, id: ListenerId, options: Options) -> Result<(), Error> {
        options.check()?;
        self.listeners.held(id).ok_or(Error::NotFound)?.options = options;
        Ok(())
    }

    /// Connections that wait to be accepted.
    pub fn backlog(&mut self, id: ListenerId) -> Result<usize, Error> {
        Ok(self.listeners.held(id).ok_or(Error::NotFound)?.waiting())
    }

    /// Drops all SYNs from now on, as if they were lost on the network: their senders repeat them, to whoever listens then. What has
    /// begun goes on.
    pub fn drop_syns(&mut self) {
        self.listeners.is_deaf = true;
    }

    /// Connections whose SYN a listener has answered, and whose peer has not acknowledged that yet.
    pub fn half_open(&self) -> u32 {
        self.listeners.half_open()
    }

    /// Stops listening. Connections that nobody has accepted are aborted.
    pub fn close_listener(&mut self, now: Instant, id: ListenerId, output: &mut dyn Output) -> Result<(), Error> {
        self.listeners.remove(id).ok_or(Error::NotFound)?;
        for index in 0..self.slots.len() {
            let Some(connection) = self.slots.connection_at(index).filter(|one| one.owner.listener() == Some(id))
            else {
                continue;
            };
            connection.owner.forget_listener();
            self.step(now, index, output, |connection: &mut Connection, cx: &mut Context<'_>| {
                connection.send_reset(cx);
                connection.fail(Error::Aborted);
            });
        }
        Ok(())
    }
}
