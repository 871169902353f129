//! The port pool: local ports of outgoing connections, reserved for stacks in blocks.
//!
//! Control holds each port by a socket of its own, so a connection needs neither a socket nor a request of the program.
//! Ports of a stack that has ended stay held for the duration of TIME-WAIT: segments still in flight to its connections
//! must not reach another user's.

use super::{Answer, RecordStore, Registry};
use crate::dataplane::Dataplane;
use crate::ports::{KernelPorts, Ports};
use sidestep_control_api::message::{BLOCK_PORTS, Code, Entry, PortBlock, Protocol, Refusal, Reply};
use sidestep_sys::owner::Owner;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::RangeInclusive;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// The most blocks of one stack, 4096 ports: the limit of simultaneous connections to one peer, and of connections to
/// it per TIME-WAIT.
pub(crate) const BLOCKS_PER_STACK_MAX: usize = 16;

/// Blocks reserved for root, so that an administrator's programs find some.
const BLOCKS_OF_ROOT: usize = 4;

/// The time for which ports are held after the end of their stack: the stack's TIME-WAIT (and Linux's).
const COOLING: Duration = Duration::from_secs(60);

/// The number of ports in use by others that are retried per check: each costs a few microseconds.
const TRIES_PER_LOOK: usize = 512;

/// Ports of one block, each with the socket that holds it; `None` for one that was taken while no control was running.
#[derive(Debug)]
struct Block {
    /// The owner of its stack.
    owner: Owner,
    ports: PortBlock,
    held: BTreeMap<u16, OwnedFd>,
}

/// All reserved ports.
pub(crate) struct Pool {
    pub(super) kernel: Box<dyn Ports>,
    /// Blocks by stack.
    blocks: BTreeMap<u32, Vec<Block>>,
    /// Blocks of stacks that have ended, the oldest first; held until then.
    cooling: VecDeque<(Instant, Block)>,
    /// The most blocks, cooling ones included: each port costs a descriptor.
    blocks_max: usize,
    /// Ports of stacks that were in use by others when control came back: to be held as soon as they are free.
    unheld: VecDeque<(u32, u16)>,
}

impl Default for Pool {
    fn default() -> Self {
        Self {
            kernel: Box::new(KernelPorts),
            blocks: BTreeMap::new(),
            cooling: VecDeque::new(),
            blocks_max: usize::from(u16::MAX / BLOCK_PORTS),
            unheld: VecDeque::new(),
        }
    }
}

impl Pool {
    /// Limits the descriptors for ports; returns the number that they can take.
    pub(super) fn limit(&mut self, descriptors: usize) -> usize {
        self.blocks_max = self.blocks_max.min(descriptors / usize::from(BLOCK_PORTS));
        self.blocks_max * usize::from(BLOCK_PORTS)
    }

    /// The number of ports held for a stack.
    pub(super) fn count(&self, stack: u32) -> u32 {
        self.blocks.get(&stack).into_iter().flatten().map(|block| block.held.len() as u32).sum()
    }

    /// The stack that owns a port.
    pub(super) fn owner(&self, port: u16) -> Option<u32> {
        let has = |blocks: &Vec<Block>| blocks.iter().any(|block| block.ports.has(port));
        self.blocks.iter().find(|(_, blocks)| has(blocks)).map(|(stack, _)| *stack)
    }

    /// Returns whether an entry is about a port that a stack owns. Tagged traffic has no owner here.
    pub(super) fn has(&self, entry: &Entry) -> bool {
        let is_reserved = entry.protocol() == Protocol::Tcp && entry.vlan().is_none();
        is_reserved && self.owner(entry.local().port()).is_some()
    }

    fn of(&self, stack: u32) -> usize {
        self.blocks.get(&stack).map_or(0, Vec::len)
    }

    /// The number of cooling blocks of a user.
    fn cooling(&self, owner: Owner) -> usize {
        self.cooling.iter().filter(|(_, block)| block.owner == owner).count()
    }

