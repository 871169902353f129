//! Ownership of traffic: attacks of permitted users on each other, run as those users.

mod agent;
mod feeds;
mod hand_overs;
mod place;

mod shares;
mod tcp;
mod udp;

/// Not a test of its own: others start it, as another user.
#[test]
#[ignore = "started by the others"]
fn agent() {
    agent::serve();
}
