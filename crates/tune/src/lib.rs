//! Audit of a host's latency settings: findings, changes, and their revert.
//!
//! [`table`] has every check as a row of data; [`profile`] has the wanted values. [`audit::Audit`] reads a [`host::Host`], which is
//! the running one or a copy of its files, and compares it with the wanted values. [`plan::Plan`] lists the changes, [`apply`](apply::apply)
//! makes them, [`revert`](revert::revert) undoes them. [`trial`] does both while something is measured. [`run`] sets the conditions
//! that a program runs under, [`isolate`] reserves CPUs for it. [`fleet`] writes a host to a file, and checks many such files.
#![forbid(unsafe_code)]

pub mod apply;
pub mod audit;
pub mod check;
pub mod cpus;
mod driver;
pub mod event;
pub mod fleet;
pub mod host;
pub mod interrupts;
pub mod isolate;
pub mod location;
mod netlink;
pub mod plan;
pub mod policy;
pub mod profile;
pub mod reading;
pub mod revert;
pub mod revert_state;
pub mod run;
pub mod scope;
pub mod show;
pub mod snapshot;
pub mod table;
pub mod trial;
mod value;
pub mod want;

pub use netlink::{XdpFeatures, decode_any, xdp_features};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
