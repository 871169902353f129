//! The contestants that every run has.

mod broadcast;
mod eventfd;
mod floor;
mod pipe;
pub(super) mod ring;
mod socket;

use super::{Contestant, SharedRing, Threads};
use std::path::PathBuf;

/// The line bounced both ways: the baseline of every round trip.
pub const FLOOR: &str = "floor";
/// Our ring: the baseline of every stream.
pub const RING: &str = "ring";

/// Ours and the kernel's; `program` is this program, or one that answers to [`super::FAR_COMMAND`].
pub fn all(program: PathBuf) -> Vec<Box<dyn Contestant>> {
    let mut all: Vec<Box<dyn Contestant>> = floor::all();
    all.extend(ring::spinning());
    all.push(Box::new(SharedRing { program }));
    all.extend(broadcast::all());
    all.extend(ring::parking());
    all.extend(eventfd::all());
    all.extend(pipe::all());
    all.extend(socket::all());
    all
}

/// A contestant of two threads.
fn threads<C: super::Channel + Sync + 'static>(
    channel: C,
    name: &'static str,
    sleeps: bool,
    description: &'static str,
) -> Threads<C> {
    Threads { channel, name, description, sleeps, no_stream: None }
}
