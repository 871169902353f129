//! Connections handed over: the record, what stays of a connection here, and thousands of schedules in which another TCP goes on.
//!
//! `SIDESTEP_SEED=n` runs one schedule and shows each segment; `SIDESTEP_SCHEDULES=n` runs n.

mod simulator;
mod tcp_support;

use sidestep_stack::tcp::{Config, ConnectionId, Options, OwnFin, Shutdown, State, Tuple, Unfit};
use sidestep_wire::tcp::Flags;
use simulator::hand_over::HandOvers;
use tcp_support::{CLIENT, Pair, SERVER, address};

const SCHEDULES: u64 = 6_000;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is not a number: {text}")))
}

fn add(sum: &mut HandOvers, one: HandOvers) {
    sum.done += one.done;
    sum.failed += one.failed;
    sum.unread += one.unread;
    sum.unacknowledged += one.unacknowledged;
    sum.unsent += one.unsent;
    sum.own_fin += one.own_fin;
    sum.peer_fin += one.peer_fin;
}

/// Under loss, reordering, closed windows, half-closed: no byte is lost, doubled or reordered, and every end comes.
#[test]
fn a_connection_that_is_handed_over_loses_nothing() {
    let (first, count, is_traced) = match number("SIDESTEP_SEED") {
        Some(seed) => (seed, 1, true),
        None => (0, number("SIDESTEP_SCHEDULES").unwrap_or(SCHEDULES), false),
    };
    let mut sum = HandOvers::default();
    for seed in first..first + count {
        let outcome = std::panic::catch_unwind(|| simulator::run_with_hand_overs(seed, is_traced));
        match outcome {
            Ok(Ok((_, seen))) => add(&mut sum, seen),
            other => panic!("SIDESTEP_SEED={seed}: {other:?}"),
        }
    }
    println!("{count} schedules: {sum:?}");
    let HandOvers { done, failed, unread, unacknowledged, unsent, own_fin, peer_fin } = sum;
    let all = [done, failed, unread, unacknowledged, unsent, own_fin, peer_fin];
    assert!(count < 1000 || all.iter().all(|seen| *seen > count / 20), "{sum:?}: too few to prove anything");
}

#[test]
fn a_record_has_all_queues() {
    let mut pair = Pair::new(&Config::latency(), 1);
    let (client, server) = pair.established();
    let now = pair.now;
    pair.hosts[SERVER].send(now, server, b"unread").unwrap();
    pair.run(1_000_000);
    let now = pair.now;
    pair.hosts[CLIENT].send(now, client, b"sent").unwrap();
    let record = pair.hosts[CLIENT].tcp.freeze(now, client).unwrap();
    assert_eq!(
        (&record.received[..], &record.unacknowledged[..], &record.unsent[..]),
        (&b"unread"[..], &b"sent"[..], &b""[..])
    );
    assert_eq!((record.state, record.own_fin, record.has_peer_fin), (State::Established, OwnFin::None, false));
    assert_eq!(record.sent_end(), record.send_start + 4);
    let clock = record.timestamps.unwrap();
    assert!(clock.echo != 0 && record.sack && record.segment_bytes == 1460);
    assert!(record.windows.send > 0 && record.windows.receive > 0 && record.windows.send_max >= record.windows.send);
}

#[test]
fn a_frozen_connection_sends_nothing_and_goes_on_when_it_is_thawed() {
    let mut pair = Pair::new(&Config::latency(), 1);
    let (client, server) = pair.established();
    let now = pair.now;
    pair.hosts[CLIENT].send(now, client, b"lost").unwrap();
    pair.hosts[CLIENT].wire.clear();
    let sent = pair.hosts[CLIENT].wire.sent;
    pair.hosts[CLIENT].tcp.freeze(now, client).unwrap();
    assert_eq!(pair.hosts[CLIENT].tcp.freeze(now, client), Err(Unfit::NotFound), "twice");
    pair.hosts[SERVER].send(now, server, b"to nobody").unwrap();
    pair.run(3_000_000_000);
    assert_eq!(pair.hosts[CLIENT].wire.sent, sent, "neither a timer nor a segment made it send");
    let now = pair.now;
    pair.hosts[CLIENT].with(now, |tcp, mut sink| tcp.thaw(now, client, &mut sink)).unwrap();
    pair.run(10_000_000_000);
    let now = pair.now;
    assert_eq!(pair.hosts[CLIENT].read(now, client).unwrap(), b"to nobody");
    assert_eq!(pair.hosts[SERVER].read(now, server).unwrap(), b"lost");
}

