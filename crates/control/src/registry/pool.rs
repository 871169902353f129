//! Local ports of outgoing connections, reserved for stacks in blocks.
//!
//! Control holds each port by a socket of its own, so a program needs no socket and no request for a connection. Ports of a
//! stack that has ended stay held for as long as TIME-WAIT lasts: what is still under way to its connections must not come
//! to somebody else's.

use super::{Answer, Keeper, Registry};
use crate::dataplane::Dataplane;
use crate::ports::{KernelPorts, Ports};
use sidestep_plane::message::{BLOCK_PORTS, Code, PortBlock, Refusal, Reply};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::RangeInclusive;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Blocks of one stack, 4096 ports: as many connections to one peer at a time, and as many to it in a second, TIME-WAIT
/// included.
pub(crate) const BLOCKS_PER_STACK_MAX: usize = 16;

/// Blocks that are left to root, as an administrator's programs must find some.
const BLOCKS_OF_ROOT: usize = 4;

/// How long ports are held when their stack has ended: the stack's TIME-WAIT (and Linux's).
const COOLING: Duration = Duration::from_secs(60);

/// Ports of one block, each with the socket that holds it.
#[derive(Debug)]
struct Block {
    ports: PortBlock,
    held: BTreeMap<u16, OwnedFd>,
}

/// All reserved ports.
pub(crate) struct Pool {
    pub(super) kernel: Box<dyn Ports>,
    /// By stack.
    blocks: BTreeMap<u32, Vec<Block>>,
    /// Of stacks that have ended, the oldest first; held until then.
    cooling: VecDeque<(Instant, Block)>,
    /// Blocks there may be, those that cool included: each port costs a descriptor.
    blocks_max: usize,
    /// Ports that somebody else had when control came back: to be told to their stacks.
    lost: Vec<(u32, PortBlock)>,
}

impl Default for Pool {
    fn default() -> Self {
        Self {
            kernel: Box::new(KernelPorts),
            blocks: BTreeMap::new(),
            cooling: VecDeque::new(),
            blocks_max: usize::from(u16::MAX / BLOCK_PORTS),
            lost: Vec::new(),
        }
    }
}

impl Pool {
    /// Leaves so many descriptors to ports; gives what they take at most.
    pub(super) fn limit(&mut self, descriptors: usize) -> usize {
        self.blocks_max = self.blocks_max.min(descriptors / usize::from(BLOCK_PORTS));
        self.blocks_max * usize::from(BLOCK_PORTS)
    }

    /// How many ports a stack has.
    pub(super) fn count(&self, stack: u32) -> u32 {
        self.blocks.get(&stack).into_iter().flatten().map(|block| block.ports.len()).sum()
    }

    /// The stack that has a port.
    pub(super) fn owner(&self, port: u16) -> Option<u32> {
        let has = |blocks: &Vec<Block>| blocks.iter().any(|block| block.ports.has(port));
        self.blocks.iter().find(|(_, blocks)| has(blocks)).map(|(stack, _)| *stack)
    }

    fn of(&self, stack: u32) -> usize {
        self.blocks.get(&stack).map_or(0, Vec::len)
    }

    /// Holds another block for a stack, of those that nobody has.
    fn take(&mut self, stack: u32) -> Option<PortBlock> {
        let range = self.kernel.range();
        let used: BTreeSet<u16> = self.all().map(|block| block.ports.first()).collect();
        let first = |port: u16| port - port % BLOCK_PORTS;
        let blocks = (first(*range.start())..=first(*range.end())).rev().step_by(usize::from(BLOCK_PORTS));
        let is_full = used.len() >= self.blocks_max;
        for first in blocks.filter(|first| !is_full && !used.contains(first)) {
            let block = self.hold(first, &range);
            if !block.ports.is_empty() {
                let ports = block.ports;
                self.blocks.entry(stack).or_default().push(block);
                return Some(ports);
            }
        }
        // The oldest of those that cool is better than none.
        let (_, block) = self.cooling.pop_front()?;
        let ports = block.ports;
        self.blocks.entry(stack).or_default().push(block);
        Some(ports)
    }

    fn all(&self) -> impl Iterator<Item = &Block> {
        self.blocks.values().flatten().chain(self.cooling.iter().map(|(_, block)| block))
    }

    /// What can be held of a block. What somebody has already, or is kept for somebody, is left out.
    fn hold(&self, first: u16, range: &RangeInclusive<u16>) -> Block {
        let kept = self.kernel.kept();
        let ports = (first..=first.saturating_add(BLOCK_PORTS - 1)).filter(|port| range.contains(port));
        let free = ports.filter(|port| !kept.iter().any(|kept| kept.contains(port)));
        Block::of(PortBlock::around(first), free.filter_map(|port| Some((port, self.kernel.hold(port).ok()?))))
    }

    /// Holds the ports again that an earlier control held for a stack; gives those that somebody has taken meanwhile.
    fn adopt(&mut self, stack: u32, ports: &[u16]) -> Vec<u16> {
        let mut lost = Vec::new();
        for of_block in ports.chunk_by(|one, other| one / BLOCK_PORTS == other / BLOCK_PORTS) {
            let held = of_block.iter().map(|port| (*port, self.kernel.hold(*port)));
            let (mut kept, mut gone) = (Vec::new(), PortBlock::around(of_block[0]));
            for (port, socket) in held {
                match socket {
                    Ok(socket) => kept.push((port, socket)),
                    Err(_) => {
                        gone.insert(port);
                        lost.push(port);
                    }
                }
            }
            self.blocks.entry(stack).or_default().push(Block::of(PortBlock::around(of_block[0]), kept.into_iter()));
            if !gone.is_empty() {
                self.lost.push((stack, gone));
            }
        }
        lost
    }

