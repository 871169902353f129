//! Stacks: the owners of entries and sockets, each with a heartbeat.

use std::fmt;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use libbpf_rs::libbpf_sys::{BPF_F_MMAPABLE, bpf_map_create_opts};
use libbpf_rs::{ErrorKind, MapCore, MapFlags, MapHandle, MapType};
use sidestep_sys::Problem;

use crate::entry::Table;
use crate::layout::{LABEL_BYTES, QUEUES_MAX, SHARED, STACKS_MAX, heartbeat, put, stack_row, take};
use crate::stack_id::StackId;
use crate::tables::Tables;

/// The options of a stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackOptions {
    /// A label for display, and for a control plane that adopts the stack ("pid 4711 feed"). Truncated to
    /// `LABEL_BYTES`.
    pub label: String,
    /// The longest frame that its sockets accept, bytes with the Ethernet header: chunk size - 256 - headroom of its
    /// UMEM in copy mode. A longer one passes, because the kernel would drop it.
    pub frame_bytes_max: u32,
    /// A queue on which it has a socket. As long as that socket exists, segments that come by a queue without one are
    /// dropped instead of passed.
    pub first_queue: u32,
    /// The number of deadlines for which its owner may be silent before segments pass and the kernel resets its
    /// connections: at least 1.
    pub tcp_deadlines: u32,
}

/// A stack that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackFacts {
    /// Its number.
    pub id: StackId,
    /// The label.
    pub label: String,
    /// The longest frame, bytes.
    pub frame_bytes_max: u32,
    /// Its last heartbeat, CLOCK_MONOTONIC in nanoseconds; 0 before the first.
    pub heartbeat_ns: u64,
}

impl fmt::Display for StackFacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.id, self.label)
    }
}

/// The number of entries removed together with a stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Flows.
    pub flows: u32,
    /// Listeners.
    pub listeners: u32,
    /// Groups.
    pub groups: u32,
    /// Reserved ports.
    pub ports: u32,
}

impl Tables {
    /// Makes a stack, and returns the descriptor of its heartbeat: a map of one page. Any holder of the descriptor can
    /// map it (`mmap` shared, read and write, without any capability), and no other stack can reach it. The first eight
    /// bytes are the time of the last heartbeat, CLOCK_MONOTONIC in nanoseconds, in this machine's byte order. Until
    /// the first heartbeat its frames pass.
    pub fn stack_create(&self, options: &StackOptions) -> Result<(StackId, OwnedFd), Problem> {
        let what = || format!("cannot make a stack for {}", options.label);
        let id = self.free_stack()?.ok_or_else(|| {
            Problem::failed(what(), format!("an interface has at most {STACKS_MAX} stacks"))
                .next("end an accelerated program; sidestep ps lists them")
        })?;
        let map =
            new_heartbeat(id).map_err(|error| Problem::failed(what(), error).next("run as root: it needs CAP_BPF"))?;
        let descriptor = map.as_fd().try_clone_to_owned().map_err(|error| Problem::failed(what(), error))?;
        let number = map.as_fd().as_raw_fd().cast_unsigned().to_ne_bytes();
        self.maps
            .heartbeats
            .update(&id.key(), &number, MapFlags::ANY)
            .map_err(|error| Problem::failed(what(), error))?;
        self.write_row(id, &row_of(options)).map_err(|error| Problem::failed(what(), error))?;
        Ok((id, descriptor))
    }

    /// Removes a stack with all its entries and sockets. From the first step on its frames pass; an interrupted removal
    /// is completed by the next call, or by the next control plane.
    pub fn stack_remove(&self, stack: StackId) -> Result<Swept, Problem> {
        let problem = |error: libbpf_rs::Error| Problem::failed(format!("cannot remove {stack}"), error);
        let mut row = self.read_row(stack)?;
        put(&mut row, stack_row::LIVE, &[0; 4]);
        self.write_row(stack, &row).map_err(problem)?;
        self.pass_shared(|owner| owner == stack.number())?;
        let swept = self.sweep(|owner| owner == stack.number())?;
        for queue in 0..QUEUES_MAX {
            self.clear_socket(stack, queue)?;
        }
        absent_is_fine(self.maps.heartbeats.delete(&stack.key())).map_err(problem)?;
        self.write_row(stack, &[0; stack_row::BYTES]).map_err(problem)?;
        Ok(swept)
    }

    /// Every stack that exists.
    pub fn stacks(&self) -> Result<Vec<StackFacts>, Problem> {
        let rows = (0..STACKS_MAX).map(|number| self.facts_of(StackId(number)));
        rows.filter_map(Result::transpose).collect()
    }

    /// One stack; fails with its number if it does not exist.
    pub fn stack(&self, stack: StackId) -> Result<StackFacts, Problem> {
        self.facts_of(stack)?.ok_or_else(|| {
            Problem::failed(format!("cannot use {stack}"), "there is no such stack").next("sidestep ps lists them")
        })
    }

