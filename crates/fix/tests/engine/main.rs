//! The engine against itself: every transport, and what goes wrong between two sides.

mod configured;
mod doors;
mod ending;
mod recovery;
mod refusals;
mod strangers;
mod support;
mod tls;
mod transports;
mod xdp;
