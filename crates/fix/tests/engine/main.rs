//! The engine against itself: every transport, and what goes wrong between two sides.

mod acceptors;
mod configured;
mod crowds;
mod ending;
mod floods;
mod handshakes;
mod recovery;
mod refusals;
mod strangers;
mod support;
mod tls;
mod transports;
mod xdp;
