//! Sans-IO TCP: segments and time come in, segments and readiness go out.
//!
//! [`Tcp`] holds all connections and listeners of one thread. It reads no clock and starts no thread: the caller passes `now`
//! ([`Instant`]), hands over segments that arrived ([`Tcp::receive`]), polls ([`Tcp::poll`]), and gives a sink ([`Output`]) that
//! writes segments straight into a frame ([`Outgoing::write`]).
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
//! * Connections: [`Tcp::connect`], [`Tcp::tuple`], [`Tcp::listen`], [`Tcp::accept`], [`Tcp::hold`], [`Tcp::answer`],
//!   [`Tcp::close_listener`].
//! * Data: [`Tcp::send`]; [`Tcp::read`], [`Tcp::peek`], [`Tcp::consume`]. By reference: the last argument of
//!   [`Tcp::receive`] sees payload in order in the frame, when nothing older waits, and says how many bytes it has taken; the
//!   rest is copied into the connection's buffer.
//! * The end: [`Tcp::shutdown`], [`Tcp::close`], [`Tcp::abort`]. After `close` and `abort` the handle is wrong for ever.
//! * Hand-over to another TCP: [`Tcp::freeze`], [`Tcp::thaw`], [`Tcp::forget`], [`Tcp::release`].
//! * What can be done: [`Tcp::next_event`], [`Tcp::readiness`], [`Tcp::take_error`]; [`Tcp::facts`], [`Tcp::counters`].
//! * Options: [`Tcp::options`], [`Tcp::set_options`]. ICMP: [`Tcp::packet_too_big`],
//!   [`Tcp::unreachable`].
//!
//! # Where a rule lives
//!
//! In the order of RFC 9293. `COMPLIANCE.md` beside `src` names the test of each clause.
//!
//! | clause | rule | file |
//! |---|---|---|
//! | 3.3.1 | SEG.*, SND.*, RCV.*; the TCB and its parts | `segment_arrives/seg.rs`, `tcb/{send,receive}.rs`, `tcb/connection.rs` |
//! | 3.3.2 | states and their transitions | `tcb/state.rs` |
//! | 3.4.1 | initial sequence numbers | `handshake/isn.rs` |
//! | 3.5 | handshake; options that both SYNs carry; SYN cookies; SYNs that are held | `handshake/`, `tcb/negotiated.rs` |
//! | 3.6 | closing; connections that nobody holds any more | `user_calls/close.rs`, `engine/orphans.rs` |
//! | 3.7.1, 3.7.4 | segment size; Nagle's algorithm, cork | `tcb/mss.rs`, `tcb/send.rs` |
//! | 3.7.2, 3.9.2.2 | path MTU, other ICMP errors | `icmp/` |
//! | 3.8.1 | round trip, retransmission timeout | `timers/{rto,retransmission}.rs` |
//! | 3.8.2 | congestion control; pacing | `congestion/`, `transmit/pacing.rs` |
//! | 3.8.2 | SACK scoreboard, RACK, TLP, recovery, PRR | `loss_recovery/` |
//! | 3.8.3 | R2, user timeout; keep-alive (3.8.4) | `timers/{user_timeout,keepalive}.rs` |
//! | 3.8.6 | windows; zero-window probes (3.8.6.1) | `tcb/{send,receive}.rs`, `timers/persist.rs` |
//! | 3.8.6.3 | delayed ACKs | `ack/generation.rs` |
//! | 3.10.1 | OPEN, active and passive | `user_calls/{open,listen}.rs` |
//! | 3.10.2, 3.10.3 | SEND, RECEIVE; segments that leave | `user_calls/data.rs`, `transmit/` |
//! | 3.10.4 to 3.10.6 | CLOSE, ABORT, STATUS | `user_calls/{close,status}.rs` |
//! | 3.10.7 | SEGMENT ARRIVES; for no connection (3.10.7.1) | `segment_arrives/mod.rs` |
//! | 3.10.7.2, 3.10.7.3 | LISTEN, SYN-SENT | `segment_arrives/{listen,syn_sent}.rs` |
//! | 3.10.7.4 first to fourth | sequence number, RST, SYN; RFC 5961; PAWS | `segment_arrives/acceptability.rs`, `ack/challenge.rs` |
//! | 3.10.7.4 fifth | ACK: SYN-RECEIVED, all other states | `segment_arrives/syn_received.rs`, `ack/processing.rs` |
//! | 3.10.7.4 sixth to eighth | URG, segment text, FIN | `segment_arrives/synchronized.rs` |
//! | 3.10.7.4, RFC 6191 | TIME-WAIT | `segment_arrives/time_wait.rs`, `tcb/time_wait.rs` |
//! | 3.10.8 | timeouts: expiry, the wheel of all connections | `timers/{expiry,deadlines,wheel}.rs` |
//! | RFC 7323 | timestamps | `tcb/timestamps.rs` |
//! | none | a live connection handed over to the kernel | `handover/` |
//!
//! What every step may cause, output that is due, timers, events and the end of a connection, is done in one place after it:
//! `engine/step.rs`. Segments that a timer or a call itself sends (probes, RST) leave within the step.
//!
//! The fast path (`fast_path/`) skips most checks: header prediction for a segment that was expected, a direct send for a message
//! that fits one segment. It checks a flag of the connection and the few conditions of the segment or message, then calls the
//! functions of the slow path. A new rule belongs on the slow path, and
//! its state into `Connection::allows_fast_path`.

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
mod handover;
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
mod tuple;
mod user_calls;

pub use config::Config;
pub use congestion::{CongestionControl, Cubic, Progress, Reno};
pub use counters::{Counter, Counters};
pub use demux::hash::Secret;
pub use demux::ids::{ConnectionId, ListenerId};
pub use engine::{LOOK_AHEAD_MAX, Tcp};
pub use error::Error;
pub use events::{Event, Readiness};
pub use facts::Facts;
pub use flow::Flow;
pub use handover::{Handover, OwnFin, Unfit, Windows};
pub use icmp::path_mtu::Undelivered;
pub use options::{Congestion, KeepAlive, Options};
pub use segment_arrives::{Incoming, Received};
pub use setting::{Setting, SettingError, Value};
pub use tcb::state::State;
pub use time::Instant;
pub use transmit::output::{NoRoom, Outgoing, Output};
pub use tuple::Tuple;
pub use user_calls::close::Shutdown;
