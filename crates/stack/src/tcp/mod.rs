//! TCP without input or output: segments and time come in, segments and readiness go out.
//!
//! [`Tcp`] holds all connections and listeners of one thread. It never asks for the time and starts nothing by itself: the
//! caller tells `now` ([`Instant`]), hands over segments that arrived ([`Tcp::receive`]), polls ([`Tcp::poll`]), and gives a
//! sink ([`Output`]) that writes segments where they belong, straight into a frame ([`Outgoing::write`]).
//!
//! ```
//! use sidestep_stack::tcp::{Config, Instant, Incoming, NoRoom, Outgoing, Secret, Tcp};
//! use sidestep_wire::tcp::View;
//!
//! let (here, there) = ("192.0.2.1:40000".parse().unwrap(), "192.0.2.2:80".parse().unwrap());
//! let now = Instant::from_nanos(0);
//! let mut client = Tcp::new(Config::latency(), Secret([1, 2, 3, 4]), now);
//! let mut server = Tcp::new(Config::latency(), Secret([5, 6, 7, 8]), now);
//! let listener = server.listen(there, 16, server.config().options())?;
//!
//! // The wire: whatever the sinks were given.
//! let mut wire = Vec::new();
//! let mut sink = |segment: &Outgoing<'_>| -> Result<(), NoRoom> {
//!     let mut bytes = vec![0; segment.bytes()];
//!     segment.write(&mut bytes).expect("the frame is large enough");
//!     wire.push((segment.flow.addresses, bytes));
//!     Ok(())
//! };
//! let connection = client.connect(now, here, there, None, client.config().options(), &mut sink)?;
//! let (addresses, syn) = wire.remove(0);
//! let incoming = Incoming { addresses: &addresses, segment: View::parse(&syn).unwrap(), is_verified: false };
//! let mut answers = Vec::new();
//! server.receive(now, &incoming, &mut |segment: &Outgoing<'_>| { answers.push(segment.header); Ok(()) }, &mut |_, _| 0);
//! assert_eq!(answers[0].acknowledgement, View::parse(&syn).unwrap().sequence() + 1);
//! # let _ = (connection, listener);
//! # Ok::<(), sidestep_stack::tcp::Error>(())
//! ```
//!
//! # The calls
//!
//! * Time and segments: [`Tcp::receive`], [`Tcp::poll`], [`Tcp::next_poll`]. An ACK that `quickack` wants at once leaves with
//!   data that is sent before the next poll, else in that poll: receive a burst, let the application answer, poll.
//! * Connections: [`Tcp::connect`], [`Tcp::tuple`], [`Tcp::listen`], [`Tcp::accept`], [`Tcp::close_listener`].
//! * Data: [`Tcp::send`]; [`Tcp::read`], [`Tcp::peek`], [`Tcp::consume`]. By reference: the last argument of
//!   [`Tcp::receive`] sees payload in order in the frame, when nothing older waits, and says how many bytes it has taken; the
//!   rest is copied into the connection's buffer.
//! * The end: [`Tcp::shutdown`], [`Tcp::close`], [`Tcp::abort`]. After `close` and `abort` the handle is wrong for ever.
//! * What can be done: [`Tcp::next_event`], [`Tcp::readiness`], [`Tcp::take_error`]; [`Tcp::facts`], [`Tcp::counters`].
//! * Options: [`Tcp::options`], [`Tcp::set_options`]. ICMP: [`Tcp::packet_too_big`],
//!   [`Tcp::unreachable`].
//!
//! # Where a rule lives
//!
//! One file per concern, named after it; `COMPLIANCE.md` beside `src` says which clause of which RFC is where, and which test
//! holds it. A step changes its connection's state only; what follows from that, segments, timers, events, is done in one
//! place after each step (`engine/follow_up.rs`).
//!
//! Two short roads lead past most questions: a segment that is just what was expected (`fast_path/header_prediction.rs`), and a message that may
//! leave at once in one segment (`fast_path/direct_send.rs`). They ask whether nothing is out of the ordinary and then call what the long roads
//! call. A new rule belongs on the long road, and whatever it adds to a connection's state into `Connection::allows_fast_path`.

mod ack;
mod config;
mod congestion;
mod counters;
mod demux;
mod engine;
mod error;
mod events;
mod facts;
mod fast_path;
mod flow;
mod handshake;
mod icmp;
mod loss_recovery;
mod options;
mod segment_arrives;
mod setting;
mod tcb;
mod time;
mod timers;
mod transmit;
mod user_calls;

pub use config::Config;
pub use congestion::{CongestionControl, Cubic, Progress, Reno};
pub use counters::{Counter, Counters};
pub use demux::hash::Secret;
pub use demux::slots::{ConnectionId, ListenerId};
pub use engine::Tcp;
pub use error::Error;
pub use events::{Event, Readiness};
pub use facts::Facts;
pub use flow::Flow;
pub use icmp::path_mtu::Undelivered;
pub use options::{Congestion, KeepAlive, Options};
pub use segment_arrives::{Incoming, Received};
pub use setting::{Setting, SettingError, Value};
pub use tcb::state::State;
pub use time::Instant;
pub use transmit::output::{NoRoom, Outgoing, Output};
pub use user_calls::close::Shutdown;
pub use user_calls::tuple::Tuple;
