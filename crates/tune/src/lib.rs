//! What is wrong with this host for latency, why, the change, and the way back.
//!
//! [`table`] has every check as a row of data; [`profile`] what is wished of each. [`audit::Audit`] reads and judges a
//! [`host::Host`], which is the running one or a copy of its files. [`plan::Plan`] is what would be changed, [`apply`](apply::apply)
//! changes it, [`revert`](revert::revert) puts it back. [`trial`] does both while something is measured; [`run`] is what a program
//! is put under, [`isolate`] keeps its CPUs for it alone.
#![forbid(unsafe_code)]

pub mod apply;
pub mod audit;
pub mod check;
pub mod cpus;
mod driver;
pub mod host;
pub mod interrupts;
pub mod isolate;
mod netlink;
pub mod place;
pub mod plan;
pub mod policy;
pub mod profile;
pub mod revert;
pub mod run;
pub mod scope;
pub mod show;
pub mod snapshot;
pub mod table;
pub mod trial;
pub mod want;

pub use netlink::decode_any;
