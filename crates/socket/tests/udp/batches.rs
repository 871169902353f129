//! Many datagrams in one call: more than a system call takes, than a ring and than a call gives back, and some that cannot be sent.

use crate::support::{Control, SENDERS, address, bind, engine, engine_with, kernel, lab, message, wait};
use sidestep_lab::{Host, Side};
use sidestep_socket::{Datagram, Engine, EngineOptions, Handle, Message, SendError, UdpOptions};
use std::net::SocketAddr;

/// Number `number` of a batch; the lengths differ.
fn payload(number: usize) -> Vec<u8> {
    let mut payload = message(number as u32, 4 + number * 37 % 1469);
    payload[..4].copy_from_slice(&(number as u32).to_be_bytes());
    payload
}

/// Sends all of them, in as many calls as that takes.
fn send_all(engine: &mut Engine, socket: Handle, payloads: &[Vec<u8>], to: SocketAddr) {
    let mut sent = 0;
    wait("the last one sent", || {
        engine.poll().expect("it is ours");
        let rest = payloads[sent..].iter().map(|payload| (&payload[..], Some(to)));
        match engine.send_many(socket, rest) {
            Ok(count) => sent += count,
            Err(error) => assert_eq!(error, SendError::Full),
        }
        (sent == payloads.len()).then_some(())
    });
}

/// What has come in so far, at most `most` in a call.
fn receive_all(engine: &mut Engine, socket: Handle, most: usize, count: usize) -> Vec<Vec<u8>> {
    let (mut all, mut some) = (Vec::new(), Vec::<Datagram>::new());
    wait("the last one", || {
        let came = engine.receive_many(socket, most, &mut some).expect("it is open");
        assert!(came <= most.min(64) && some.len() == came, "{came} of {most}");
        for datagram in some.drain(..) {
            all.push(engine.payload(&datagram).to_vec());
            engine.release(datagram);
        }
        (all.len() == count).then_some(())
    });
    all
}

/// Has the neighbour resolved.
fn reach(engine: &mut Engine, socket: Handle, to: SocketAddr) {
    wait("the neighbour", || {
        engine.poll().expect("it is ours");
        engine.path_to(socket, to).expect("it is open").is_accelerated().then_some(())
    });
}

/// One engine sends, another receives; what is under way fits the receiver's ring.
fn there(a: &Host, b: &Host, change: fn(EngineOptions) -> EngineOptions) {
    let (mut near, mut far) = (engine_with(a, change), engine_with(b, change));
    let (client, at) =
        (bind(a, &mut near, SocketAddr::new(address(a, false), 0)), SocketAddr::new(address(b, false), 7100));
    let server = bind(b, &mut far, at);
    reach(&mut near, client, at);
    let before = near.statistics(client).expect("it is open");
    for (count, most) in [(0, 8), (1, 1), (3, 1), (33, 64), (200, 5), (250, 1000)] {
        let payloads: Vec<Vec<u8>> = (0..count).map(payload).collect();
        send_all(&mut near, client, &payloads, at);
        // Frames that a kick has left, as the device was full, leave with a poll.
        near.poll().expect("it is ours");
        assert!(receive_all(&mut far, server, most, count) == payloads, "{count} by {most}");
    }
    let after = near.statistics(client).expect("it is open");
    assert_eq!((after.sent - before.sent, after.sent_by_kernel), (487, before.sent_by_kernel));
    assert_eq!(far.statistics(server).expect("it is open").dropped, 0);
}

#[test]
fn a_batch_arrives_whole_and_in_order() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let _controls = [Control::start(a), Control::start(b)];
    SENDERS.iter().for_each(|sender| there(a, b, *sender));
}

/// More than the ring and all frames hold: what is full is emptied, and nothing is lost on the way out.
#[test]
fn a_batch_beyond_the_ring_leaves_as_well() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let _control = Control::start(a);
    let server = kernel(b, SocketAddr::new(address(b, false), 7100));
    let at = server.local_addr().expect("it is bound");
    let count = std::thread::spawn(move || {
        let (mut next, mut buffer) = (0, [0; 2048]);
        while next < 20_000_u32 {
            let bytes = server.recv(&mut buffer).expect("more are to come");
            let number = u32::from_be_bytes(*buffer.first_chunk().expect("it has a number"));
            assert!(number >= next && buffer[..bytes] == payload(number as usize), "{number} after {next}");
            next = number + 1;
        }
    });
    let mut engine = engine(a);
    let client = bind(a, &mut engine, SocketAddr::new(address(a, false), 0));
    reach(&mut engine, client, at);
    let payloads: Vec<Vec<u8>> = (0..20_000).map(payload).collect();
    for some in payloads.chunks(5000) {
        send_all(&mut engine, client, some, at);
    }
    let counts = engine.statistics(client).expect("it is open");
    assert_eq!(counts.sent + counts.sent_by_kernel, 20_000);
    // The receiver's buffer may lose some, the last one is sent until it has come.
    wait("the last one there", || {
        engine.send_many(client, [(&payloads[19_999][..], Some(at))]).expect("there is room");
        engine.poll().expect("it is ours");
        count.is_finished().then_some(())
    });
    count.join().expect("all that came was whole");
}

/// As sendmmsg(2): what comes before the wrong one has left, and the next call tells the error.
#[test]
fn a_batch_ends_at_what_cannot_be_sent() {
    let mut engine = Engine::open(&EngineOptions::on("lo")).expect("an engine opens");
    let mut socket =
        || engine.bind("127.0.0.1:0".parse().expect("it is one"), &UdpOptions::default()).expect("a port is free");
    let (client, server) = (socket(), socket());
    let to = Some(engine.local(server).expect("it is bound"));
    let long = vec![0; 70_000];
    let messages: [Message<'_>; 4] = [(b"one", to), (b"two", to), (&long, to), (b"four", to)];
    assert_eq!(engine.send_many(client, messages), Ok(2));
    assert!(matches!(
        engine.send_many(client, messages[2..].iter().copied()),
        Err(SendError::TooLong { .. } | SendError::Kernel(_))
    ));
    assert_eq!(engine.send_many(client, [(&b"none"[..], None)]), Err(SendError::NoPeer));
    assert_eq!(engine.send_many(client, messages[3..].iter().copied()), Ok(1));
    let came = receive_all(&mut engine, server, 2, 3);
    assert_eq!(came, [&b"one"[..], b"two", b"four"]);
    engine.close(client).expect("it is open");
    assert!(engine.send_many(client, messages).is_err() && engine.receive_many(client, 1, &mut Vec::new()).is_err());
}
