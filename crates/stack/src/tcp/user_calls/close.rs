//! The end of a connection, as the application wants it.

use crate::tcp::demux::ids::ConnectionId;
use crate::tcp::engine::Tcp;
use crate::tcp::error::Error;
use crate::tcp::tcb::connection::{Connection, Context};
use crate::tcp::tcb::state::State;
use crate::tcp::time::Instant;
use crate::tcp::transmit::output::Output;

/// The directions that [`Tcp::shutdown`] ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// Reading: reads give what has come and still comes, and then the end instead of waiting. The peer does not learn of it.
    Read,
    /// Sending: a FIN follows what was handed over.
    Write,
    /// Both. Data that comes afterwards resets the connection.
    Both,
}

impl Tcp {
    /// Ends one direction or both; the handle stays.
    pub fn shutdown(
        &mut self,
        now: Instant,
        id: ConnectionId,
        how: Shutdown,
        output: &mut dyn Output,
    ) -> Result<(), Error> {
        let connection = self.slots.held(id).ok_or(Error::NotFound)?;
        if matches!(connection.state, State::Closed | State::SynSent | State::TimeWait) {
            return Err(Error::NotConnected);
        }
        self.step(now, id.index, output, |connection, _| {
            if how != Shutdown::Write {
                connection.rcv.shut();
                connection.notices.request_if(true);
            }
            if how != Shutdown::Read {
                connection.finish();
            }
        });
        Ok(())
    }

    /// Lets go of the connection. What was handed over is still sent, then a FIN. If data waits unread, or
    /// [`crate::tcp::Options::abort_on_close`] is set, the connection is aborted instead (RFC 9293 section 3.6.1, RFC 2525
    /// section 2.17). The handle is wrong from now on.
    pub fn close(&mut self, now: Instant, id: ConnectionId, output: &mut dyn Output) -> Result<(), Error> {
        let connection = self.slots.held(id).ok_or(Error::NotFound)?;
        if connection.options.abort_on_close || !connection.rcv.buffer().is_empty() {
            return self.abort(now, id, output);
        }
        self.step(now, id.index, output, |connection, cx| {
            connection.owner.close(now);
            if connection.state == State::SynSent {
                // RFC 9293 section 3.10.4: "delete the TCB".
                return connection.end();
            }
            connection.finish();
            connection.limit_fin_wait_2(cx);
        });
        self.add_orphan(now, id, output);
        Ok(())
    }

    /// Ends the connection at once: the peer gets a RST, what was not acknowledged is lost. The handle is wrong from now on.
    pub fn abort(&mut self, now: Instant, id: ConnectionId, output: &mut dyn Output) -> Result<(), Error> {
        self.slots.held(id).ok_or(Error::NotFound)?;
        self.step(now, id.index, output, |connection: &mut Connection, cx: &mut Context<'_>| {
            connection.owner.abort();
            // RFC 9293 section 3.10.5: in the states in which the peer may still believe in the connection.
            let is_known = !matches!(connection.state, State::Closed | State::SynSent | State::TimeWait);
            if is_known && connection.snd.nxt() != connection.snd.iss() {
                connection.send_reset(cx);
            }
            if connection.state != State::TimeWait {
                connection.fail(Error::Aborted);
            }
        });
        Ok(())
    }
}
