//! The control plane.
#![forbid(unsafe_code)]

pub mod mirror;
mod netlink;
