//! The application at one end of one connection. It acts on an event, or when a pause of its
//! own is over; never without a reason, so that an event that is missing is a transfer that stands still.

use super::dice::Dice;
use super::plan::{AppPlan, End};
use super::stream::{is_stream, stream};
use sidestep_stack::tcp::{ConnectionId, Error, Instant, Output, Shutdown, Tcp};

/// The handle is let go so long after everything is over: TIME-WAIT with a holder.
const LINGER_NS: u64 = 1_000_000;

pub struct App {
    pub plan: AppPlan,
    pub id: Option<ConnectionId>,
    pub sent: usize,
    pub received: usize,
    pub is_shut: bool,
    pub is_finished: bool,
    pub is_closed: bool,
    /// It has ended what it had not finished.
    pub is_cut_short: bool,
    pub error: Option<Error>,
    can_write: bool,
    can_read: bool,
    write_at_ns: u64,
    read_at_ns: u64,
    close_at_ns: u64,
}

/// What an application needs of the world.
pub struct Desk<'a, 'b, 'c> {
    pub tcp: &'a mut Tcp,
    pub now: Instant,
    pub dice: &'a mut Dice<'b>,
    pub output: &'c mut dyn Output,
}

impl App {
    pub fn new(plan: AppPlan) -> Self {
        Self {
            plan,
            id: None,
            sent: 0,
            received: 0,
            is_shut: false,
            is_finished: false,
            is_closed: false,
            is_cut_short: false,
            error: None,
            can_write: false,
            can_read: false,
            write_at_ns: 0,
            read_at_ns: 0,
            close_at_ns: u64::MAX,
        }
    }

    /// The connection is there.
    pub fn begin(&mut self, id: ConnectionId) {
        self.id = Some(id);
        (self.can_write, self.can_read) = (true, true);
    }

    /// Something has changed.
    pub fn wake(&mut self) {
        (self.can_write, self.can_read) = (true, true);
    }

    /// Whether both directions are at their end, or it has given up.
    pub fn is_done(&self) -> bool {
        self.is_closed
    }

    /// When it acts by itself.
    pub fn next_at_ns(&self) -> u64 {
        if self.id.is_none() || self.is_closed {
            return u64::MAX;
        }
        let write = if self.can_write && self.sent < self.plan.total { self.write_at_ns } else { u64::MAX };
        let read = if self.can_read && !self.is_finished { self.read_at_ns } else { u64::MAX };
        let end = match self.plan.end {
            End::CloseAt(at) | End::AbortAt(at) => at,
            End::ShutBothAt(at) if !self.is_cut_short => at,
            _ => u64::MAX,
        };
        write.min(read).min(end).min(self.close_at_ns)
    }

    /// In the frame: how many of the bytes it takes. `Err`: they are wrong.
    pub fn take(&mut self, key: u32, bytes: &[u8]) -> Result<usize, String> {
        let count = bytes.len().min(self.plan.takes);
        self.check(key, &bytes[..count])?;
        Ok(count)
    }

    fn check(&mut self, key: u32, bytes: &[u8]) -> Result<(), String> {
        if !is_stream(key, self.received, bytes) {
            return Err(format!("{} wrong bytes at {}", bytes.len(), self.received));
        }
        self.received += bytes.len();
        Ok(())
    }

    /// All it can do now. `peer_key` chooses the bytes that it expects.
    pub fn act(&mut self, desk: &mut Desk<'_, '_, '_>, peer_key: u32) -> Result<(), String> {
        let Some(id) = self.id.filter(|_| !self.is_closed) else { return Ok(()) };
        let now_ns = desk.now.as_nanos();
        match self.plan.end {
            End::CloseAt(at) if at <= now_ns => return self.close(desk, id),
            End::AbortAt(at) if at <= now_ns => {
                (self.is_closed, self.is_cut_short) = (true, true);
                return desk.tcp.abort(desk.now, id, desk.output).map_err(|error| format!("abort: {error}"));
            }
            End::ShutBothAt(at) if at <= now_ns && !self.is_cut_short => self.shut_both(desk, id)?,
            _ => {}
        }
        self.write(desk, id)?;
        self.read(desk, id, peer_key)?;
        self.end(desk, id)
    }

    fn shut_both(&mut self, desk: &mut Desk<'_, '_, '_>, id: ConnectionId) -> Result<(), String> {
        match desk.tcp.shutdown(desk.now, id, Shutdown::Both, desk.output) {
            Ok(()) => {
                (self.is_cut_short, self.is_shut, self.is_finished) = (true, true, true);
                // What it has not written it never will.
                self.plan.total = self.sent;
                Ok(())
            }
            Err(Error::NotConnected) => self.close(desk, id),
            Err(error) => Err(format!("shutdown: {error}")),
        }
    }