    /// A stack has ended: its ports are held a little longer.
    pub(super) fn release(&mut self, stack: u32, now: Instant) {
        let blocks = self.blocks.remove(&stack).into_iter().flatten();
        self.cooling.extend(blocks.filter(|block| !block.held.is_empty()).map(|block| (now + COOLING, block)));
        self.lost.retain(|(of, _)| *of != stack);
    }

    pub(super) fn expire(&mut self, now: Instant) {
        self.cooling.retain(|(due, _)| *due > now);
    }
}

impl Block {
    fn of(mut ports: PortBlock, held: impl Iterator<Item = (u16, OwnedFd)>) -> Self {
        let held: BTreeMap<u16, OwnedFd> = held.collect();
        held.keys().for_each(|port| ports.insert(*port));
        Self { ports, held }
    }
}

impl<D: Dataplane, K: Keeper> Registry<D, K> {
    /// Reserves another block of ports for a stack, and sends what comes to them to it.
    pub(super) fn reserve_ports(&mut self, id: u32, stack: u32) -> Result<Answer, Refusal> {
        let interface = self.owned(id, stack)?.facts.interface.clone();
        let thing = format!("cannot reserve ports for stack {stack}");
        if self.pool.kernel.is_forwarding(&interface) {
            let reason = format!("packets that come by {interface} may be for others: it forwards");
            return Err(Refusal::new(Code::Forwards, thing, reason)
                .next(format!("where it need not, switch that off: sysctl net.ipv4.conf.{interface}.forwarding=0")));
        }
        self.check_blocks(id, stack, &thing)?;
        let Some(ports) = self.pool.take(stack) else {
            return Err(Refusal::new(Code::Limit, thing, "all local ports that may be reserved are")
                .next("widen the range (sysctl net.ipv4.ip_local_port_range), or control's limit of descriptors"));
        };
        let numbers: Vec<u16> = ports.ports().collect();
        if let Err(refusal) = self.dataplane.steer_ports(stack, &numbers) {
            // Nothing has come to them.
            self.pool.blocks.get_mut(&stack).and_then(Vec::pop);
            return Err(refusal);
        }
        Ok(Answer::plain(Reply::Ports(ports)))
    }

    /// A user gets half of all blocks at most, and root's last ones are nobody else's.
    fn check_blocks(&self, id: u32, stack: u32, thing: &str) -> Result<(), Refusal> {
        let owner = self.owner(id);
        let stacks = self.stacks.iter().filter(|(_, stack)| self.owner(stack.client) == owner);
        let of_user: usize = stacks.map(|(stack, _)| self.pool.of(*stack)).sum();
        let all: usize = self.pool.blocks.values().map(Vec::len).sum();
        let (of_stack, most) = (self.pool.of(stack), self.blocks_max());
        let share = most.div_ceil(2);
        let ports = |blocks: usize| blocks * usize::from(BLOCK_PORTS);
        let reason = match () {
            () if of_stack >= BLOCKS_PER_STACK_MAX => {
                format!("a stack has at most {} ports", ports(BLOCKS_PER_STACK_MAX))
            }
            () if owner.is_root() => return Ok(()),
            () if of_user >= share => format!("a user has at most {} ports", ports(share)),
            // Where there are few, root's are fewer.
            () if all + BLOCKS_OF_ROOT.min(most / 4) >= most => "the last ones are root's".to_owned(),
            () => return Ok(()),
        };
        Err(Refusal::new(Code::Limit, thing, reason).next("close stacks that are not needed; sidestep ps lists them"))
    }

    /// Blocks there can be.
    pub(super) fn blocks_max(&self) -> usize {
        let range = self.pool.kernel.range();
        let ports = usize::from(range.end().saturating_sub(*range.start())) + 1;
        ports.div_ceil(usize::from(BLOCK_PORTS)).min(self.pool.blocks_max)
    }

    /// Holds the ports of a stack again that an earlier control held.
    pub(super) fn adopt_ports(&mut self, stack: u32) {
        let lost = self.pool.adopt(stack, &self.dataplane.ports(stack));
        if !lost.is_empty() {
            sidestep_sys::problem::say(format!("{} ports of stack {stack} were taken meanwhile", lost.len()));
            self.dataplane.unsteer_ports(stack, &lost);
        }
    }

    /// Whom to tell of ports that are no longer theirs.
    pub(crate) fn lost_ports(&mut self) -> Vec<(u32, Reply)> {
        let Self { pool, stacks, clients, .. } = self;
        let mut notices = Vec::new();
        pool.lost.retain(|(stack, ports)| {
            let client = stacks.get(stack).map(|stack| stack.client);
            let there = client.filter(|id| clients.get(id).is_some_and(super::Client::is_connected));
            notices.extend(there.map(|id| (id, Reply::PortsLost { stack: *stack, ports: *ports })));
            there.is_none()
        });
        notices
    }
}
