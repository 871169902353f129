//! Many connections at once.

use crate::peer::{established, poll_until, receive, serving};
use crate::support::{Control, address, engine, lab, wait};
use sidestep_lab::{Host, Side};
use socket2::{Domain, Socket, Type};
use std::io::{Read, Write};
use std::net::SocketAddr;

const CONNECTIONS: usize = 1000;

/// A listener of Linux. With the 128 places of the standard library's a burst of a thousand overflows the accept queue:
/// Linux drops the last ACK of the handshake, forgets the request later, and then resets a connection that this side
/// holds for established, as it would any client's.
fn listen_with_room_for_all(host: &Host, local: SocketAddr) -> std::net::TcpListener {
    let listen = || -> std::io::Result<std::net::TcpListener> {
        let socket = Socket::new(Domain::for_address(local), Type::STREAM, None)?;
        socket.bind(&local.into())?;
        socket.listen(CONNECTIONS as i32)?;
        Ok(socket.into())
    };
    host.within(|| Ok(listen().expect("the port is free"))).expect("root can")
}

#[test]
fn a_thousand_connections_from_here_at_once() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let _control = Control::start(a);
    let mut engine = engine(a);
    let server = listen_with_room_for_all(b, SocketAddr::new(address(b, false), 0));
    let at = server.local_addr().unwrap();
    let serving = std::thread::spawn(move || {
        let mut all: Vec<_> = (0..CONNECTIONS).map(|_| server.accept().unwrap().0).collect();
        for stream in &mut all {
            let mut bytes = [0; 8];
            stream.read_exact(&mut bytes).unwrap();
            stream.write_all(&bytes).unwrap();
        }
        // Ours closes first.
        all.iter_mut().for_each(|stream| assert_eq!(stream.read(&mut [0; 8]).unwrap(), 0));
    });
    let options = engine.tcp().defaults();
    let begin = |_| a.within(|| engine.tcp().connect(at, None, options)).expect("it can begin");
    let all: Vec<_> = (0..CONNECTIONS).map(begin).collect();
    for (number, stream) in all.iter().enumerate() {
        established(&mut engine, *stream);
        assert!(engine.tcp().path(*stream).unwrap().is_accelerated());
        assert_eq!(engine.tcp().send(*stream, &number.to_le_bytes()), Ok(8));
    }
    // It changes nothing, whatever it is given.
    engine.tcp().look_ahead_to_send(&[]);
    engine.tcp().look_ahead_to_send(&all);
    for (number, stream) in all.iter().enumerate() {
        let mut bytes = [0; 8];
        assert_eq!(receive(&mut engine, *stream, &mut bytes), 8);
        assert_eq!(bytes, number.to_le_bytes());
    }
    all.iter().for_each(|stream| engine.tcp().close(*stream).unwrap());
    engine.tcp().look_ahead_to_send(&all);
    poll_until(&mut engine, serving);
    wait("TIME-WAIT", || {
        engine.poll().unwrap();
        (engine.tcp().connections() == (CONNECTIONS as u32, CONNECTIONS as u32)).then_some(())
    });
}

#[test]
fn a_thousand_connections_to_here_at_once() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let (_control, mut engine, at, listener) = serving(b);
    let host = a.clone();
    let asking = std::thread::spawn(move || {
        let connect = || Ok((0..CONNECTIONS).map(|_| std::net::TcpStream::connect(at).unwrap()).collect::<Vec<_>>());
        let mut all = host.within(connect).unwrap();
        for (number, stream) in all.iter_mut().enumerate() {
            stream.write_all(&number.to_le_bytes()).unwrap();
        }
        for (number, stream) in all.iter_mut().enumerate() {
            let mut bytes = [0; 8];
            stream.read_exact(&mut bytes).unwrap();
            assert_eq!(bytes, number.to_le_bytes());
        }
    });
    let (mut accepted, mut buffer) = (Vec::new(), [0; 64]);
    let mut answered = 0;
    wait("all of them", || {
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
    poll_until(&mut engine, asking);
}
