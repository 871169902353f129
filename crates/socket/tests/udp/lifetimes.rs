//! What ends, and what of it comes back: interfaces, namespaces, and processes that fork.

use crate::adversity::{answer, ask, until_fast};
use crate::roles::start;
use crate::support::{
    Control, address, bind, child, engine, join_group, kernel, lab, receive, relink, wait, wait_for_control,
};
use sidestep_lab::Side;
use sidestep_socket::{Reason, UdpOptions};
use std::net::{IpAddr, SocketAddr, UdpSocket};

/// 239/8 is for whoever runs the network (RFC 2365).
const GROUP: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(239, 1, 1, 7));

#[test]
fn a_forked_child_may_do_nothing_and_disturbs_nobody() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let _control = Control::start(b);
    let mut engine = engine(b);
    let at = SocketAddr::new(address(b, false), 7400);
    let socket = bind(b, &mut engine, at);
    let client = kernel(a, SocketAddr::new(address(a, false), 0));
    until_fast(&mut engine, socket, &client, at);
    engine = child(engine, |mut engine| {
        let refused = engine.poll().is_err()
            && engine.receive(socket).is_err()
            && engine.send_to(socket, b"from the child", at).is_err()
            && engine.bind(at, &UdpOptions::default()).is_err()
            && engine.close(socket).is_err();
        drop(engine);
        refused
    });
    until_fast(&mut engine, socket, &client, at);
    engine.close(socket).unwrap();
    let again = bind(b, &mut engine, at);
    until_fast(&mut engine, again, &client, at);
}

#[test]
fn sockets_and_groups_come_back_with_the_interface() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let _control = Control::start(b);
    let mut engine = engine(b);
    let at = SocketAddr::new(address(b, false), 7401);
    let socket = bind(b, &mut engine, at);
    let member = bind(b, &mut engine, "0.0.0.0:7402".parse().unwrap());
    assert!(join_group(b, &mut engine, member, GROUP, None).is_accelerated());
    let client = kernel(a, SocketAddr::new(address(a, false), 7403));
    until_fast(&mut engine, socket, &client, at);
    client.send_to(b"held", at).unwrap();
    let held = receive(&mut engine, socket);
    assert!(!held.by_kernel());
    client.send_to(b"unread", at).unwrap();
    wait("an unread datagram", || (engine.poll().unwrap() == 1).then_some(()));
    let mut held = Some(held);
    relink(a, b, || {
        wait("the loss", || {
            engine.poll().unwrap();
            engine.refusal().filter(|(reason, _)| *reason == Reason::Revoked).map(drop)
        });
        let held = held.take().unwrap();
        assert_eq!(engine.payload(&held), b"held", "what is held stays readable");
        engine.release(held);
        let unread = receive(&mut engine, socket);
        assert_eq!(engine.payload(&unread), b"unread");
        engine.release(unread);
        assert!(!engine.path(socket).unwrap().is_accelerated());
    });
    wait("the way past the kernel", || {
        engine.poll().unwrap();
        engine.path(socket).unwrap().is_accelerated().then_some(())
    });
    assert_eq!(engine.refusal(), None);
    until_fast(&mut engine, socket, &client, at);
    let to_group = SocketAddr::new(GROUP, 7402);
    let datagram = wait("the group, past the kernel", || {
        let _ = client.send_to(b"to all", to_group);
        let datagram = engine.receive(member).unwrap()?;
        match datagram.by_kernel() {
            true => {
                engine.release(datagram);
                None
            }
            false => Some(datagram),
        }
    });
    assert_eq!(engine.payload(&datagram), b"to all");
    engine.release(datagram);
}

/// Its name goes, its interface with the other host; what lives in it keeps it.
#[test]
fn a_namespace_that_goes_away_leaves_the_kernels_sockets_and_then_nothing() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A).clone(), lab.host(Side::B).clone());
    let mut control = start(&b, "control", None, None);
    wait_for_control(&b);
    let mut engine = engine(&b);
    let socket = bind(&b, &mut engine, SocketAddr::new([0, 0, 0, 0].into(), 7404));
    let client = kernel(&a, SocketAddr::new(address(&a, false), 0));
    until_fast(&mut engine, socket, &client, SocketAddr::new(address(&b, false), 7404));
    let near = b.within(|| Ok(UdpSocket::bind("127.0.0.1:0").unwrap())).unwrap();
    let state = b.within(sidestep_control_api::place::directory).unwrap();
    drop(client);
    drop(lab);
    wait("the loss", || {
        engine.poll().unwrap();
        engine.refusal().filter(|(reason, _)| *reason == Reason::Revoked).map(drop)
    });
    ask(&near, "127.0.0.1:7404".parse().unwrap(), || answer(&mut engine, socket));
    assert!(!engine.path(socket).unwrap().is_accelerated());
    control.kill();
    ask(&near, "127.0.0.1:7404".parse().unwrap(), || answer(&mut engine, socket));
    drop((engine, near));
    // What the killed control has left is swept by the next one, wherever that is.
    assert!(state.exists());
    let Some(other) = crate::support::lab() else { return };
    wait("the sweep", || {
        other.host(Side::A).within(sidestep_control::cleanup).unwrap();
        (!state.exists()).then_some(())
    });
}
