//! Links that go down, come up, and go away.

use crate::support::{KICKS, lab, link, options, receive, send, unbound, wait};
use sidestep_frame::FrameLink;
use sidestep_frame::xdp::{Kick, XdpLink, XdpOptions};
use sidestep_lab::{Host, Side};
use sidestep_sys::xdp::{Rings, Umem, wait_until_up};
use std::io;
use std::process::Command;

fn ip(host: &Host, arguments: &[&str]) {
    let status = Command::new("ip").args(["-n", &host.namespace]).args(arguments).status().expect("ip is there");
    assert!(status.success(), "ip {arguments:?}");
}

/// The error that flush or poll eventually returns.
fn error_of(link: &mut XdpLink) -> io::Error {
    wait("an error", || {
        send(link, 0, 60);
        link.flush().err().or_else(|| link.poll().err())
    })
}

#[test]
fn a_queue_is_bound_again_and_again() {
    let Some(lab) = lab() else { return };
    let (mut far, _far_feed) = link(lab.host(Side::B), Kick::Caller);
    for number in 0..10 {
        let (mut near, _feed) = link(lab.host(Side::A), KICKS[number as usize % KICKS.len()]);
        assert!(send(&mut near, number, 60));
        near.flush().expect("the wire is up");
        wait("the arrival", || {
            near.poll().expect("the wire is up");
            let (frame, got) = receive(&mut far)?;
            far.release(frame);
            far.poll().expect("the wire is up");
            (got == number).then_some(())
        });
    }
}

#[test]
fn a_used_socket_is_not_taken_over() {
    let Some(lab) = lab() else { return };
    let host = lab.host(Side::A);
    let (umem, unbound) = unbound(host);
    let copy = |descriptor: std::os::fd::BorrowedFd<'_>| descriptor.try_clone_to_owned().expect("descriptors are free");
    let map = || Rings::map(unbound.socket(), options().rings).expect("it is not bound");
    let rings = [map(), map()];
    let facts = host.within(|| unbound.bind(&host.interface, 0, &options())).expect("nobody has the queue");
    let [first, second] = rings.map(|rings| {
        let frames = Umem::open(copy(umem.memfd()), facts.geometry).expect("it is there");
        XdpLink::open(copy(unbound.socket()), rings, frames, facts.clone(), &XdpOptions::default())
    });
    drop(first.expect("it is fresh"));
    let refusal = second.expect_err("its frames are somewhere").to_string();
    assert!(refusal.contains("used before"), "{refusal}");
}

#[test]
fn an_interface_that_is_down_is_told_and_comes_back() {
    let Some(lab) = lab() else { return };
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    for kick in KICKS {
        eprintln!("{kick:?}");
        let (mut near, _feed) = link(a, kick);
        let (mut far, _far_feed) = link(b, Kick::Caller);
        ip(a, &["link", "set", &a.interface, "down"]);
        assert_eq!(error_of(&mut near).raw_os_error(), Some(libc::ENETDOWN));
        ip(a, &["link", "set", &a.interface, "up"]);
        for host in [a, b] {
            host.within(|| wait_until_up(&host.interface, crate::support::WATCHDOG)).expect("it comes up");
        }
        wait("traffic after the link came back", || {
            // Each sender may still report an error from the time when the link was down.
            let _ = (near.poll(), far.poll());
            send(&mut near, 77, 60);
            let _ = near.flush();
            let (frame, number) = receive(&mut far)?;
            far.release(frame);
            (number == 77).then_some(())
        });
        assert_eq!(near.counters().faults, 0);
    }
}

#[test]
fn an_interface_that_is_deleted_is_an_error_and_no_hang() {
    for kick in KICKS {
        let Some(lab) = lab() else { return };
        eprintln!("{kick:?}");
        let host = lab.host(Side::A);
        let (mut near, _feed) = link(host, kick);
        ip(host, &["link", "delete", &host.interface]);
        let gone = wait("the error", || near.check().err().or_else(|| near.flush().err()));
        assert!(matches!(gone.raw_os_error(), Some(libc::ENETDOWN | libc::ENXIO)), "{gone}");
        let error = error_of(&mut near);
        assert!(matches!(error.raw_os_error(), Some(libc::ENETDOWN | libc::ENXIO)), "{error}");
        assert!(receive(&mut near).is_none());
    }
}