    /// Holds another block for a stack of a user: a new one, if the limit allows it.
    pub(super) fn take(&mut self, stack: u32, owner: Owner, may_grow: bool) -> Option<PortBlock> {
        let range = self.kernel.range();
        let used: BTreeSet<u16> = self.all().map(|block| block.ports.first()).collect();
        let first = |port: u16| port - port % BLOCK_PORTS;
        let blocks = (first(*range.start())..=first(*range.end())).rev().step_by(usize::from(BLOCK_PORTS));
        let may_grow = may_grow && used.len() < self.blocks_max;
        let fresh = blocks.filter(|first| may_grow && !used.contains(first));
        let block = fresh.map(|first| self.hold(first, owner, &range)).find(|block| !block.ports.is_empty());
        // The user's own block that has cooled the longest is better than none. Segments for another user's must not be
        // seen.
        let oldest = || self.cooling.iter().position(|(_, block)| block.owner == owner);
        let block = match block {
            Some(block) => block,
            None => oldest().and_then(|oldest| self.cooling.remove(oldest))?.1,
        };
        let ports = block.ports;
        self.blocks.entry(stack).or_default().push(block);
        Some(ports)
    }

    fn all(&self) -> impl Iterator<Item = &Block> {
        self.blocks.values().flatten().chain(self.cooling.iter().map(|(_, block)| block))
    }

    /// Holds the free ports of a block. Those in use or reserved by the administrator are left out.
    fn hold(&self, first: u16, owner: Owner, range: &RangeInclusive<u16>) -> Block {
        let kept = self.kernel.kept();
        let ports = (first..=first.saturating_add(BLOCK_PORTS - 1)).filter(|port| range.contains(port));
        let free = ports.filter(|port| !kept.iter().any(|kept| kept.contains(port)));
        Block::of(first, owner, free.filter_map(|port| Some((port, self.kernel.hold(port).ok()?))).collect())
    }

    /// Holds the ports again that an earlier control held for a stack; returns those that were not taken meanwhile.
    pub(super) fn adopt(&mut self, stack: u32, owner: Owner, ports: &[u16]) -> Vec<u16> {
        for of_block in ports.chunk_by(|one, other| one / BLOCK_PORTS == other / BLOCK_PORTS) {
            let mut block = Block::of(of_block[0], owner, BTreeMap::new());
            of_block.iter().for_each(|port| block.ports.insert(*port));
            self.blocks.entry(stack).or_default().push(block);
        }
        let had = self.unheld.len();
        self.unheld.extend(ports.iter().map(|port| (stack, *port)));
        self.unheld.rotate_left(had);
        self.hold_again(ports.len()).into_iter().map(|(_, port)| port).collect()
    }

    /// Retries this many of the ports in use by others; returns those that are held now.
    pub(super) fn hold_again(&mut self, tries: usize) -> Vec<(u32, u16)> {
        let tried: Vec<_> = self.unheld.drain(..tries.min(self.unheld.len())).collect();
        let mut held = Vec::new();
        for (stack, port) in tried {
            let block = self.blocks.get_mut(&stack).into_iter().flatten().find(|block| block.ports.has(port));
            match (block, self.kernel.hold(port)) {
                (Some(block), Ok(socket)) => {
                    block.held.insert(port, socket);
                    held.push((stack, port));
                }
                _ => self.unheld.push_back((stack, port)),
            }
        }
        held
    }

    /// Handles the end of a stack: its ports are held a little longer.
    pub(super) fn release(&mut self, stack: u32, now: Instant) {
        let blocks = self.blocks.remove(&stack).into_iter().flatten().filter(|block| !block.held.is_empty());
        self.cooling
            .extend(blocks.map(|block| (now + COOLING, Block::of(block.ports.first(), block.owner, block.held))));
        self.unheld.retain(|(of, _)| *of != stack);
    }

    pub(super) fn expire(&mut self, now: Instant) {
        self.cooling.retain(|(due, _)| *due > now);
    }
}

impl Block {
    /// Makes a block of the ports that are held.
    fn of(first: u16, owner: Owner, held: BTreeMap<u16, OwnedFd>) -> Self {
        let mut ports = PortBlock::around(first);
        held.keys().for_each(|port| ports.insert(*port));
        Self { owner, ports, held }
    }
}