#[test]
fn a_forgotten_connection_asks_its_peer_stays_silent_then_and_keeps_its_tuple_until_it_is_released() {
    let mut pair = Pair::new(&Config::latency(), 1);
    let (client, server) = pair.established();
    let now = pair.now;
    let flow = pair.hosts[CLIENT].tcp.facts(client).unwrap().flow;
    let record = pair.hosts[CLIENT].tcp.freeze(now, client).unwrap();
    let sent = pair.hosts[CLIENT].wire.sent;
    pair.hosts[CLIENT].with(now, |tcp, mut sink| tcp.forget(now, client, &mut sink)).unwrap();
    let asking: Vec<_> = pair.hosts[CLIENT].wire.segments().into_iter().map(|(segment, _)| segment).collect();
    assert_eq!(asking.len(), 1, "the last one");
    assert_eq!((asking[0].flags, asking[0].sequence), (Flags::ACK, record.send_start - 1), "old: the peer answers");
    let sent = sent + 1;
    pair.hosts[SERVER].send(now, server, b"late").unwrap();
    pair.run(1_000_000_000);
    let host = &mut pair.hosts[CLIENT];
    assert_eq!(host.wire.sent, sent, "no RST");
    assert_eq!(host.tcp.connections(), (0, 0));
    assert_eq!(host.tcp.tuple(now, flow.local(), flow.remote()), Tuple::Used);
    assert!(host.tcp.release(client) && !host.tcp.release(client));
    assert_eq!(host.tcp.tuple(now, flow.local(), flow.remote()), Tuple::Free);
    host.tcp.audit().unwrap();
}

/// Steering brings a SYN of that tuple only if the kernel has nothing of the connection any more.
#[test]
fn the_tuple_of_a_forgotten_connection_is_its_peers_again_who_connects_anew() {
    let mut pair = Pair::new(&Config::latency(), 1);
    let (client, server) = pair.established();
    let now = pair.now;
    let flow = pair.hosts[CLIENT].tcp.facts(client).unwrap().flow;
    pair.hosts[SERVER].tcp.freeze(now, server).unwrap();
    pair.hosts[CLIENT].with(now, |tcp, mut sink| tcp.abort(now, client, &mut sink)).unwrap();
    pair.run(1_000_000);
    let options = pair.hosts[CLIENT].tcp.config().options();
    let now = pair.now;
    let again = pair.hosts[CLIENT]
        .with(now, |tcp, mut sink| tcp.connect(now, flow.local(), flow.remote(), None, options, &mut sink).unwrap());
    pair.run(1_000_000);
    assert_eq!(pair.hosts[CLIENT].tcp.facts(again).unwrap().state, State::SynSent, "frozen: nobody answers");
    let now = pair.now;
    pair.hosts[SERVER].with(now, |tcp, mut sink| tcp.forget(now, server, &mut sink)).unwrap();
    pair.run(5_000_000_000);
    assert_eq!(pair.hosts[CLIENT].tcp.facts(again).unwrap().state, State::Established, "its SYN came again");
    let host = &mut pair.hosts[SERVER];
    assert!(!host.tcp.release(server), "the word of control comes too late");
    host.tcp.audit().unwrap();
}

#[test]
fn what_is_not_open_is_refused() {
    let mut pair = Pair::new(&Config::latency(), 1);
    let now = pair.now;
    let options = pair.hosts[CLIENT].tcp.config().options();
    let begun = pair.hosts[CLIENT].with(now, |tcp, mut sink| {
        tcp.connect(now, address(CLIENT, 999), address(SERVER, 9), None, options, &mut sink).unwrap()
    });
    assert_eq!(pair.hosts[CLIENT].tcp.freeze(now, begun), Err(Unfit::NotSynchronized));
    let (client, server) = pair.established();
    for (host, id) in [(CLIENT, client), (SERVER, server)] {
        let now = pair.now;
        pair.hosts[host].with(now, |tcp, mut sink| tcp.shutdown(now, id, Shutdown::Write, &mut sink)).unwrap();
        pair.run(1_000_000);
    }
    let now = pair.now;
    assert_eq!(pair.hosts[CLIENT].tcp.freeze(now, client), Err(Unfit::TimeWait));
    assert_eq!(pair.hosts[SERVER].tcp.freeze(now, server), Err(Unfit::Ended));
}

