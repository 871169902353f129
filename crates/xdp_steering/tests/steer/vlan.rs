//! Frames of a real VLAN device, on stock kernels: this host's kernel may be built without 802.1Q.

use crate::support::listener;
use crate::traffic::{Scene, expect_datagram, expect_no_datagram, tcp_round_trip, udp};
use sidestep_lab::Host;
use sidestep_testkit::{vm, vm_tests};
use sidestep_xdp_steering::{AttachMode, Protocol, Reason, Vlan, VlanMatch};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

static PLAN: vm::Plan = vm::Plan { modules: &["veth", "8021q"], programs: &["ethtool"], ..vm::Plan::BARE };

vm_tests!(PLAN: tagged_frames_reach_the_kernels_vlan_device, tagged_frames_of_an_entry_are_steered);

const PORT: u16 = 5000;
const TAG: u16 = 5;
const OF_A: Ipv4Addr = Ipv4Addr::new(198, 18, 5, 1);
const OF_B: Ipv4Addr = Ipv4Addr::new(198, 18, 5, 2);

/// Runs a program on a host of the lab.
fn on(host: &Host, command: &str) {
    let mut words = command.split(' ');
    let mut program = host.command(words.next().unwrap_or_default()).unwrap();
    assert!(program.args(words).status().unwrap().success(), "{command}");
}

/// Makes a device for the tag on both hosts, and keeps the tag in the frame: otherwise the veth passes it beside the
/// frame, and a program in the driver does not see it.
fn with_vlan(scene: &Scene) {
    for (host, address) in [(scene.a(), OF_A), (scene.b(), OF_B)] {
        on(host, "ethtool -K lab0 txvlan off rxvlan off");
        on(host, &format!("ip link add link lab0 name lab0.5 type vlan id {TAG}"));
        on(host, &format!("ip address add {address}/24 dev lab0.5"));
        on(host, "ip link set lab0.5 up");
    }
}

fn tagged_frames_reach_the_kernels_vlan_device() {
    for mode in [AttachMode::Native, AttachMode::Generic] {
        let scene = Scene::new(mode);
        with_vlan(&scene);
        // An untagged entry for the same port takes nothing of the VLAN.
        let entry = listener(Protocol::Udp, &format!("{OF_B}:{PORT}"), VlanMatch::Only(Vlan::Untagged));
        scene.steer(&entry);
        let twin = udp(scene.b(), SocketAddr::new(OF_B.into(), PORT));
        let sender = udp(scene.a(), SocketAddr::new(OF_A.into(), 0));
        for round in 0..20_u8 {
            sender.send_to(&[round], (OF_B, PORT)).unwrap();
            expect_datagram(&twin, &[round]);
        }
        tcp_round_trip(&scene, IpAddr::V4(OF_B));
        assert_eq!(scene.count(Reason::Listener), 0, "{mode:?}");
        assert!(scene.count(Reason::NoEntry) >= 20, "{mode:?}");
    }
}

fn tagged_frames_of_an_entry_are_steered() {
    let scene = Scene::new(AttachMode::Native);
    with_vlan(&scene);
    scene.steer(&listener(Protocol::Udp, &format!("{OF_B}:{PORT}"), VlanMatch::Only(Vlan::Tagged(TAG))));
    let twin = udp(scene.b(), SocketAddr::new(OF_B.into(), PORT));
    let sender = udp(scene.a(), SocketAddr::new(OF_A.into(), 0));
    for round in 0..20_u8 {
        sender.send_to(&[round, 5], (OF_B, PORT)).unwrap();
        scene.expect_frame(&[round, 5]);
    }
    tcp_round_trip(&scene, IpAddr::V4(OF_B));
    expect_no_datagram(&twin);
    assert_eq!(scene.count(Reason::Listener), 20);
}
