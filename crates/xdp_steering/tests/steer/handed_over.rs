//! Flows of connections that the kernel has got: their segments pass, and nothing else does.

use crate::frames::{Frame, TCP};
use crate::support::{Stage, address, can_run, flow, listener, stack, without_forwarding};
use sidestep_xdp_steering::{Flow, Protocol, Reason, Verdict, Vlan, VlanMatch};
use std::net::{SocketAddr, TcpListener, TcpStream};

const LOCAL: &str = "10.0.0.1:5000";
const REMOTE: &str = "10.0.0.2:6000";

fn passed(remote: &str) -> Flow {
    Flow { protocol: Protocol::Tcp, local: address(LOCAL), remote: address(remote), vlan: Vlan::Untagged }
}

fn reason(stage: &mut Stage, remote: &str) -> Reason {
    let outcome = stage.rehearsal.run(&Frame::new(TCP, remote, LOCAL, Vlan::Untagged).bytes, 1).unwrap();
    assert_eq!(outcome.verdict, outcome.reason.verdict());
    outcome.reason
}

#[test]
fn a_flow_of_the_kernels_passes_beside_the_listener_of_a_stack() {
    if !can_run() {
        return;
    }
    let mut stage = Stage::new();
    stage.steer(&listener(Protocol::Tcp, LOCAL, VlanMatch::Only(Vlan::Untagged)));
    assert_eq!(reason(&mut stage, REMOTE), Reason::Listener);
    stage.tables().pass(passed(REMOTE)).unwrap();
    assert_eq!(reason(&mut stage, REMOTE), Reason::HandedOver);
    assert_eq!(Reason::HandedOver.verdict(), Verdict::Pass);
    assert_eq!(reason(&mut stage, "10.0.0.2:6001"), Reason::Listener, "another connection");
    assert_eq!(stage.tables().passed().unwrap(), [passed(REMOTE)]);
    // It is nobody's entry, and outlives the stack whose it was.
    assert_eq!(stage.tables().entries().unwrap().len(), 1);
    assert!(stage.tables().unpass(passed(REMOTE)).unwrap());
    assert!(!stage.tables().unpass(passed(REMOTE)).unwrap());
    assert_eq!(reason(&mut stage, REMOTE), Reason::Listener);
    stage.clear();
}

#[test]
fn a_flow_changes_its_owner_in_place_and_back() {
    if !can_run() {
        return;
    }
    let mut stage = Stage::new();
    let entry = flow(Protocol::Tcp, LOCAL, REMOTE, Vlan::Untagged);
    stage.steer(&entry);
    assert_eq!(reason(&mut stage, REMOTE), Reason::Flow);
    stage.tables().pass(passed(REMOTE)).unwrap();
    assert_eq!(reason(&mut stage, REMOTE), Reason::HandedOver);
    assert!(!stage.tables().remove(stage.stack, &entry).unwrap(), "it has it no more");
    let swept = stage.tables().stack_remove(stage.stack).unwrap();
    assert_eq!((swept.flows, stage.tables().passed().unwrap().len()), (0, 1));
    // The kernel's connection has ended, and somebody connects from there past it.
    let (other, _) = stack(stage.tables(), "other");
    stage.tables().add(other, &entry).unwrap();
    assert_eq!(stage.tables().owner(&entry).unwrap(), Some(other));
    assert!(stage.tables().passed().unwrap().is_empty());
}

/// Between the two steps of a hand-over, at which control may die, the kernel's connection decides by its being there.
#[test]
fn a_shared_flow_is_the_kernels_while_that_has_the_connection_and_else_its_stacks() {
    if !can_run() {
        return;
    }
    without_forwarding(|| {
        let mut stage = Stage::new();
        stage.tables().beat(stage.stack).unwrap();
        for local in ["198.18.0.1:0", "[2001:2::1]:0"] {
            let server = TcpListener::bind(local).unwrap();
            let client = TcpStream::connect(server.local_addr().unwrap()).unwrap();
            let accepted = server.accept().unwrap().0;
            let (local, remote) = (client.peer_addr().unwrap(), client.local_addr().unwrap());
            let its = Flow { protocol: Protocol::Tcp, local, remote, vlan: Vlan::Untagged };
            let other = SocketAddr::new(remote.ip(), remote.port() ^ 1);
            let others = Flow { remote: other, ..its };
            let reason = |stage: &mut Stage, remote: SocketAddr| {
                let frame = Frame::new(TCP, &remote.to_string(), &local.to_string(), Vlan::Untagged);
                stage.rehearsal.run(&frame.transport(13, &[0x10]).bytes, 0).unwrap().reason
            };
            for flow in [its, others] {
                stage.tables().share(stage.stack, flow).unwrap();
            }
            assert_eq!(reason(&mut stage, remote), Reason::HandedOver);
            assert_eq!(reason(&mut stage, other), Reason::Flow, "the kernel does not have it");
            assert_eq!(stage.tables().passed().unwrap().len(), 2);
            assert!(stage.tables().entries().unwrap().is_empty(), "nobody's to prove, or to be swept");
            stage.tables().pass(its).unwrap();
            assert_eq!(reason(&mut stage, remote), Reason::HandedOver);
            for flow in [its, others] {
                assert!(stage.tables().unpass(flow).unwrap() && !stage.tables().unpass(flow).unwrap());
            }
            assert_eq!(stage.tables().owner(&its.into()).unwrap(), None, "it was the kernel's alone");
            assert_eq!(stage.tables().owner(&others.into()).unwrap(), Some(stage.stack), "it may never have been");
            stage.clear();
            drop((client, accepted, server));
        }
    });
}

#[test]
fn a_flow_that_a_stack_shares_is_the_kernels_once_the_stack_has_ended() {
    if !can_run() {
        return;
    }
    let mut stage = Stage::new();
    stage.tables().beat(stage.stack).unwrap();
    stage.tables().share(stage.stack, passed(REMOTE)).unwrap();
    assert_eq!(reason(&mut stage, REMOTE), Reason::Flow);
    stage.tables().stack_remove(stage.stack).unwrap();
    assert_eq!(reason(&mut stage, REMOTE), Reason::HandedOver);
    assert!(stage.tables().share(stage.stack, passed(REMOTE)).is_err(), "no such stack");
    assert!(stage.tables().unpass(passed(REMOTE)).unwrap());
    assert!(stage.tables().passed().unwrap().is_empty());
}

#[test]
fn a_shared_port_is_looked_up_until_it_is_assigned_again() {
    if !can_run() {
        return;
    }
    let stage = Stage::new();
    assert!(stage.tables().share_port(stage.stack, 61_000).is_err(), "it has no owner");
    stage.tables().add_ports(stage.stack, &[61_000]).unwrap();
    assert!(!stage.tables().is_shared(61_000));
    stage.tables().share_port(stage.stack, 61_000).unwrap();
    assert!(stage.tables().is_shared(61_000) && stage.tables().ports_of(stage.stack) == [61_000]);
    stage.tables().add_ports(stage.stack, &[61_000]).unwrap();
    assert!(!stage.tables().is_shared(61_000));
}
