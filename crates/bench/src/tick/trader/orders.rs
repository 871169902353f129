//! The order stream of the trader: a session of FIX, of OUCH over SoupBinTCP, or bytes alone.

use super::soup::Soup;
use super::text;
use crate::path::Path;
use crate::tick::OrderForm;
use crate::tick::judge::Order;
use sidestep_fix::clock::Now;
use sidestep_fix::decode::Message;
use sidestep_fix::engine::{Destinations, Engine as FixEngine, Handle, SessionPlan};
use sidestep_fix::session::{Application, Outbox, Refusal, Role, SessionId, SessionSettings};
use sidestep_fix::value::Decimal;
use sidestep_socket::stream::{Backend, Endpoint, Io, Options, Stream, Waiting, connect, is_retry};
use sidestep_sys::Problem;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// The time to connect and to log on.
const LOGON_MAX: Duration = Duration::from_secs(3);
/// The longest time that an order may wait for room in the stream: the exchange reads all the time.
const ROOM_MAX: Duration = Duration::from_millis(200);
/// HeartBtInt: longer than a slice.
const HEART_BT_INT_S: u32 = 60;

/// The way to the exchange.
pub(crate) struct OrderStream {
    pub(crate) endpoint: Endpoint,
    pub(crate) options: Options,
    pub(crate) io: Io,
}

impl OrderStream {
    /// By the kernel, as `path` says.
    pub(crate) fn by_kernel(path: &Path, endpoint: Endpoint) -> Self {
        let options =
            Options { waiting: Waiting::Spin, backend: path.backend, timeout: LOGON_MAX, ..Options::default() };
        Self { endpoint, options, io: Io::default() }
    }

    /// Past the kernel, by the engine of `io`.
    pub(crate) fn past_kernel(io: Io, endpoint: Endpoint) -> Self {
        let options = Options { waiting: Waiting::Spin, timeout: LOGON_MAX, ..Options::default() };
        Self { endpoint, options, io }
    }

    /// Connects for orders that were written before: what a session needs is written by hand, too.
    pub(crate) fn for_bytes(mut self, form: OrderForm) -> Result<Orders, Problem> {
        let stream = connect(&mut self.io, &self.endpoint, &self.options)?;
        let mut bytes = Bytes { io: self.io, stream };
        let mut logon = Vec::new();
        match form {
            OrderForm::Raw => return Ok(Orders::Bytes(Box::new(bytes))),
            OrderForm::Fix => {
                text::fix_message(&mut logon, b"A", 1, true, &[(98, b"0"), (108, b"60"), (141, b"Y")]);
            }
            OrderForm::Ouch => logon = text::login_request(),
        }
        bytes.send(&logon)?;
        bytes.await_answer()?;
        Ok(Orders::Bytes(Box::new(bytes)))
    }

    /// Connects, and logs on to a session of the form.
    pub(crate) fn for_orders(self, form: OrderForm) -> Result<Orders, Problem> {
        match form {
            OrderForm::Raw => self.for_bytes(form),
            OrderForm::Fix => self.for_fix(),
            OrderForm::Ouch => self.for_ouch(),
        }
    }

    fn for_fix(self) -> Result<Orders, Problem> {
        let id = SessionId::new(text::BEGIN_STRING, text::TRADER, text::EXCHANGE);
        let mut settings = SessionSettings::new(Role::Initiator, id);
        (settings.reset_on_logon, settings.heart_bt_int_s) = (true, HEART_BT_INT_S);
        // The exchange's answer was written before.
        settings.check_latency = false;
        // An engine's streams tell when they are readable; io_uring's do not.
        let options = Options { backend: Backend::Kernel, ..self.options };
        let mut engine = Box::new(FixEngine::over(Silent, self.io));
        let to = Destinations { options, ..Destinations::one(self.endpoint) };
        let session = engine.add_initiator(&SessionPlan::new(settings), to)?;
        let deadline = Instant::now() + LOGON_MAX;
        while !engine.session(session).is_logged_on() {
            engine.poll();
            if Instant::now() > deadline {
                return Err(not_logged_on(engine.last_connect_error(session)));
            }
        }
        Ok(Orders::Fix { engine, session })
    }

    fn for_ouch(mut self) -> Result<Orders, Problem> {
        let stream = connect(&mut self.io, &self.endpoint, &self.options)?;
        Soup::log_in(Bytes { io: self.io, stream }).map(|soup| Orders::Ouch(Box::new(soup)))
    }
}

pub(super) fn not_logged_on(why: impl std::fmt::Display) -> Problem {
    Problem::failed("the exchange accepts no session", why).next("see what the measuring end printed")
}

/// The order stream, logged on.
pub(crate) enum Orders {
    Fix { engine: Box<FixEngine<Silent>>, session: Handle },
    Ouch(Box<Soup>),
    Bytes(Box<Bytes>),
}