impl<D: Dataplane, K: RecordStore> Registry<D, K> {
    /// Reserves another block of ports for a stack, and steers their traffic to it.
    pub(super) fn reserve_ports(&mut self, id: u32, stack: u32) -> Result<Answer, Refusal> {
        let interface = self.owned(id, stack)?.facts.interface.clone();
        let thing = format!("cannot reserve ports for stack {stack}");
        if self.pool.kernel.is_forwarding(&interface) {
            let reason = format!("packets that come by {interface} may be for others: it forwards");
            return Err(Refusal::new(Code::Forwards, thing, reason)
                .next(format!("where it need not, switch that off: sysctl net.ipv4.conf.{interface}.forwarding=0")));
        }
        let may_grow = self.check_blocks(id, stack, &thing)?;
        let Some(ports) = self.pool.take(stack, self.owner(id), may_grow) else {
            return Err(Refusal::new(
                Code::Limit,
                thing,
                "all local ports that may be reserved are, or were a minute ago",
            )
            .next("widen the range (sysctl net.ipv4.ip_local_port_range), or control's limit of descriptors"));
        };
        let numbers: Vec<u16> = ports.ports().collect();
        if let Err(refusal) = self.dataplane.steer_ports(stack, &numbers) {
            // No segment has come to them yet.
            self.pool.blocks.get_mut(&stack).and_then(Vec::pop);
            return Err(refusal);
        }
        Ok(Answer::plain(Reply::Ports(ports)))
    }

    /// Checks the limits: a user gets at most half of all blocks, and the last ones are root's. Returns whether there
    /// may be more blocks than are held already, cooling ones included.
    fn check_blocks(&self, id: u32, stack: u32, thing: &str) -> Result<bool, Refusal> {
        let owner = self.owner(id);
        let stacks = self.stacks.iter().filter(|(_, stack)| self.owner(stack.client) == owner);
        let of_user: usize = stacks.map(|(stack, _)| self.pool.of(*stack)).sum();
        let all: usize = self.pool.blocks.values().map(Vec::len).sum();
        let (of_stack, most) = (self.pool.of(stack), self.blocks_max());
        let share = most.div_ceil(2);
        // With few blocks, root's are fewer.
        let of_others = most - BLOCKS_OF_ROOT.min(most / 4);
        let ports = |blocks: usize| blocks * usize::from(BLOCK_PORTS);
        let reason = match () {
            () if of_stack >= BLOCKS_PER_STACK_MAX => {
                format!("a stack has at most {} ports", ports(BLOCKS_PER_STACK_MAX))
            }
            () if owner.is_root() => return Ok(true),
            () if of_user >= share => format!("a user has at most {} ports", ports(share)),
            () if all >= of_others => "the last ones are root's".to_owned(),
            () => {
                let with_cooling = (of_user + self.pool.cooling(owner), all + self.pool.cooling.len());
                return Ok(with_cooling.0 < share && with_cooling.1 < of_others);
            }
        };
        Err(Refusal::new(Code::Limit, thing, reason).next("close stacks that are not needed; sidestep ps lists them"))
    }

    /// The most blocks possible.
    pub(super) fn blocks_max(&self) -> usize {
        let range = self.pool.kernel.range();
        let ports = usize::from(range.end().saturating_sub(*range.start())) + 1;
        ports.div_ceil(usize::from(BLOCK_PORTS)).min(self.pool.blocks_max)
    }

    /// Holds the ports of a stack again that an earlier control held. A port taken meanwhile is shared until it is
    /// free: the program asks the kernel about each of its segments.
    pub(super) fn adopt_ports(&mut self, stack: u32) {
        let ports = self.dataplane.ports(stack);
        let owner = self.stacks.get(&stack).map_or(Owner::Unknown, |stack| self.owner(stack.client));
        let held = self.pool.adopt(stack, owner, &ports);
        if held.len() < ports.len() {
            let count = ports.len() - held.len();
            sidestep_sys::problem::say(format!(
                "{count} ports of stack {stack} are in use by another program, too, by now"
            ));
        }
        self.unshare(stack, &held);
    }

    /// Holds ports that were in use by others and are free by now.
    pub(crate) fn hold_ports(&mut self) {
        for (stack, port) in self.pool.hold_again(TRIES_PER_LOOK) {
            self.unshare(stack, &[port]);
        }
    }

    fn unshare(&mut self, stack: u32, ports: &[u16]) {
        // A stack without an interface has no row either; one with merged frames stays unchanged.
        let _ = self.dataplane.steer_ports(stack, ports);
    }
}
