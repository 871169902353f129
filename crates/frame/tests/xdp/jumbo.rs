//! Frames of several buffers (Linux 6.6): gathered, split, accounted for.

use crate::support::{Feed, KICKS, check_accounts, lab, link_with, options, receive, send, wait};
use sidestep_frame::FrameLink;
use sidestep_frame::xdp::{Kick, XdpLink};
use sidestep_lab::{Host, Lab, Side};
use sidestep_sys::xdp::XskOptions;
use std::net::UdpSocket;
use std::process::Command;

/// The most frames in flight: of the longest, fewer than the 128 frames lent for receiving hold.
const WINDOW: u64 = 8;

fn ip(host: &Host, words: &str) {
    let mut ip = Command::new("ip");
    assert!(host.spawn(ip.args(words.split(' '))).unwrap().wait().unwrap().success(), "ip {words}");
}

/// Both ends of a wire with that MTU.
fn links(lab: &Lab, mtu: u32, kick: Kick) -> [(XdpLink, Feed); 2] {
    let hosts = [lab.host(Side::A), lab.host(Side::B)];
    hosts.into_iter().for_each(|host| ip(host, &format!("link set {} mtu {mtu}", host.interface)));
    hosts.map(|host| {
        let (link, feed) = link_with(host, kick, &XskOptions { multi_buffer: true, ..options() });
        assert!(link.facts().xsks[0].multi_buffer);
        assert_eq!((link.facts().receive_bytes_max, link.facts().send_bytes_max), (16_384, 16_384));
        (link, feed)
    })
}

/// Lengths around every boundary, in no order.
fn length(number: u64, most: u64) -> usize {
    (60 + number * 97 % (most - 59)) as usize
}

fn there_and_back(near: &mut XdpLink, far: &mut XdpLink, count: u64, most: u64) {
    let (mut sent, mut back) = (0, 0);
    wait("the last answer", || {
        while sent < count && sent - back < WINDOW && send(near, sent, length(sent, most)) {
            sent += 1;
        }
        near.flush().expect("the wire is up");
        while let Some((frame, _)) = receive(far) {
            let len = frame.len();
            let answer = far.answer(frame);
            if let Err(unsent) = far.send(answer, len) {
                panic!("{:?}: the ring is longer than the window", unsent.reason);
            }
        }
        far.flush().expect("the wire is up");
        while let Some((frame, number)) = receive(near) {
            assert_eq!((number, frame.len()), (back, length(back, most)), "in order, whole");
            near.release(frame);
            back += 1;
        }
        near.poll().expect("the wire is up");
        far.poll().expect("the wire is up");
        (back == count).then_some(())
    });
}

#[test]
fn of_every_length_they_come_back_whole_and_in_order() {
    let Some(lab) = lab() else { return };
    for mtu in [1500, 1800, 3000, 9000, 16_370] {
        eprintln!("an MTU of {mtu}");
        let [(mut near, _feed), (mut far, _far_feed)] = links(&lab, mtu, Kick::Caller);
        there_and_back(&mut near, &mut far, 20_000, u64::from(mtu) + 14);
        for link in [&mut near, &mut far] {
            check_accounts(link);
            assert_eq!(link.counters().long_dropped, 0);
        }
    }
}

#[test]
fn every_sender_delivers_them() {
    let Some(lab) = lab() else { return };
    for kick in KICKS {
        eprintln!("{kick:?}");
        let [(mut near, _feed), (mut far, _far_feed)] = links(&lab, 9000, kick);
        there_and_back(&mut near, &mut far, 5_000, 9014);
        [near, far].iter_mut().for_each(check_accounts);
    }
}

/// Sends nearly three times the descriptors of one call, with a limit in the middle of a frame: all of it is sent by
/// the one flush, without another call by the owner.
#[test]
fn a_burst_leaves_whole_with_one_flush() {
    /// 6 descriptors of 1792 bytes each on the receiving side, of the 128 frames that are lent for that.
    const BURST: u64 = 18;
    let Some(lab) = lab() else { return };
    for kick in KICKS {
        eprintln!("{kick:?}");
        let [(mut near, _feed), (mut far, _far_feed)] = links(&lab, 9000, kick);
        for round in 0..200 {
            let (first, last) = (round * BURST, (round + 1) * BURST);
            assert!((first..last).all(|number| send(&mut near, number, 9014)));
            near.flush().expect("the wire is up");
            let mut next = first;
            wait("the last of a burst", || {
                far.poll().expect("the wire is up");
                while let Some((frame, number)) = receive(&mut far) {
                    assert_eq!(number, next);
                    next += 1;
                    far.release(frame);
                }
                (next == last).then_some(())
            });
            wait("the return of the burst", || {
                near.poll().expect("the wire is up");
                (near.counters().tally.sent == 0).then_some(())
            });
        }
        [near, far].iter_mut().for_each(check_accounts);
    }
}

/// Sends frames that are too long, and more than there is memory for: they are dropped and counted, and later ones
/// pass.
#[test]
fn what_cannot_be_gathered_is_dropped_whole() {
    let Some(lab) = lab() else { return };
    let [(mut near, _feed), (mut far, _far_feed)] = links(&lab, 60_000, Kick::Caller);
    let (a, b) = (lab.host(Side::A), lab.host(Side::B));
    // The frames of B go to its link, so its kernel answers no neighbour request.
    ip(a, &format!("neigh replace {} lladdr 02:00:00:00:00:02 dev {} nud permanent", b.ipv4, a.interface));
    let socket = a.within(|| Ok(UdpSocket::bind((a.ipv4, 0)).unwrap())).unwrap();
    for round in 1..=10 {
        socket.send_to(&[7; 20_000], (b.ipv4, 7)).unwrap();
        wait("a frame that is too long", || {
            assert!(far.receive().is_none_or(|frame| {
                let is_short = frame.len() < 2000;
                far.release(frame);
                is_short
            }));
            far.poll().unwrap();
            (far.counters().long_dropped == round).then_some(())
        });
    }
    // Frames are kept until none is left; later ones are dropped, and the kept ones are still intact.
    let (mut kept, mut sent) = (Vec::new(), 0);
    let before = far.counters().long_dropped;
    wait("the end of the memory", || {
        sent += u64::from(send(&mut near, sent, 9000));
        near.flush().unwrap();
        near.poll().unwrap();
        kept.extend(receive(&mut far).into_iter().map(|(frame, _)| frame));
        far.poll().unwrap();
        (far.counters().long_dropped > before + 5).then_some(())
    });
    assert_eq!(kept.len() as u32, far.long_frames());
    for (number, frame) in kept.into_iter().enumerate() {
        assert_eq!(crate::support::number(far.bytes(&frame)), Some(number as u64));
        far.release(frame);
    }
    // What was still under way comes before this one. One that is sent and has not come was dropped.
    const LAST: u64 = u64::MAX;
    wait("the end of what was under way", || {
        near.poll().unwrap();
        let is_sent = near.counters().tally.sent == 0;
        far.poll().unwrap();
        while let Some((frame, number)) = receive(&mut far) {
            far.release(frame);
            if number == LAST {
                return Some(());
            }
        }
        assert!(!is_sent || send(&mut near, LAST, 100), "the ring has room");
        near.flush().unwrap();
        None
    });
    there_and_back(&mut near, &mut far, 1000, 9014);
    check_accounts(&mut far);
}
