//! The data of `sidestep ps`, in pages that fit a packet.

use super::client::Client;
use super::{RecordStore, Registry};
use crate::dataplane::Dataplane;
use serde::Serialize;
use sidestep_control_api::message::{
    ClientLine, Code, DetailLine, NAME_BYTES_MAX, PACKET_BYTES_MAX, Refusal, Reply, StackLine,
};
use sidestep_sys::printable::printable;
use std::time::Instant;

/// The bytes of lines in a page; the rest of the packet is for the message around them.
const PAGE_BYTES: usize = PACKET_BYTES_MAX - 256;

impl<D: Dataplane, K: RecordStore> Registry<D, K> {
    pub(super) fn list(&self, from: u32) -> Reply {
        let lines = self.clients.range(from..).map(|(id, client)| (*id, self.line(*id, client)));
        let (clients, next) = page(lines);
        Reply::Listing { clients, next }
    }

    fn line(&self, id: u32, client: &Client) -> ClientLine {
        let stack = |number: &u32| {
            let stack = self.stacks.get(number)?;
            Some(StackLine {
                id: *number,
                interface: stack.facts.interface.clone(),
                queues: stack.facts.queues.iter().map(|queue| queue.queue).collect(),
                elsewhere: stack.facts.elsewhere.len() as u32,
                mode: stack.facts.mode,
                entries: stack.entries.len() as u32,
                ports: self.pool.count(*number),
            })
        };
        ClientLine {
            client: id,
            pid: client.peer.pid,
            uid: client.peer.uid,
            name: client.name.clone(),
            is_connected: client.is_connected(),
            stacks: client.stacks.iter().filter_map(stack).collect(),
            feeds: self.feeds.lines(id),
            refused: client.refused,
        }
    }

    pub(super) fn inspect(&self, id: u32, from: u32, now: Instant) -> Result<Reply, Refusal> {
        let client = self.clients.get(&id);
        let client =
            client.ok_or_else(|| Refusal::new(Code::NoEntry, format!("cannot inspect client {id}"), "it is gone"))?;
        let stacks = client.stacks.iter().filter_map(|number| Some((*number, self.stacks.get(number)?)));
        let of_stack = |(stack, facts): (u32, &super::Stack)| {
            let steps = facts.facts.downgrades.clone().into_iter();
            let steps = steps.map(move |downgrade| DetailLine::Downgraded { stack, downgrade });
            let missing = facts.facts.missing.clone().into_iter();
            let missing = missing.map(move |missing| DetailLine::WithoutQueues { stack, missing });
            let entries: Vec<_> =
                facts.entries.keys().map(|entry| DetailLine::Accelerated { stack, entry: *entry }).collect();
            steps.chain(missing).chain(entries)
        };
        let refused = client.refusals.iter().map(|kept| DetailLine::Kernel {
            subject: kept.subject.clone(),
            code: kept.code,
            reason: kept.reason.clone(),
            times: kept.times,
            last_s: now.saturating_duration_since(kept.last).as_secs(),
        });
        let fed = self.feeds.verdicts(id).into_iter().map(DetailLine::Fed);
        let lines = (0..).zip(stacks.flat_map(of_stack).chain(fed).chain(refused)).skip(from as usize);
        let (lines, next) = page(lines);
        Ok(Reply::Details { lines, next })
    }

    pub(super) fn programs(&self, from: u32) -> Reply {
        let programs = self.dataplane.programs().into_iter().filter(|program| program.index >= from);
        let (programs, next) = page(programs.map(|program| (program.index, program)));
        Reply::Programs { programs, next }
    }

    /// Detaches the program from an interface; for root alone, as interfaces belong to the host.
    pub(super) fn release(&mut self, id: u32, interface: &str) -> Result<(), Refusal> {
        if !self.owner(id).is_root() {
            let thing = format!("cannot detach from {}", printable(interface, NAME_BYTES_MAX));
            return Err(Refusal::new(Code::NotAllowed, thing, "only root may detach the program from an interface"));
        }
        self.dataplane.release(interface)
    }

    pub(super) fn counters(&self, stack: u32) -> Result<Reply, Refusal> {
        let refusal = || Refusal::plain(Code::NoStack, format!("cannot count for stack {stack}"));
        let counters = self.stacks.get(&stack).ok_or_else(refusal)?.counters.as_ref();
        let values = counters.map(sidestep_control_api::counters::CountersView::values).unwrap_or_default();
        let shown = values.into_iter().filter(|(_, value)| *value != 0);
        let own = shown.map(|(counter, value)| (counter.name().to_owned(), value));
        let values = own.chain(self.dataplane.counted(stack)).collect();
        Ok(Reply::Counters { values })
    }
}

/// As many lines as fit, at least one; and the number of the first that did not.
fn page<T: Serialize>(lines: impl Iterator<Item = (u32, T)>) -> (Vec<T>, Option<u32>) {
    let (mut page, mut bytes) = (Vec::new(), 0);
    for (number, line) in lines {
        bytes += serde_json::to_vec(&line).map_or(0, |text| text.len() + 1);
        if bytes > PAGE_BYTES && !page.is_empty() {
            return (page, Some(number));
        }
        page.push(line);
    }
    (page, None)
}