impl Orders {
    /// The thread's part of all streams, with the engine past the kernel where there is one.
    #[inline]
    pub(super) fn io_mut(&mut self) -> &mut Io {
        match self {
            Self::Fix { engine, .. } => engine.io_mut(),
            Self::Ouch(soup) => &mut soup.bytes.io,
            Self::Bytes(bytes) => &mut bytes.io,
        }
    }

    /// The kernel's socket, where there is one that tells when it is readable.
    pub(super) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match self {
            // Nothing comes by it but heartbeats.
            Self::Fix { .. } => None,
            Self::Ouch(soup) => soup.bytes.stream.descriptor(),
            Self::Bytes(bytes) => bytes.stream.descriptor(),
        }
    }

    /// Sends an order; `number` counts the orders of the session from 1.
    #[inline]
    pub(super) fn send(&mut self, order: &Order, number: u32) -> Result<(), Problem> {
        match self {
            Self::Fix { engine, session } => send_fix(engine, *session, order),
            Self::Ouch(soup) => soup.send(order, number),
            Self::Bytes(bytes) => bytes.send(&text::raw_order(order)),
        }
    }

    /// Sends bytes that were written before.
    #[inline]
    pub(super) fn send_bytes(&mut self, message: &[u8]) -> Result<(), Problem> {
        match self {
            Self::Bytes(bytes) => bytes.send(message),
            Self::Fix { .. } | Self::Ouch(_) => {
                Err(Problem::failed("cannot send prepared bytes", "a session writes its own"))
            }
        }
    }

    /// Does what a session has to do now and then.
    pub(super) fn poll(&mut self) -> Result<(), Problem> {
        match self {
            Self::Fix { engine, .. } => drop(engine.poll()),
            Self::Ouch(soup) => soup.poll()?,
            Self::Bytes(bytes) => drop(bytes.receive(&mut [0; 256])?),
        }
        Ok(())
    }
}

#[inline]
fn send_fix(engine: &mut FixEngine<Silent>, session: Handle, order: &Order) -> Result<(), Problem> {
    let sent = engine.send(session, b"D", |message| {
        message.unsigned(11, order.reference).unsigned(38, order.quantity.into()).char(40, b'2');
        message.decimal(44, Decimal::new(order.price.into(), 4).unwrap_or_default());
        message.char(54, if order.buys { b'1' } else { b'2' }).bytes(55, order.symbol.trim_ascii_end());
        message.char(59, b'3').timestamp(60, Now::system().utc());
    });
    sent.map(drop).map_err(|error| Problem::failed("cannot send an order", error))
}

/// The trader as an application of FIX: it hears nothing of its orders.
pub(crate) struct Silent;

impl Application for Silent {
    fn from_app(&mut self, _: &Message<'_, '_>, _: &mut dyn Outbox) -> Result<(), Refusal> {
        Ok(())
    }
}

/// A stream of bytes.
pub(crate) struct Bytes {
    io: Io,
    stream: Stream,
}

impl Bytes {
    #[inline]
    pub(super) fn send(&mut self, mut message: &[u8]) -> Result<(), Problem> {
        let failed = |why: &dyn std::fmt::Display| Problem::failed("cannot send an order", why);
        let mut deadline = None;
        while !message.is_empty() {
            match self.stream.write(&mut self.io, message) {
                Ok(taken) => message = &message[taken..],
                Err(error) if is_retry(&error) => {
                    if Instant::now() > *deadline.get_or_insert_with(|| Instant::now() + ROOM_MAX) {
                        return Err(failed(&"the exchange does not read its stream"));
                    }
                    // Past the kernel room comes from ACKs.
                    let _ = self.io.poll();
                }
                Err(error) => return Err(failed(&error)),
            }
        }
        self.stream.flush().map_err(|error| failed(&error))
    }

    /// Waits for the answer to a login, whatever it says: only an exchange that accepts it goes on.
    fn await_answer(&mut self) -> Result<(), Problem> {
        let deadline = Instant::now() + LOGON_MAX;
        while Instant::now() < deadline {
            if self.receive(&mut [0; 1024])?.is_some() {
                return Ok(());
            }
        }
        Err(not_logged_on("there is no answer"))
    }

    /// Reads what the exchange has sent.
    pub(super) fn receive(&mut self, buffer: &mut [u8]) -> Result<Option<usize>, Problem> {
        match self.stream.read(&mut self.io, buffer) {
            Ok(count @ 1..) => Ok(Some(count)),
            Err(error) if is_retry(&error) => Ok(None),
            Ok(_) => Err(Problem::failed("the exchange closed the order stream", "the slice is not over")),
            Err(error) => Err(Problem::failed("the order stream broke", error)),
        }
    }
}
