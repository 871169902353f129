//! Measuring latency honestly: the scenarios, the peer at the other end, the statistics.
//!
//! [`run::run`] leads through it: a place ([`place`]), two ends that talk over a control connection ([`peer`]),
//! slices (`measure`) interleaved into scenarios ([`scenario`]), and a `Document` of `sidestep-report` at the end.
//! `stats` has the statistics of the samples.
#![forbid(unsafe_code)]

mod bypass;
mod causes;
pub mod compare;
mod congestion;
mod cpu_time;
mod cpus_of_ends;
mod fit;
pub mod fix;
pub mod fleet;
mod frames;
mod host;
mod link;
mod measure;
mod message;
mod mtu;
pub mod path;
pub mod peer;
pub mod place;
pub mod probe;
pub mod ring;
pub mod run;
pub mod scenario;
pub mod service_time;
pub mod stages;
mod stats;
mod surroundings;
pub mod tick;
pub mod transport;
pub mod unmodified;
pub mod verify;

pub use bypass::Consent;
