//! A tuple is used again by the side that closed first: RFC 6191, RFC 7323, RFC 9293 section 3.10.1.

mod tcp_support;

use sidestep_stack::tcp::{Config, ConnectionId, Counter, Error, State, Tuple};
use tcp_support::{CLIENT, Pair, SERVER, address};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;

/// A connection that says something and that the client closes first.
fn talk(pair: &mut Pair, listener: sidestep_stack::tcp::ListenerId, bytes: &[u8]) {
    let ours = pair.connect(4000, 80);
    pair.run(10 * MS);
    let theirs = pair.hosts[SERVER].tcp.accept(listener).unwrap();
    let now = pair.now;
    assert_eq!(pair.hosts[CLIENT].send(now, ours, bytes), Ok(bytes.len()));
    pair.run(10 * MS);
    assert_eq!(pair.hosts[SERVER].read(pair.now, theirs).unwrap(), bytes);
    close(pair, ours, theirs);
}

fn close(pair: &mut Pair, ours: ConnectionId, theirs: ConnectionId) {
    let now = pair.now;
    pair.hosts[CLIENT].close(now, ours);
    pair.run(10 * MS);
    let now = pair.now;
    pair.hosts[SERVER].close(now, theirs);
    pair.run(10 * MS);
    assert_eq!(pair.hosts[CLIENT].tcp.connections(), (1, 1), "in TIME-WAIT");
    assert_eq!(pair.hosts[SERVER].tcp.connections(), (0, 0));
}

fn tuple(pair: &Pair) -> Tuple {
    pair.hosts[CLIENT].tcp.tuple(pair.now, address(CLIENT, 4000), address(SERVER, 80))
}

fn connect(pair: &mut Pair) -> Result<ConnectionId, Error> {
    let (now, host) = (pair.now, &mut pair.hosts[CLIENT]);
    let options = host.tcp.config().options();
    let (local, remote) = (address(CLIENT, 4000), address(SERVER, 80));
    host.with(now, |tcp, mut sink| tcp.connect(now, local, remote, None, options, &mut sink))
}

#[test]
fn a_tuple_in_time_wait_is_used_again_after_a_second_and_not_before() {
    let mut pair = Pair::new(&Config::latency(), 1);
    let listener = pair.listen(80);
    assert_eq!(tuple(&pair), Tuple::Free);
    for round in 0..5 {
        talk(&mut pair, listener, &[round; 1000]);
        assert_eq!(tuple(&pair), Tuple::Waiting);
        assert_eq!(connect(&mut pair), Err(Error::AddressInUse));
        pair.run(SECOND + 20 * MS);
        assert_eq!(tuple(&pair), Tuple::Replaceable);
    }
    assert_eq!(pair.hosts[CLIENT].tcp.counters().value(Counter::TimeWaitReused), 4);
    let id = connect(&mut pair).unwrap();
    assert_eq!(tuple(&pair), Tuple::Used);
    pair.run(10 * MS);
    assert_eq!(pair.hosts[CLIENT].state(id), Some(State::Established));
    assert_eq!(pair.hosts[CLIENT].tcp.connections(), (1, 0), "its TIME-WAIT went with it");
    // The old one's timer does not end the new one.
    pair.run(70 * SECOND);
    assert_eq!(pair.hosts[CLIENT].state(id), Some(State::Established));
}

/// Without timestamps old segments cannot be distinguished from new ones.
#[test]
fn without_timestamps_it_is_waited_out() {
    let mut pair = Pair::new(&Config { timestamps: false, ..Config::latency() }, 1);
    let listener = pair.listen(80);
    talk(&mut pair, listener, b"x");
    pair.run(50 * SECOND);
    assert_eq!((tuple(&pair), connect(&mut pair)), (Tuple::Used, Err(Error::AddressInUse)));
    pair.run(11 * SECOND);
    assert_eq!(tuple(&pair), Tuple::Free);
    assert!(connect(&mut pair).is_ok());
}

/// Numbers of the old connection are not the new one's, even where that sent so much that the clock of ISNs was overtaken.
#[test]
fn a_new_connection_begins_beyond_the_numbers_of_the_old_one() {
    let mut pair = Pair::new(&Config::latency(), 1);
    let listener = pair.listen(80);
    let ours = pair.connect(4000, 80);
    pair.run(10 * MS);
    let theirs = pair.hosts[SERVER].tcp.accept(listener).unwrap();
    let (block, mut sent, mut got) = (vec![7; 1 << 20], 0, 0);
    // 64 MiB within a second: more than the clock's 15.6 million numbers.
    while got < 64 << 20 {
        let now = pair.now;
        sent += pair.hosts[CLIENT].send(now, ours, &block[..block.len().min((64 << 20) - sent)]).unwrap_or(0);
        pair.run(MS);
        while let Ok(bytes) = pair.hosts[SERVER].read(pair.now, theirs) {
            got += bytes.len();
        }
    }
    close(&mut pair, ours, theirs);
    pair.run(SECOND + 20 * MS);
    let id = connect(&mut pair).unwrap();
    pair.run(10 * MS);
    assert_eq!(pair.hosts[CLIENT].state(id), Some(State::Established));
}