    fn write(&mut self, desk: &mut Desk<'_, '_, '_>, id: ConnectionId) -> Result<(), String> {
        while self.can_write && !self.is_shut && !self.is_closed && self.sent < self.plan.total {
            if self.write_at_ns > desk.now.as_nanos() {
                return Ok(());
            }
            self.switch(desk, id);
            let count = desk.dice.between(1, self.plan.write_max as u64) as usize;
            let bytes = stream(self.plan.key, self.sent, count.min(self.plan.total - self.sent));
            match desk.tcp.send(desk.now, id, bytes, desk.output) {
                Ok(0) => return Err("send took nothing".into()),
                Ok(count) => {
                    self.sent += count;
                    self.can_write = count == bytes.len();
                }
                Err(Error::WouldBlock) => self.can_write = false,
                Err(error) => return self.fail(desk, id, error),
            }
            self.write_at_ns = self.pause(desk);
        }
        Ok(())
    }

    fn switch(&self, desk: &mut Desk<'_, '_, '_>, id: ConnectionId) {
        if !desk.dice.percent(self.plan.fickle) {
            return;
        }
        if let Ok(mut options) = desk.tcp.options(id) {
            options.nodelay ^= desk.dice.percent(50);
            options.cork ^= desk.dice.percent(50);
            options.quickack ^= desk.dice.percent(50);
            // Refused when the connection has ended; the next call says so.
            let _ = desk.tcp.set_options(desk.now, id, options, desk.output);
        }
    }

    fn pause(&self, desk: &mut Desk<'_, '_, '_>) -> u64 {
        if !desk.dice.percent(self.plan.pause) {
            return 0;
        }
        desk.now.as_nanos() + desk.dice.between(1, self.plan.pause_ns)
    }

    fn read(&mut self, desk: &mut Desk<'_, '_, '_>, id: ConnectionId, peer_key: u32) -> Result<(), String> {
        while self.can_read && !self.is_finished && !self.is_closed && self.read_at_ns <= desk.now.as_nanos() {
            let most = desk.dice.between(1, self.plan.read_max as u64) as usize;
            // By reference, and by copy: both must see the same.
            let pieces = match desk.tcp.peek(id) {
                Ok(pieces) => pieces,
                Err(Error::WouldBlock) => {
                    self.can_read = false;
                    return Ok(());
                }
                Err(error) => return self.fail(desk, id, error),
            };
            if pieces[0].is_empty() {
                self.is_finished = true;
                return Ok(());
            }
            let count = most.min(pieces[0].len());
            self.check(peer_key, &pieces[0][..count])?;
            desk.tcp.consume(desk.now, id, count, desk.output).map_err(|error| format!("consume: {error}"))?;
            self.read_at_ns = self.pause(desk);
        }
        Ok(())
    }

    fn end(&mut self, desk: &mut Desk<'_, '_, '_>, id: ConnectionId) -> Result<(), String> {
        if self.is_closed || self.sent < self.plan.total {
            return Ok(());
        }
        if self.plan.end == End::CloseWhenSent {
            return self.close(desk, id);
        }
        if !self.is_shut {
            match desk.tcp.shutdown(desk.now, id, Shutdown::Write, desk.output) {
                Ok(()) => self.is_shut = true,
                // Not established yet, or failed: an event will come.
                Err(Error::NotConnected) => return Ok(()),
                Err(error) => return Err(format!("shutdown: {error}")),
            }
        }
        if self.is_finished {
            let now_ns = desk.now.as_nanos();
            if self.close_at_ns == u64::MAX {
                self.close_at_ns = now_ns + desk.dice.below(LINGER_NS);
            }
            if self.close_at_ns <= now_ns {
                self.is_closed = true;
                return desk.tcp.close(desk.now, id, desk.output).map_err(|error| format!("close: {error}"));
            }
        }
        Ok(())
    }

    /// Lets go, whatever is still missing.
    pub fn close(&mut self, desk: &mut Desk<'_, '_, '_>, id: ConnectionId) -> Result<(), String> {
        (self.is_closed, self.is_cut_short) = (true, true);
        desk.tcp.close(desk.now, id, desk.output).map_err(|error| format!("close: {error}"))
    }

    fn fail(&mut self, desk: &mut Desk<'_, '_, '_>, id: ConnectionId, error: Error) -> Result<(), String> {
        self.error = Some(error);
        self.is_closed = true;
        desk.tcp.close(desk.now, id, desk.output).map_err(|error| format!("close: {error}"))
    }
}
