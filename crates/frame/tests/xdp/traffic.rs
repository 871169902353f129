//! Frames there and back, every one checked, with every sender.

use crate::support::{KICKS, check_accounts, lab, link, receive, send, wait};
use sidestep_frame::FrameLink;
use sidestep_frame::xdp::{Kick, XdpLink};
use sidestep_lab::Side;

/// The most frames in flight: fewer than the frames lent for receiving, so that none may be lost.
const WINDOW: u64 = 48;

/// Sends numbered frames of every length, answers them in place, and checks that all come back in order.
fn there_and_back(near: &mut XdpLink, far: &mut XdpLink, count: u64) {
    let (mut sent, mut back) = (0, 0);
    wait("the last answer", || {
        while sent < count && sent - back < WINDOW && send(near, sent, 60 + (sent % 1455) as usize) {
            sent += 1;
        }
        near.flush().expect("the wire is up");
        while let Some((frame, _)) = receive(far) {
            let len = frame.len();
            let answer = far.answer(frame);
            far.send(answer, len).expect("the ring is longer than the window");
        }
        far.flush().expect("the wire is up");
        while let Some((frame, number)) = receive(near) {
            assert_eq!((number, frame.len()), (back, 60 + (back % 1455) as usize), "in order, whole");
            near.release(frame);
            back += 1;
        }
        near.poll().expect("the wire is up");
        far.poll().expect("the wire is up");
        (back == count).then_some(())
    });
}

#[test]
fn a_million_frames_come_back_whole_and_in_order() {
    let Some(lab) = lab() else { return };
    let (mut near, _feed) = link(lab.host(Side::A), Kick::Caller);
    let (mut far, _far_feed) = link(lab.host(Side::B), Kick::Caller);
    there_and_back(&mut near, &mut far, 500_000);
    for link in [&mut near, &mut far] {
        check_accounts(link);
        assert!(link.counters().sent == 500_000 && link.counters().received >= 500_000);
    }
}

#[test]
fn every_sender_delivers() {
    let Some(lab) = lab() else { return };
    for kick in KICKS {
        eprintln!("{kick:?}");
        let (mut near, _feed) = link(lab.host(Side::A), kick);
        let (mut far, _far_feed) = link(lab.host(Side::B), kick);
        assert_eq!(near.facts().sender, kick.into());
        there_and_back(&mut near, &mut far, 10_000);
        check_accounts(&mut near);
        check_accounts(&mut far);
    }
}

#[test]
fn a_caller_that_always_receives_need_not_poll() {
    let Some(lab) = lab() else { return };
    let (mut near, _feed) = link(lab.host(Side::A), Kick::Caller);
    let (mut far, _far_feed) = link(lab.host(Side::B), Kick::Caller);
    // Many times the size of any ring.
    for number in 0..5_000 {
        assert!(send(&mut near, number, 60));
        near.flush().expect("the wire is up");
        let (frame, got) = wait("the frame", || receive(&mut far));
        assert_eq!(got, number);
        let answer = far.answer(frame);
        far.send(answer, 60).expect("there is room");
        far.flush().expect("the wire is up");
        let (frame, _) = wait("the answer", || receive(&mut near));
        near.release(frame);
    }
    check_accounts(&mut near);
    check_accounts(&mut far);
}

#[test]
fn a_full_ring_leaves_in_several_calls_of_one_flush() {
    let Some(lab) = lab() else { return };
    for kick in KICKS {
        eprintln!("{kick:?}");
        let (mut near, _feed) = link(lab.host(Side::A), kick);
        let (mut far, _far_feed) = link(lab.host(Side::B), Kick::Caller);
        // More than the 32 that a call sends, fewer than the other end can receive.
        assert!((0..100).all(|number| send(&mut near, number, 60)));
        near.flush().expect("the wire is up");
        let mut next = 0;
        // The owner makes no further call.
        wait("the last of a burst", || {
            far.poll().expect("the wire is up");
            while let Some((frame, number)) = receive(&mut far) {
                assert_eq!(number, next);
                next += 1;
                far.release(frame);
            }
            (next == 100).then_some(())
        });
        check_accounts(&mut near);
    }
}

#[test]
fn a_sleeping_sender_is_woken() {
    let Some(lab) = lab() else { return };
    let (mut far, _far_feed) = link(lab.host(Side::B), Kick::Caller);
    for kick in [KICKS[2], Kick::Sqpoll { cpu: None, idle_ms: 1 }] {
        eprintln!("{kick:?}");
        let (mut near, _feed) = link(lab.host(Side::A), kick);
        for number in 0..5 {
            std::thread::sleep(std::time::Duration::from_millis(30));
            assert!(send(&mut near, number, 60));
            near.flush().expect("the wire is up");
            wait("the arrival", || {
                far.poll().expect("the wire is up");
                let (frame, got) = receive(&mut far)?;
                far.release(frame);
                (got == number).then_some(())
            });
        }
        assert!(near.counters().calls >= 3, "it slept, and was woken by a call: {:?}", near.counters());
    }
}