    /// The descriptor that [`Self::stack_create`] returned, opened again: for a control plane that has adopted the
    /// stack.
    pub fn heartbeat(&self, stack: StackId) -> Result<OwnedFd, Problem> {
        let problem = |why: String| Problem::failed(format!("cannot open the heartbeat of {stack}"), why);
        let map = self.heartbeat_map(stack).map_err(|error| problem(error.to_string()))?;
        let map = map.ok_or_else(|| problem("there is no such stack".to_owned()))?;
        map.as_fd().try_clone_to_owned().map_err(|error| problem(error.to_string()))
    }

    /// Writes a heartbeat with the time now in the stack's place: for rehearsals, and for a control plane that grants a
    /// stack its first deadline.
    pub fn beat(&self, stack: StackId) -> Result<(), Problem> {
        self.beat_at(stack, monotonic_ns())
    }

    /// Writes a heartbeat as [`Self::beat`] does, with a time of the caller's choice: CLOCK_MONOTONIC in nanoseconds.
    pub fn beat_at(&self, stack: StackId, monotonic_ns: u64) -> Result<(), Problem> {
        let problem = |why: String| Problem::failed(format!("cannot write the heartbeat of {stack}"), why);
        let map = self.heartbeat_map(stack).map_err(|error| problem(error.to_string()))?;
        let map = map.ok_or_else(|| problem("there is no such stack".to_owned()))?;
        let mut page = [0; heartbeat::BYTES];
        put(&mut page, 0, &monotonic_ns.to_ne_bytes());
        map.update(&[0; 4], &page, MapFlags::ANY).map_err(|error| problem(error.to_string()))
    }

    /// Sets the AF_XDP socket for the stack's frames of the receive queue to which it is bound. The kernel removes it
    /// when the socket is closed.
    pub fn set_socket(&self, stack: StackId, queue: u32, socket: BorrowedFd<'_>) -> Result<(), Problem> {
        let what = || format!("cannot set the socket of {stack}, queue {queue}");
        if queue >= QUEUES_MAX {
            return Err(Problem::failed(what(), format!("queues from {QUEUES_MAX} on cannot be steered"))
                .next("lower the number of receive queues: ethtool -L DEV combined 64"));
        }
        self.stack(stack)?;
        let descriptor = socket.as_raw_fd().cast_unsigned().to_ne_bytes();
        let set = self.maps.sockets.update(&socket_key(stack, queue), &descriptor, MapFlags::ANY);
        set.map_err(|error| Problem::failed(what(), error).next("hand over a socket of the family AF_XDP"))
    }

    /// Removes a socket, if one is set.
    pub fn clear_socket(&self, stack: StackId, queue: u32) -> Result<(), Problem> {
        if queue >= QUEUES_MAX {
            return Ok(());
        }
        absent_is_fine(self.maps.sockets.delete(&socket_key(stack, queue)))
            .map_err(|error| Problem::failed(format!("cannot clear the socket of {stack}, queue {queue}"), error))
    }

    /// Completes interrupted removals: no entry may refer to a stack that does not exist.
    pub(crate) fn sweep_dead(&self) -> Result<(), Problem> {
        let mut live = [false; STACKS_MAX as usize];
        for number in 0..STACKS_MAX {
            live[number as usize] = self.facts_of(StackId(number))?.is_some();
        }
        let is_dead = |owner: u32| !live.get(owner as usize).is_some_and(|live| *live);
        self.pass_shared(is_dead)?;
        self.sweep(|owner| owner & SHARED == 0 && is_dead(owner))?;
        for number in (0..STACKS_MAX).filter(|number| !live[*number as usize]) {
            self.stack_remove(StackId(number))?;
        }
        Ok(())
    }

    fn sweep(&self, is_doomed: impl Fn(u32) -> bool) -> Result<Swept, Problem> {
        let mut swept = Swept::default();
        self.for_each_key(|table, key, owner| {
            if is_doomed(owner) && self.delete(table, key)? {
                match table {
                    Table::Flows => swept.flows += 1,
                    Table::Listeners => swept.listeners += 1,
                    Table::Groups => swept.groups += 1,
                }
            }
            Ok(())
        })?;
        swept.ports = self.sweep_ports(is_doomed);
        Ok(swept)
    }

    fn free_stack(&self) -> Result<Option<StackId>, Problem> {
        for number in 0..STACKS_MAX {
            if self.facts_of(StackId(number))?.is_none() {
                return Ok(Some(StackId(number)));
            }
        }
        Ok(None)
    }

    fn facts_of(&self, id: StackId) -> Result<Option<StackFacts>, Problem> {
        let row = self.read_row(id)?;
        if take::<4>(&row, stack_row::LIVE) == [0; 4] {
            return Ok(None);
        }
        let label = take::<LABEL_BYTES>(&row, stack_row::LABEL);
        let label = String::from_utf8_lossy(&label).trim_end_matches('\0').to_owned();
        let frame_bytes_max = u32::from_ne_bytes(take(&row, stack_row::FRAME_BYTES_MAX));
        Ok(Some(StackFacts { id, label, frame_bytes_max, heartbeat_ns: self.heartbeat_ns(id)? }))
    }

