//! One end: a session, its application, and what is on the wire towards it.

use sidestep_fix::session::{Application, End, Outbox, Refusal, Session, SessionId};
use sidestep_fix::store::{MemoryStore, Store};
use sidestep_fix::{Framer, Index, Message, Now, tag};
use std::collections::VecDeque;

/// Counts orders: each has the number after the one before.
#[derive(Debug, Default)]
pub(crate) struct App {
    /// The next order to come.
    pub(crate) expected: u64,
    /// What went wrong.
    pub(crate) wrong: Option<String>,
    pub(crate) ends: Vec<End>,
}

impl Application for App {
    fn on_logout(&mut self, _: &SessionId, why: End) {
        self.ends.push(why);
    }

    fn from_app(&mut self, message: &Message<'_, '_>, _: &mut dyn Outbox) -> Result<(), Refusal> {
        let order = message.unsigned(11).expect("orders have numbers");
        if order != self.expected {
            let flag = message.get(tag::POSS_DUP_FLAG).is_some();
            self.wrong.get_or_insert(format!("order {order} came instead of {}, PossDup {flag}", self.expected));
        }
        self.expected = order + 1;
        Ok(())
    }
}

pub(crate) struct Side {
    pub(crate) session: Session<MemoryStore>,
    pub(crate) app: App,
    /// The next order to send.
    pub(crate) order: u64,
    framer: Framer,
    index: Index,
    /// Bytes on their way to us.
    pub(crate) wire: VecDeque<u8>,
    numbers: (u64, u64),
}

/// Longest message of the simulation.
const MESSAGE_BYTES_MAX: usize = 4096;

impl Side {
    pub(crate) fn new(session: Session<MemoryStore>) -> Self {
        Self {
            session,
            app: App::default(),
            order: 0,
            framer: Framer::new(MESSAGE_BYTES_MAX),
            index: Index::new(64),
            wire: VecDeque::new(),
            numbers: (1, 1),
        }
    }

    pub(crate) fn connect(&mut self, now: Now) {
        self.framer.clear();
        self.wire.clear();
        self.session.connected(now, &mut self.app);
    }

    pub(crate) fn disconnect(&mut self, now: Now) {
        self.wire.clear();
        self.session.disconnected(now, &mut self.app);
    }

    /// Sends an order, if the session takes it.
    pub(crate) fn send(&mut self, now: Now) {
        let order = self.order;
        let sent = self.session.send(b"D", now, |builder| {
            builder.unsigned(11, order).str(55, "EURUSD").str(58, "an order with some text in it");
        });
        self.order += u64::from(sent.is_ok());
    }

    /// Takes up to `count` bytes off the wire.
    pub(crate) fn receive(&mut self, count: usize, now: Now) {
        let count = count.min(self.wire.len());
        let bytes: Vec<u8> = self.wire.drain(..count).collect();
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let taken = self.framer.push(rest);
            rest = &rest[taken..];
            self.process(now);
        }
    }

    fn process(&mut self, now: Now) {
        loop {
            let decoded = match self.framer.next() {
                Ok(None) => return,
                Ok(Some(raw)) => self.index.decode(raw),
                Err(garbled) => Err(garbled),
            };
            match decoded {
                Ok(message) => self.session.on_message(&message, now, &mut self.app),
                Err(garbled) => panic!("an engine of ours wrote {garbled:?}"),
            }
        }
    }

    /// What was written, at most `count` bytes.
    pub(crate) fn written(&mut self, count: usize, now: Now) -> Vec<u8> {
        let output = self.session.output();
        let bytes = output[..count.min(output.len())].to_vec();
        self.session.sent(bytes.len(), now);
        bytes
    }

    pub(crate) fn tick(&mut self, now: Now) {
        self.session.on_timer(now, &mut self.app);
    }

    /// Numbers never go back, and no connection ends for a reason that only a fault can have.
    pub(crate) fn check(&mut self) -> Result<(), String> {
        let store = self.session.store();
        let numbers = (store.next_outbound(), store.next_inbound());
        if numbers.0 < self.numbers.0 || numbers.1 < self.numbers.1 {
            return Err(format!("numbers went from {:?} to {numbers:?}", self.numbers));
        }
        self.numbers = numbers;
        let allowed = [End::LoggedOut, End::Disconnected, End::LogonTimeout, End::LogoutTimeout, End::HeartbeatTimeout];
        let fault = self.app.ends.drain(..).chain(self.session.ending()).find(|end| !allowed.contains(end));
        if let Some(end) = fault {
            return Err(format!("{} ended: {end}; {:?}", self.session.id(), self.session.counters()));
        }
        self.app.wrong.take().map_or(Ok(()), |wrong| Err(format!("{}: {wrong}", self.session.id())))
    }
}
