//! Sessions with their transports, stores and timers: acceptor and initiator.
//!
//! An [`Engine`] is an agent: one thread owns and polls it, and everything happens within [`Engine::poll`]. The caller
//! chooses how that thread waits ([`Engine::run`]): it spins, where microseconds count, or parks until there is something to do.
//!
//! ```text
//! poll ─┬ each session:  read ─ Framer ─ Index ─ Session ─ Application
//!       │                commit what was recorded ─ write what it covers, all messages of the poll at once
//!       └ now and then:  accept, connect, certificates, requests of the operator
//! ```
//!
//! Nothing leaves before it is kept: bytes go out after the commit that covers them, and with
//! [`Durability::Disk`](crate::store::journal::Durability::Disk) after the disk has them.

mod accept;
mod admin;
mod backlog;
mod by_name;
mod certificate;
mod channel;
mod configured;
mod core;
mod crowd;
mod dial;
mod driver;
mod key_file;
mod pending;
mod plan;
mod quota;
mod reception;
mod refusals;
mod request;
mod seldom;
mod slot;
mod source;
mod template;
mod tls;

pub use admin::{AdminSocket, Asker, ask};
pub use certificate::CertificateName;
pub use core::{AcceptorId, Engine, Handle};
pub use crowd::PENDING_MAX;
pub use dial::Destinations;
pub use plan::{AllowedAddress, DYNAMIC_MAX, KEPT_MAX_DEFAULT, SessionPlan, StorePlan, session_folder};
pub use refusals::Refusals;
pub use sidestep_socket::stream::{Endpoint, Options as SocketOptions};
pub use tls::{CertificateFiles, TlsSettings};
