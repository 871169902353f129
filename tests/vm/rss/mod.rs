//! Receive side scaling of devices that have it, or should: virtio-net, whose hash QEMU computes as a card would, and vmxnet3. The
//! other end is this host's kernel, over a tap with as many queues.

mod connects;
mod flows;
mod moves;

use crate::bypass::wait;
use connects::{connections_of_ours_reach_their_queue, where_no_key_is_told_all_queues_are_wanted};
use flows::frames_come_by_the_queue_that_is_computed;
use moves::a_table_that_moves_is_followed;
use sidestep_testkit::vm::{self, MACHINE, PEER};
use sidestep_testkit::vm_tests;
use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::time::Duration;

const INTERFACE: &str = "eth0";
/// Queues in use. virtio-net wants one more for each CPU to send by from XDP programs, and has eight.
const QUEUES: u32 = 4;
/// Ports at which the peer sends back datagrams; those behind them have no listener, so that a SYN is answered at once.
const PORTS: std::ops::Range<u16> = 7000..7004;
const CLOSED: std::ops::Range<u16> = 7004..7008;
/// The port at which the peer accepts connections.
const LISTENING: u16 = 7008;

static VIRTIO: vm::Cable = vm::Cable {
    device: "virtio-net-pci,mq=on,vectors=18,rss=on,hash=on,guest_tso4=off,guest_tso6=off,guest_ecn=off,guest_ufo=off",
    queues: 8,
    peer: answer,
};

static VMXNET: vm::Cable = vm::Cable { device: "vmxnet3", queues: 1, peer: answer };

const PROGRAMS: &[&str] = &[env!("CARGO_BIN_EXE_sidestep"), "kill", "ethtool"];

static PLAN: vm::Plan =
    vm::Plan { modules: &["virtio_pci", "virtio_net"], programs: PROGRAMS, cable: Some(&VIRTIO), ..vm::Plan::BARE };

vm_tests!(PLAN:
    frames_come_by_the_queue_that_is_computed,
    connections_of_ours_reach_their_queue,
    a_table_that_moves_is_followed,
);

/// The same on a device whose driver reports no key.
mod vmxnet3 {
    use super::{PROGRAMS, VMXNET, vm, vm_tests, where_no_key_is_told_all_queues_are_wanted};

    static PLAN: vm::Plan =
        vm::Plan { modules: &["vmxnet3"], programs: PROGRAMS, cable: Some(&VMXNET), ..vm::Plan::BARE };

    vm_tests!(PLAN: where_no_key_is_told_all_queues_are_wanted);
}

/// On this host: sends back every datagram, accepts every connection, and closes it after the other side has.
fn answer(peer: &vm::Peer) {
    let at = |port| PEER.map(|address| SocketAddr::new(address, port));
    let sockets: Vec<_> = PORTS.flat_map(at).map(|at| UdpSocket::bind(at).unwrap()).collect();
    sockets.iter().for_each(|socket| socket.set_nonblocking(true).unwrap());
    let listeners = at(LISTENING).map(|at| TcpListener::bind(at).unwrap());
    listeners.iter().for_each(|listener| listener.set_nonblocking(true).unwrap());
    let mut streams: Vec<TcpStream> = Vec::new();
    let mut buffer = [0; 2048];
    while !peer.is_over() {
        for socket in &sockets {
            while let Ok((count, from)) = socket.recv_from(&mut buffer) {
                let _ = socket.send_to(&buffer[..count], from);
            }
        }
        for listener in &listeners {
            while let Ok((stream, _)) = listener.accept() {
                stream.set_nonblocking(true).unwrap();
                streams.push(stream);
            }
        }
        let would_block = |error: std::io::Error| error.kind() == std::io::ErrorKind::WouldBlock;
        streams.retain_mut(|stream| stream.read(&mut buffer).map_or_else(would_block, |count| count > 0));
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn command(program: &str, arguments: &str) {
    let status = Command::new(program).args(arguments.split(' ')).status();
    assert!(status.as_ref().is_ok_and(|status| status.success()), "{program} {arguments}: {status:?}");
}

/// Sets the interface up; until the peer answers. With several queues, these.
fn plug(queues: Option<u32>) {
    vm::plug(INTERFACE);
    if let Some(queues) = queues {
        // In this order: QEMU holds frames that come before there are buffers, and delivers them at this command.
        command("ethtool", &format!("-L {INTERFACE} combined {queues}"));
    }
    for (local, remote) in MACHINE.into_iter().zip(PEER) {
        let socket = UdpSocket::bind((local, 0)).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        wait("the peer", || {
            socket.send_to(b"question", SocketAddr::new(remote, PORTS.start)).unwrap();
            socket.recv(&mut [0; 16]).ok()
        });
    }
}

fn is_linux_6_1() -> bool {
    std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap().starts_with("6.1.")
}
