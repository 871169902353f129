//! Devices with several queues, between two network namespaces joined by a veth; the peer is Linux, whose packets come by a
//! queue according to their transmit hash.

#[path = "../tcp/peer.rs"]
#[allow(dead_code)] // Shared with the tests of TCP.
mod peer;

#[path = "../udp/roles.rs"]
#[allow(dead_code)]
mod roles;

#[path = "../udp/support.rs"]
#[allow(dead_code)]
mod support;

mod changes;
mod elsewhere;
mod every;
mod many;
mod minutes;
mod partly;

use crate::support::is_root_or_say;
use sidestep_control_api::client::Client;
use sidestep_control_api::message::{Code, DetailLine};
use sidestep_control_api::place;
use sidestep_lab::{Host, Lab, Options};
use sidestep_socket::{Engine, EngineOptions, Queues};
use std::collections::BTreeSet;

/// A lab whose hosts have so many queues, if this process may make one.
fn lab(queues: u32) -> Option<Lab> {
    if !is_root_or_say() {
        return None;
    }
    Some(Lab::up(&Options { queues, ..Options::default() }).expect("root can make a lab"))
}

/// An engine with these queues.
fn engine(host: &Host, queues: Queues) -> Engine {
    let options = EngineOptions { queues, ring_entries: 512, frames: 1024, ..EngineOptions::on(&host.interface) };
    let engine = host.within(|| Engine::open(&options)).expect("an engine opens");
    assert_eq!(engine.refusal(), None);
    engine
}

/// What control tells people about its clients: queues that are missing, why something is with the kernel, counters that are
/// not 0.
#[derive(Default)]
struct Told {
    missing: Vec<(Vec<u32>, String)>,
    reasons: Vec<(Code, String)>,
    counters: BTreeSet<String>,
}

fn told(host: &Host) -> Told {
    let path = host.within(place::socket).expect("it has a place");
    let mut client = Client::connect_to(&path, "asking").expect("it is there");
    let mut told = Told::default();
    for line in client.clients().expect("it answers") {
        for detail in client.details(line.client).unwrap_or_default() {
            match detail {
                DetailLine::WithoutQueues { missing, .. } => told.missing.push((missing.queues, missing.reason)),
                DetailLine::Kernel { code, reason, .. } => told.reasons.push((code, reason)),
                _ => {}
            }
        }
        for stack in line.stacks {
            told.counters.extend(client.counters(stack.id).unwrap_or_default().into_iter().map(|(name, _)| name));
        }
    }
    told
}