#[test]
fn a_stack_that_drops_syns_completes_what_has_begun_and_answers_no_other() {
    let mut pair = Pair::new(&Config::latency(), 1);
    let listener = pair.listen(80);
    let first = pair.connect(40_000, 80);
    while pair.hosts[SERVER].tcp.half_open() == 0 {
        pair.run(1000);
    }
    pair.hosts[SERVER].tcp.drop_syns();
    let second = pair.connect(40_001, 80);
    pair.run(500_000_000);
    let states = [first, second].map(|id| pair.hosts[CLIENT].state(id));
    assert_eq!(states, [Some(State::Established), Some(State::SynSent)], "it repeats its SYN");
    assert_eq!(pair.hosts[SERVER].tcp.half_open(), 0);
    pair.hosts[SERVER].tcp.accept(listener).unwrap();
}

/// The client's end goes on by its record alone.
fn hand_over(pair: &mut Pair, client: ConnectionId) -> ConnectionId {
    let (now, host) = (pair.now, &mut pair.hosts[CLIENT]);
    let options = host.tcp.options(client).unwrap();
    let record = host.tcp.freeze(now, client).unwrap();
    host.with(now, |tcp, mut sink| tcp.forget(now, client, &mut sink)).unwrap();
    assert!(host.tcp.release(client));
    host.with(now, |tcp, mut sink| tcp.resume(now, &record, options, &mut sink)).unwrap()
}

/// What is offered and waits is within the limit, whatever the other TCP's own options would allow. The window is not scaled, or the
/// peer's FIN has a number of it.
#[test]
fn a_resumed_connection_offers_no_more_than_its_limit() {
    let unscaled = Config { window_scaling: false, receive_window_initial_bytes: 65_536, ..Config::latency() };
    let small = Config { receive_buffer_bytes: 8192, ..Config::latency() };
    for (config, has_fin) in [(unscaled, false), (small, true)] {
        let mut pair = Pair::new(&config, 1);
        let (mut client, server) = pair.established();
        let now = pair.now;
        pair.hosts[SERVER].send(now, server, &[7; 6000]).unwrap();
        if has_fin {
            pair.hosts[SERVER]
                .with(now, |tcp, mut sink| tcp.shutdown(now, server, Shutdown::Write, &mut sink))
                .unwrap();
        }
        pair.run(100_000_000);
        for _ in 0..2 {
            let now = pair.now;
            let options = pair.hosts[CLIENT].tcp.options(client).unwrap();
            pair.hosts[CLIENT].with(now, |tcp, mut sink| tcp.consume(now, client, 2000, &mut sink)).unwrap();
            pair.hosts[CLIENT].send(now, client, b"it takes the window along").unwrap();
            pair.hosts[CLIENT].with(now, |tcp, mut sink| tcp.set_options(now, client, options, &mut sink)).unwrap();
            pair.hosts[CLIENT].tcp.audit().unwrap();
            client = hand_over(&mut pair, client);
            pair.run(100_000_000);
        }
    }
}

/// A FIN that was sent counts as sent: the peer may have acknowledged it, and that must not be taken for the ACK of what was never
/// sent (RFC 9293 section 3.10.7.4, fifth check) while something holds the FIN back.
#[test]
fn the_ack_of_a_fin_that_was_sent_before_the_hand_over_counts() {
    let mut pair = Pair::new(&Config { in_flight_segments_max: 1, ..Config::latency() }, 1);
    let (client, server) = pair.established();
    let (now, host) = (pair.now, &mut pair.hosts[CLIENT]);
    let corked = Options { cork: true, ..host.tcp.options(client).unwrap() };
    host.with(now, |tcp, mut sink| tcp.set_options(now, client, corked, &mut sink)).unwrap();
    host.send(now, client, b"with the FIN").unwrap();
    host.with(now, |tcp, mut sink| tcp.shutdown(now, client, Shutdown::Write, &mut sink)).unwrap();
    while pair.hosts[SERVER].state(server) != Some(State::CloseWait) {
        pair.run(1000);
    }
    pair.hosts[SERVER].wire.clear();
    let client = hand_over(&mut pair, client);
    pair.run(1_000_000);
    assert_eq!(pair.hosts[CLIENT].state(client), Some(State::FinWait2), "by the answer to the last segment");
    assert_eq!(pair.hosts[SERVER].read(pair.now, server).unwrap(), b"with the FIN");
}
