//! Two programs on one queue, one without privilege, and the kernel's rules for ports.

use crate::roles::start;
use crate::support::{Control, address, bind, engine, kernel, lab, wait, wait_for_control};
use sidestep_control_api::client::Client;
use sidestep_control_api::message::DetailLine;
use sidestep_lab::Side;
use sidestep_socket::{Engine, EngineOptions, Path, Reason, UdpOptions};
use std::net::SocketAddr;

#[test]
fn the_second_program_on_a_queue_gets_the_kernel_and_the_reason() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let _control = Control::start(b);
    let _first = engine(b);
    let mut second = b.within(|| Engine::open(&EngineOptions::on(&b.interface))).unwrap();
    assert_eq!(second.refusal().unwrap().0, Reason::NoFreeQueue);
    let at = SocketAddr::new(address(b, false), 7200);
    let socket = bind(b, &mut second, at);
    assert_eq!(second.path(socket), Ok(Path::Kernel(Reason::NoFreeQueue)));
    let client = kernel(a, SocketAddr::new(address(a, false), 0));
    client.send_to(b"still served", at).unwrap();
    let datagram = wait("a datagram", || second.receive(socket).unwrap());
    second.reply(socket, datagram).unwrap();
    assert_eq!(client.recv(&mut [0; 64]).unwrap(), 12);
    // It shows in `sidestep ps`.
    let mut asking = b.within(|| Ok(Client::connect("test").unwrap())).unwrap();
    wait("the reason in the list", || {
        let clients = asking.clients().unwrap();
        let mut lines = clients.iter().flat_map(|client| asking.details(client.client).unwrap_or_default());
        lines.any(|line| matches!(line, DetailLine::Kernel { subject, .. } if subject.contains("7200"))).then_some(())
    });
}

#[test]
fn ports_are_the_kernels_to_give() {
    let Some(lab) = lab() else { return };
    let b = lab.host(Side::B);
    let _control = Control::start(b);
    let mut engine = engine(b);
    let at = SocketAddr::new(address(b, false), 7201);
    let holder = kernel(b, at);
    let refused = b.within(|| engine.bind(at, &UdpOptions::default())).unwrap_err();
    assert!(refused.to_string().contains("Address already in use"), "{refused}");
    assert_eq!(refused.raw_os_error(), Some(libc::EADDRINUSE));
    drop(holder);
    // Not at once: a child that another test has just forked has all descriptors until it becomes another program.
    let socket = wait("the port", || b.within(|| Ok(engine.bind(at, &UdpOptions::default()).ok())).unwrap());
    let taken = b.within(|| Ok(std::net::UdpSocket::bind(at).unwrap_err().kind())).unwrap();
    assert_eq!(taken, std::io::ErrorKind::AddrInUse);
    engine.close(socket).unwrap();
    wait("the port", || b.within(|| Ok(std::net::UdpSocket::bind(at).ok())).unwrap());
}

#[test]
fn a_user_without_privilege_goes_past_the_kernel() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    let _control = start(b, "control", None, None);
    wait_for_control(b);
    let at = SocketAddr::new(address(b, false), 7202);
    let mut program = start(b, "echo", Some(at), Some(65534));
    let line = program.line("path ");
    assert!(line.contains("Accelerated"), "{line}");
    let client = kernel(a, SocketAddr::new(address(a, false), 0));
    client.send_to(b"hello", at).unwrap();
    assert_eq!(client.recv(&mut [0; 64]).unwrap(), 5);
    program.kill();
}
