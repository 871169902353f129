//! Random frames, and truncated frames: they pass, and the kernel runs the program over all of them.

use sidestep_xdp_steering::{Protocol, Reason, Verdict, Vlan, VlanMatch};

use crate::frames::{Frame, OWN_MAC, TCP, UDP};
use crate::support::{Stage, can_run, group, listener, without_forwarding};

/// The shortest frame that the kernel accepts for a test run: an Ethernet header.
const FRAME_BYTES_MIN: usize = 14;

/// Frames per kind; about a second altogether.
const FRAMES: usize = 4000;

/// A stage that owns every destination of the frames below.
fn greedy() -> Stage {
    let stage = Stage::new();
    for protocol in [Protocol::Tcp, Protocol::Udp] {
        for port in [5000, 1, 80, 65_535] {
            for any in ["0.0.0.0", "[::]"] {
                stage.steer(&listener(protocol, &format!("{any}:{port}"), VlanMatch::Any));
            }
        }
    }
    stage.steer(&group("239.129.2.3:5000", None, VlanMatch::Any));
    stage
}

fn whole() -> Vec<Frame> {
    let vlans = [Vlan::Untagged, Vlan::Tagged(1), Vlan::Double { outer: 1, inner: 2 }];
    let ends = [("10.0.0.2:6000", "10.0.0.1:5000"), ("[fd00::2]:6000", "[fd00::1]:5000")];
    let mut frames = Vec::new();
    for vlan in vlans {
        for protocol in [TCP, UDP] {
            frames.extend(ends.map(|(remote, local)| Frame::new(protocol, remote, local, vlan)));
        }
    }
    frames.push(Frame::new(UDP, "10.0.0.2:6000", "239.129.2.3:5000", Vlan::Untagged));
    frames
}

#[test]
fn a_frame_cut_at_any_byte_passes() {
    if can_run() {
        without_forwarding(cut_everywhere);
    }
}

fn cut_everywhere() {
    let mut stage = greedy();
    for frame in whole() {
        let uncut = stage.rehearsal.run(&frame.bytes, 1).unwrap();
        assert_eq!(uncut.verdict, Verdict::Redirect, "{:02x?}", frame.bytes);
        for bytes in FRAME_BYTES_MIN..frame.bytes.len() {
            let outcome = stage.rehearsal.run(&frame.bytes[..bytes], 1).unwrap();
            assert_eq!(outcome.verdict, Verdict::Pass, "{bytes} bytes of {:02x?}", frame.bytes);
            assert!(matches!(outcome.reason, Reason::Truncated | Reason::BadIp), "{:?}", outcome.reason);
        }
    }
}

#[test]
fn random_bytes_pass() {
    if can_run() {
        without_forwarding(noise);
    }
}

fn noise() {
    let mut stage = greedy();
    let mut random = fastrand::Rng::with_seed(4);
    for _ in 0..FRAMES {
        let mut frame = vec![0; random.usize(FRAME_BYTES_MIN..300)];
        random.fill(&mut frame);
        let outcome = stage.rehearsal.run(&frame, 1).unwrap();
        assert_eq!(outcome.verdict, Verdict::Pass, "{frame:02x?}");
    }
}

/// Frames with our address and a known type in front, and noise after that, which reach deep into the parser. If random
/// lengths and ports make a sound frame, it is redirected; the verdict must then agree with a second reading of the
/// frame.
#[test]
fn damaged_frames_go_only_where_their_bytes_say() {
    if can_run() {
        without_forwarding(damage);
    }
}

fn damage() {
    let mut stage = greedy();
    let mut random = fastrand::Rng::with_seed(5);
    let frames = whole();
    let mut redirected = 0;
    for _ in 0..FRAMES {
        let mut frame = frames[random.usize(..frames.len())].bytes.clone();
        for _ in 0..random.usize(1..4) {
            let at = random.usize(..frame.len());
            frame[at] ^= 1 << random.u8(..8);
        }
        let outcome = stage.rehearsal.run(&frame, 1).unwrap();
        match outcome.verdict {
            Verdict::Redirect => {
                redirected += 1;
                assert!(is_plain(&frame), "{:?} {frame:02x?}", outcome.reason);
            }
            // The DF bit alone, and no fragment.
            Verdict::Drop => {
                let at = frame.windows(2).position(|kind| kind == [0x08, 0x00]).expect("only IPv4 has the bit") + 2;
                assert_eq!(frame[at + 6] & 0x3f, 0x20, "{frame:02x?}");
                frame[at + 6] &= !0x20;
                assert!(is_owned(&frame), "{frame:02x?}");
            }
            Verdict::Pass => {}
        }
    }
    assert!(redirected > FRAMES / 20, "flips in payload and checksum leave a frame sound: {redirected}");
}

/// The same decision by other means: to us or to the group, at most two tags, one whole packet of TCP or UDP, UDP
/// without IP options, to an owned port.
fn is_plain(frame: &[u8]) -> bool {
    question(frame).is_some_and(|asked| asked.length_fits && asked.is_owned)
}

fn is_owned(frame: &[u8]) -> bool {
    question(frame).is_some_and(|asked| asked.is_owned)
}

struct Asked {
    length_fits: bool,
    is_owned: bool,
}

fn question(frame: &[u8]) -> Option<Asked> {
    let group_mac = [0x01, 0x00, 0x5e, 0x01, 0x02, 0x03];
    let mut at = 12;
    for _ in 0..2 {
        if matches!(frame[at..at + 2], [0x81, 0x00] | [0x88, 0xa8]) {
            at += 4;
        }
    }
    let ip = &frame[at + 2..];
    let (protocol, transport, is_group) = match frame[at..at + 2] {
        [0x08, 0x00] => {
            let total = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
            let header = usize::from(ip[0] & 15) * 4;
            let is_header = ip[0] >> 4 == 4 && (header == 20 || header > 20 && ip[9] == TCP);
            let is_whole = is_header && ip[6] & 0x3f == 0 && ip[7] == 0 && (header..=ip.len()).contains(&total);
            if !is_whole {
                return None;
            }
            (ip[9], &ip[header..total], ip[16..20] == [239, 129, 2, 3])
        }
        [0x86, 0xdd] => {
            let payload = usize::from(u16::from_be_bytes([ip[4], ip[5]]));
            if ip[0] >> 4 != 6 || 40 + payload > ip.len() {
                return None;
            }
            (ip[6], &ip[40..40 + payload], false)
        }
        _ => return None,
    };
    let length_fits = match protocol {
        TCP => transport.len() >= 20 && (20..=transport.len()).contains(&(usize::from(transport[12] >> 4) * 4)),
        UDP => transport.len() >= 8 && usize::from(u16::from_be_bytes([transport[4], transport[5]])) == transport.len(),
        _ => false,
    };
    let port = transport.get(2..4).map_or(0, |port| u16::from_be_bytes([port[0], port[1]]));
    let mac_fits = frame[..6] == if is_group { group_mac } else { OWN_MAC };
    Some(Asked { length_fits, is_owned: mac_fits && [5000, 1, 80, 65_535].contains(&port) })
}