    fn heartbeat_ns(&self, stack: StackId) -> Result<u64, Problem> {
        let read = |map: MapHandle| map.lookup(&[0; 4], MapFlags::ANY);
        let page = self.heartbeat_map(stack).and_then(|map| map.map(read).transpose());
        let page = page.map_err(|error| Problem::failed(format!("cannot read the heartbeat of {stack}"), error))?;
        Ok(page.flatten().map_or(0, |page| u64::from_ne_bytes(take(&page, 0))))
    }

    fn heartbeat_map(&self, stack: StackId) -> libbpf_rs::Result<Option<MapHandle>> {
        let id = self.maps.heartbeats.lookup(&stack.key(), MapFlags::ANY)?;
        id.map(|id| MapHandle::from_map_id(u32::from_ne_bytes(take(&id, 0)))).transpose()
    }

    fn read_row(&self, stack: StackId) -> Result<Vec<u8>, Problem> {
        let row = self.maps.stacks.lookup(&stack.key(), MapFlags::ANY);
        let row = row.map_err(|error| Problem::failed(format!("cannot look {stack} up"), error))?;
        Ok(row.unwrap_or_else(|| vec![0; stack_row::BYTES]))
    }

    fn write_row(&self, stack: StackId, row: &[u8]) -> libbpf_rs::Result<()> {
        self.maps.stacks.update(&stack.key(), row, MapFlags::ANY)
    }
}

/// CLOCK_MONOTONIC, the clock of heartbeats.
pub(crate) fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

fn new_heartbeat(stack: StackId) -> libbpf_rs::Result<MapHandle> {
    let options = bpf_map_create_opts {
        sz: size_of::<bpf_map_create_opts>() as _,
        map_flags: BPF_F_MMAPABLE,
        ..Default::default()
    };
    let name = format!("step_beat_{}", stack.number());
    MapHandle::create(MapType::Array, Some(name), 4, heartbeat::BYTES as u32, 1, &options)
}

fn row_of(options: &StackOptions) -> [u8; stack_row::BYTES] {
    let mut row = [0; stack_row::BYTES];
    put(&mut row, stack_row::LIVE, &1_u32.to_ne_bytes());
    put(&mut row, stack_row::FRAME_BYTES_MAX, &options.frame_bytes_max.to_ne_bytes());
    put(&mut row, stack_row::FIRST_QUEUE, &options.first_queue.to_ne_bytes());
    put(&mut row, stack_row::TCP_DEADLINES, &options.tcp_deadlines.max(1).to_ne_bytes());
    let label = options.label.as_bytes();
    put(&mut row, stack_row::LABEL, &label[..label.len().min(LABEL_BYTES)]);
    row
}

fn socket_key(stack: StackId, queue: u32) -> [u8; 4] {
    (stack.number() * QUEUES_MAX + queue).to_ne_bytes()
}

/// Deleting an absent key is not a failure.
pub(crate) fn absent_is_fine(result: libbpf_rs::Result<()>) -> libbpf_rs::Result<()> {
    match result {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Listener, Protocol, Reason, Rehearsal, VlanMatch};

    const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

    /// A UDP datagram from 10.0.0.2 to 10.0.0.1, port 5000.
    const FRAME: [u8; 42] = [
        2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 2, 10, 0, 0, 1,
        0, 7, 0x13, 0x88, 0, 8, 0, 0,
    ];

    fn options(label: &str) -> StackOptions {
        StackOptions { label: label.to_owned(), frame_bytes_max: 1792, first_queue: 0, tcp_deadlines: 60 }
    }

    #[test]
    fn an_entry_that_a_cut_short_removal_left_passes_and_is_swept() {
        if !sidestep_sys::process::is_root() {
            eprintln!("skipped: needs root");
            return;
        }
        let mut rehearsal = Rehearsal::new(MAC).unwrap();
        let tables = rehearsal.tables();
        let (doomed, _) = tables.stack_create(&options("doomed")).unwrap();
        let (other, _) = tables.stack_create(&options("other")).unwrap();
        let entry = |port| {
            Listener { protocol: Protocol::Udp, local: ([10, 0, 0, 1], port).into(), vlan: VlanMatch::Any }.into()
        };
        tables.add(doomed, &entry(5000)).unwrap();
        tables.add(other, &entry(5001)).unwrap();
        // Only the first step of a removal.
        tables.write_row(doomed, &[0; stack_row::BYTES]).unwrap();
        assert_eq!(rehearsal.run(&FRAME, 1).unwrap().reason, Reason::StackGone);
        let tables = rehearsal.tables();
        assert!(tables.add(doomed, &entry(5002)).is_err(), "a stack that is not live gets nothing");
        tables.sweep_dead().unwrap();
        assert_eq!(tables.entries().unwrap(), [(entry(5001), other)]);
        assert_eq!(rehearsal.run(&FRAME, 1).unwrap().reason, Reason::NoEntry);
    }
}
