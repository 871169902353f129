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
//! * Options: [`Tcp::options`], [`Tcp::set_options`]. ICMP: [`Tcp::packet_too_big`], [`Tcp::unreachable`].
//!
//! # Where a rule lives
//!
//! One file per concern, named after it; `COMPLIANCE.md` beside `src` says which clause of which RFC is where, and which test
//! holds it. A step changes its connection's state only; what follows from that, segments, timers, events, is done in one
//! place after each step (`engine/settle.rs`).
//!
//! Two short roads lead past most questions: a segment that is just what was expected (`expected.rs`), and a message that may
//! leave at once in one segment (`direct.rs`). They ask whether nothing is out of the ordinary and then call what the long roads
//! call. A new rule belongs on the long road, and whatever it adds to a connection's state into `Connection::is_plain_now`.

mod acceptability;
mod acknowledge;
mod acknowledged;
mod arrival;
mod arrive;
mod assembler;
#[cfg(feature = "audit")]
mod audit;
mod buffer;
mod challenge;
mod config;
mod congestion;
mod connection;
mod cookie;
mod counters;
mod deadlines;
mod demux;
mod direct;
mod engine;
mod error;
mod events;
mod expected;
mod expiry;
mod facts;
mod flow;
mod hash;
mod isn;
mod listen;
mod opening;
mod options;
mod output;
mod path_mtu;
mod probe;
mod prr;
mod rack;
mod receive;
mod recovery;
mod rtt;
mod scoreboard;
mod send;
mod setting;
mod slots;
mod state;
mod tail_probe;
mod template;
mod time;
mod time_wait;
mod timer;
mod timestamps;
mod transmit;

pub use config::Config;
pub use congestion::{CongestionControl, Cubic, Progress, Reno};
pub use counters::{Counter, Counters};
pub use engine::{Incoming, Received, Shutdown, Tcp, Tuple};
pub use error::Error;
pub use events::{Event, Readiness};
pub use facts::Facts;
pub use flow::Flow;
pub use hash::Secret;
pub use options::{Congestion, KeepAlive, Options};
pub use output::{NoRoom, Outgoing, Output};
pub use setting::{Setting, SettingError, Value};
pub use slots::{ConnectionId, ListenerId};
pub use state::State;
pub use time::Instant;
