//! Frames longer than a buffer: BPF_PROG_TEST_RUN splits a frame that exceeds a page.

use sidestep_lab::Options;
use sidestep_lab::{Lab, Side};
use sidestep_xdp_steering::{Attach, AttachMode, Protocol, Reason, Rehearsal, Steering, Verdict, Vlan, VlanMatch};

use crate::frames::{Frame, OWN_MAC, TCP, UDP};
use crate::support::{FRAME_BYTES_MAX, Pins, Stage, can_run, flow, group, ifindex, listener};

const ENDS: [(&str, &str); 2] = [("10.0.0.1:5000", "10.0.0.2:6000"), ("[fd00::1]:5000", "[fd00::2]:6000")];

/// The additional length of a frame with 9,000 bytes of IP packet, compared with the short ones.
const JUMBO: usize = 9000 - 80;

/// A stage whose owner accepts frames of this length.
fn stage(frame_bytes_max: u32) -> Stage {
    Stage::over(Rehearsal::new(OWN_MAC).unwrap(), 60, frame_bytes_max)
}

fn verdict(stage: &mut Stage, frame: &Frame) -> (Reason, Verdict) {
    let outcome = stage.rehearsal.run(&frame.bytes, 1).unwrap();
    (outcome.reason, outcome.verdict)
}

#[test]
fn frames_of_several_buffers_go_to_an_owner_that_takes_them() {
    if !can_run() {
        return;
    }
    let mut stage = stage(9728);
    for (local, remote) in ENDS {
        for (number, protocol) in [(TCP, Protocol::Tcp), (UDP, Protocol::Udp)] {
            for vlan in [Vlan::Untagged, Vlan::Tagged(5), Vlan::Double { outer: 5, inner: 6 }] {
                let frame = |more| Frame::new(number, remote, local, vlan).longer(more);
                stage.steer(&flow(protocol, local, remote, vlan));
                // Around the boundaries of one buffer and of two, up to the maximum.
                for more in (3200..3700).step_by(7).chain((7300..7800).step_by(7)).chain([4096, JUMBO]) {
                    assert_eq!(verdict(&mut stage, &frame(more)).0, Reason::Flow, "{more}");
                }
                stage.clear();
                assert_eq!(verdict(&mut stage, &frame(JUMBO)).0, Reason::NoEntry);
                stage.steer(&listener(protocol, local, VlanMatch::Only(vlan)));
                assert_eq!(verdict(&mut stage, &frame(JUMBO)).0, Reason::Listener);
                stage.clear();
            }
        }
    }
    let to = "239.1.2.3:5000";
    stage.steer(&group(to, None, VlanMatch::Any));
    let datagram = Frame::new(UDP, "10.0.0.2:6000", to, Vlan::Untagged).longer(JUMBO);
    assert_eq!(verdict(&mut stage, &datagram).0, Reason::Group);
}

/// The packet's length is compared with that of all buffers.
#[test]
fn a_packet_that_is_longer_than_all_its_buffers_passes() {
    if !can_run() {
        return;
    }
    let mut stage = stage(9728);
    for (local, remote) in ENDS {
        stage.steer(&listener(Protocol::Udp, local, VlanMatch::Any));
        let frame = || Frame::new(UDP, remote, local, Vlan::Untagged).longer(JUMBO);
        let bytes = frame().bytes.len();
        assert_eq!(verdict(&mut stage, &frame()).0, Reason::Listener);
        assert_eq!(verdict(&mut stage, &frame().cut(bytes - 1)).0, Reason::BadIp);
        assert_eq!(verdict(&mut stage, &frame().padded(1)).0, Reason::Listener);
    }
}

/// A datagram goes to the kernel's socket. A segment would be answered with a reset.
#[test]
fn what_is_too_long_for_its_owner_is_the_kernels_or_nobodys() {
    if !can_run() {
        return;
    }
    let mut stage = stage(FRAME_BYTES_MAX);
    for (local, remote) in ENDS {
        let frame = |number| Frame::new(number, remote, local, Vlan::Untagged);
        for protocol in [Protocol::Tcp, Protocol::Udp] {
            stage.steer(&listener(protocol, local, VlanMatch::Any));
        }
        let room = FRAME_BYTES_MAX as usize;
        for (number, then) in [(TCP, (Reason::DropTooLong, Verdict::Drop)), (UDP, (Reason::TooLong, Verdict::Pass))] {
            let fits = room - frame(number).bytes.len();
            assert_eq!(verdict(&mut stage, &frame(number).longer(fits)).0, Reason::Listener);
            for more in [fits + 1, 4096, JUMBO] {
                assert_eq!(verdict(&mut stage, &frame(number).longer(more)), then, "{more}");
            }
        }
        let segment = frame(TCP).longer(JUMBO);
        stage.tables().beat_at(stage.stack, 0).unwrap();
        assert_eq!(verdict(&mut stage, &segment).0, Reason::Stale, "nobody's who lives");
        stage.tables().beat(stage.stack).unwrap();
    }
    stage.tables().clear_socket(stage.stack, 0).unwrap();
    let (local, remote) = ENDS[0];
    let segment = Frame::new(TCP, remote, local, Vlan::Untagged).longer(JUMBO);
    assert_eq!(verdict(&mut stage, &segment), (Reason::NoSocket, Verdict::Pass));
}

/// A device may split a frame anywhere; the program reads the first buffer alone.
#[test]
fn headers_that_are_cut_by_the_device_pass_by_their_own_reason() {
    if !can_run() {
        return;
    }
    let mut stage = stage(9728);
    for (local, remote) in ENDS {
        for (number, protocol) in [(TCP, Protocol::Tcp), (UDP, Protocol::Udp)] {
            stage.steer(&listener(protocol, local, VlanMatch::Any));
            let frame = Frame::new(number, remote, local, Vlan::Untagged).longer(JUMBO);
            let headers = frame.transport + if number == TCP { 20 } else { 8 };
            for first in 14..headers {
                let outcome = stage.rehearsal.run_cut(&frame.bytes, first).unwrap();
                assert_eq!(outcome.reason, Reason::SplitHeader, "{first} bytes");
            }
            assert_eq!(stage.rehearsal.run_cut(&frame.bytes, headers).unwrap().reason, Reason::Listener);
        }
    }
}

#[test]
fn at_a_jumbo_mtu_the_program_is_in_the_driver() {
    if !can_run() {
        return;
    }
    let pins = Pins::new();
    let lab = Lab::up(&Options::default()).unwrap();
    for side in [Side::A, Side::B] {
        let mut ip = lab.host(side).command("ip").unwrap();
        assert!(ip.args(["link", "set", "lab0", "mtu", "9000"]).status().unwrap().success());
    }
    let work = || {
        let attach = Attach { ifindex: ifindex("lab0"), mode: AttachMode::Native, directory: pins.directory() };
        let steering = Steering::attach(&attach)?;
        assert_eq!((steering.facts().mode, steering.facts().downgrade.clone()), (AttachMode::Native, None));
        Ok(())
    };
    lab.host(Side::A).within(work).unwrap();
}
