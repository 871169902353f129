//! A thousand connections each way on four queues: none is refused, none is reset.

use crate::peer::{established, listen, poll_until, receive};
use crate::support::{Control, address, wait};
use crate::{engine, lab, told};
use sidestep_lab::Side;
use sidestep_socket::Queues;
use socket2::{Domain, Socket, Type};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

const CONNECTIONS: usize = 1000;

#[test]
fn a_thousand_connections_each_way_on_four_queues() {
    let Some(lab) = lab(4) else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let _control = Control::start(a);
    let mut engine = engine(a, Queues::Every);
    // With room for all: what overflows the accept queue of Linux is reset by it later.
    let listening = || -> std::io::Result<TcpListener> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.bind(&SocketAddr::new(address(b, false), 0).into())?;
        socket.listen(CONNECTIONS as i32)?;
        Ok(socket.into())
    };
    let server = b.within(|| Ok(listening().unwrap())).unwrap();
    let there = server.local_addr().unwrap();
    let here = SocketAddr::new(address(a, false), 7000);
    let listener = listen(a, &mut engine, here);
    let host = b.clone();
    let echo = std::thread::spawn(move || {
        let mut all: Vec<_> = (0..CONNECTIONS).map(|_| server.accept().unwrap().0).collect();
        for stream in &mut all {
            let mut bytes = [0; 8];
            stream.read_exact(&mut bytes).unwrap();
            stream.write_all(&bytes).unwrap();
        }
        all
    });
    let asking = std::thread::spawn(move || {
        let connect = || Ok((0..CONNECTIONS).map(|_| TcpStream::connect(here).unwrap()).collect::<Vec<_>>());
        let mut all = host.within(connect).unwrap();
        for (number, stream) in all.iter_mut().enumerate() {
            stream.write_all(&number.to_le_bytes()).unwrap();
        }
        for (number, stream) in all.iter_mut().enumerate() {
            let mut bytes = [0; 8];
            stream.read_exact(&mut bytes).unwrap();
            assert_eq!(bytes, number.to_le_bytes());
        }
        all
    });
    let options = engine.tcp().defaults();
    let mut ours = Vec::new();
    for _ in 0..CONNECTIONS {
        ours.push(a.within(|| engine.tcp().connect(there, None, options)).expect("it can begin"));
        engine.poll().unwrap();
    }
    let (mut accepted, mut answered, mut buffer) = (Vec::new(), 0, [0; 64]);
    wait("all that come", || {
        engine.poll().unwrap();
        accepted.extend(engine.tcp().accept(listener).unwrap());
        for stream in &accepted {
            if let Ok(count @ 1..) = engine.tcp().read(*stream, &mut buffer) {
                assert_eq!(engine.tcp().send(*stream, &buffer[..count]), Ok(count));
                answered += count / 8;
            }
        }
        (answered == CONNECTIONS).then_some(())
    });
    for (number, stream) in ours.iter().enumerate() {
        established(&mut engine, *stream);
        assert!(engine.tcp().path(*stream).unwrap().is_accelerated());
        assert_eq!(engine.tcp().send(*stream, &number.to_le_bytes()), Ok(8));
    }
    for (number, stream) in ours.iter().enumerate() {
        let mut bytes = [0; 8];
        assert_eq!(receive(&mut engine, *stream, &mut bytes), 8);
        assert_eq!(bytes, number.to_le_bytes());
    }
    for stream in &accepted {
        assert!(engine.tcp().path(*stream).unwrap().is_accelerated());
    }
    let counters = told(a).counters;
    assert!(!counters.contains("drop-queue") && !counters.contains("pass-no-socket"), "{counters:?}");
    drop((poll_until(&mut engine, echo), poll_until(&mut engine, asking)));
}
