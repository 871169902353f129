//! A bad wire: loss, reordering and duplicates in both directions.

use crate::peer::{accept, carry, connect, kernel_accept, kernel_connect, kernel_listen, listen, poll_until};
use crate::support::{Control, address, engine, is_root_or_say, reach};
use sidestep_lab::Side;
use sidestep_lab::wire::{Directions, Impairment};
use sidestep_lab::{Lab, Options};
use std::net::SocketAddr;

const BYTES: usize = 8 << 20;

fn bad_lab() -> Option<Lab> {
    if !is_root_or_say() {
        return None;
    }
    let wire = |seed| {
        Impairment::parse(&format!("loss=1%,duplicate=1%,reorder=1%,gap=300us,seed={seed}")).expect("it is well-formed")
    };
    let impairment = Some(Directions { a_to_b: wire(1), b_to_a: wire(2) });
    Some(Lab::up(&Options { impairment, ..Options::default() }).expect("root can make a lab"))
}

#[test]
fn every_byte_arrives_over_a_bad_wire_that_we_connected_over() {
    let Some(lab) = bad_lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let _control = Control::start(a);
    let mut engine = engine(a);
    // What the wire loses of the questions for a neighbour is not what this test is about.
    reach(a, address(b, false));
    let server = kernel_listen(b, SocketAddr::new(address(b, false), 0));
    let stream = connect(a, &mut engine, server.local_addr().unwrap());
    assert!(engine.tcp().path(stream).unwrap().is_accelerated());
    let peer = kernel_accept(&mut engine, &server);
    carry(&mut engine, stream, peer, BYTES);
    let facts = engine.tcp().facts(stream).unwrap().expect("it is past the kernel");
    assert!(facts.retransmitted > 0, "{facts:?}");
}

#[test]
fn every_byte_arrives_over_a_bad_wire_that_we_were_connected_over() {
    let Some(lab) = bad_lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let _control = Control::start(b);
    let mut engine = engine(b);
    let at = SocketAddr::new(address(b, true), 7000);
    let listener = listen(b, &mut engine, at);
    let peer = kernel_connect(a, at);
    let stream = accept(&mut engine, listener);
    let peer = poll_until(&mut engine, peer);
    carry(&mut engine, stream, peer, BYTES);
}
