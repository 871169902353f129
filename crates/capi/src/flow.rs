//! The C ABI of flows: `include/sidestep/ring_flow.h`. A call is one call of `sidestep_socket::ring_flow`.

use crate::arguments::{deadline, give, handle, idle, look, out, path, take_back, text};
use crate::failure::{Failure, call};
use crate::socket::address::{CAddress, address, address_if_any};
use crate::socket::options::{CHECKSUMS_AUTO, checksums, flag, read};
use crate::socket::path::{ACCELERATED, mode_number, reason_number};
use crate::views::fill;
use libc::{sockaddr, socklen_t};
use sidestep_socket::ring_flow::{Entry, EntryId, EntryPath, FlowOptions, Packet, Protocol, Verdict};
use std::ffi::{c_char, c_int, c_void};
use std::os::fd::AsRawFd;
use std::ptr;

/// [`Verdict::Pass`].
pub const VERDICT_PASS: u32 = 0;
/// [`Verdict::Drop`].
pub const VERDICT_DROP: u32 = 1;

/// [`EntryPath::Ring`].
pub const FLOW_RING: u32 = 0;
/// [`EntryPath::Kernel`].
pub const FLOW_KERNEL: u32 = 1;
/// [`EntryPath::Nothing`].
pub const FLOW_NOTHING: u32 = 2;

/// The queue of a packet that a kernel socket delivered.
pub const NO_QUEUE: u32 = u32::MAX;

/// `sidestep_flow`.
pub struct Flow {
    inner: sidestep_socket::ring_flow::Flow,
}

/// `sidestep_flow_options`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CFlowOptions {
    /// [`FlowOptions::interface`].
    pub interface_name: *const c_char,
    /// [`FlowOptions::feed`], or null.
    pub feed: *const c_char,
    /// [`FlowOptions::control`], or null.
    pub control: *const c_char,
    /// [`FlowOptions::name`], or null for the program's.
    pub name: *const c_char,
    /// 0 or 1.
    pub doorbell: u32,
    /// One of `CHECKSUMS_*`.
    pub checksums: u32,
    /// [`FlowOptions::receive_buffer`].
    pub receive_buffer: u32,
    /// 0 or 1.
    pub accelerate: u32,
}

/// `sidestep_flow_way`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CFlowWay {
    /// One of `FLOW_*`.
    pub way: u32,
    /// 0, or the [`reason_number`].
    pub reason: u32,
    /// One of `VERDICT_*`.
    pub verdict: u32,
    /// One of `MODE_*`.
    pub mode: u32,
}

/// `sidestep_packet`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CPacket {
    /// [`Packet::payload`].
    pub payload: *const c_void,
    /// Its bytes.
    pub length: usize,
    /// [`Packet::bytes`], or null.
    pub ip: *const c_void,
    /// Its bytes.
    pub ip_length: usize,
    /// [`Packet::received_ns`].
    pub received_ns: u64,
    /// [`Packet::lost_before`].
    pub lost_before: u64,
    /// [`Packet::source`].
    pub source: CAddress,
    /// [`Packet::destination`].
    pub destination: CAddress,
    /// [`Packet::queue`], or [`NO_QUEUE`].
    pub queue: u32,
    /// [`Packet::vlan`], or 0.
    pub vlan: u16,
    /// The number of [`Packet::protocol`].
    pub protocol: u8,
    /// Zero.
    pub reserved: u8,
}

/// `sidestep_flow_counts`: sums of [`sidestep_socket::ring_flow::Statistics`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs)] // Each is the field of that name.
pub struct CFlowCounts {
    pub packets: u64,
    pub by_kernel: u64,
    pub lost: u64,
    pub lost_bytes: u64,
    pub bad_checksums: u64,
    pub malformed: u64,
    pub fallbacks: u64,
    pub queues: u64,
    pub dropped: u64,
}

/// The defaults of a flow.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_flow_options_default(options: *mut CFlowOptions, options_bytes: usize) -> c_int {
    call("sidestep_flow_options_default", || {
        // SAFETY: as the crate's text says.
        unsafe { fill(&defaults(), options, options_bytes, "options") }
    })
}

/// [`sidestep_socket::ring_flow::Flow::open`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_flow_open(
    options: *const CFlowOptions,
    options_bytes: usize,
    flow: *mut *mut Flow,
) -> c_int {
    call("sidestep_flow_open", || {
        // SAFETY: as the crate's text says.
        let (options, flow) = unsafe { (flow_options(options, options_bytes)?, out(flow, "flow")?) };
        give(&flow, Flow { inner: sidestep_socket::ring_flow::Flow::open(&options)? });
        Ok(())
    })
}

/// [`sidestep_socket::ring_flow::Flow::join`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_flow_join(
    flow: *mut Flow,
    group: *const sockaddr,
    group_bytes: socklen_t,
    source: *const sockaddr,
    source_bytes: socklen_t,
    verdict: u32,
    entry: *mut u32,
) -> c_int {
    call("sidestep_flow_join", || {
        // SAFETY: as the crate's text says.
        let (flow, entry) = unsafe { (handle(flow, "flow")?, out(entry, "entry")?) };
        // SAFETY: as the crate's text says.
        let (group, source) = unsafe { (address(group, group_bytes, "group")?, address_if_any(source, source_bytes)?) };
        let id = flow.inner.join(group, source.map(|source| source.ip()), self::verdict(verdict)?)?;
        entry.set(id.number());
        Ok(())
    })
}

/// [`sidestep_socket::ring_flow::Flow::bind`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_flow_bind(
    flow: *mut Flow,
    local: *const sockaddr,
    local_bytes: socklen_t,
    verdict: u32,
    entry: *mut u32,
) -> c_int {
    call("sidestep_flow_bind", || {
        // SAFETY: as the crate's text says.
        let (flow, entry) = unsafe { (handle(flow, "flow")?, out(entry, "entry")?) };
        // SAFETY: as the crate's text says.
        let local = unsafe { address(local, local_bytes, "local")? };
        entry.set(flow.inner.bind(local, self::verdict(verdict)?)?.number());
        Ok(())
    })
}

/// [`sidestep_socket::ring_flow::Flow::tap`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_flow_tap(
    flow: *mut Flow,
    protocol: u32,
    local: *const sockaddr,
    local_bytes: socklen_t,
    remote: *const sockaddr,
    remote_bytes: socklen_t,
    verdict: u32,
    entry: *mut u32,
) -> c_int {
    call("sidestep_flow_tap", || {
        // SAFETY: as the crate's text says.
        let (flow, entry) = unsafe { (handle(flow, "flow")?, out(entry, "entry")?) };
        // SAFETY: as the crate's text says.
        let (local, remote) = unsafe { (address(local, local_bytes, "local")?, address_if_any(remote, remote_bytes)?) };
        let protocol = match protocol {
            6 => Protocol::Tcp,
            17 => Protocol::Udp,
            _ => return Err(Failure::Usage("`protocol` is neither IPPROTO_UDP nor IPPROTO_TCP")),
        };
        let wanted = match remote {
            Some(remote) => Entry::Flow { protocol, local, remote, vlan: None },
            None if local.ip().is_multicast() => Entry::Multicast { group: local, source: None, vlan: None },
            None => Entry::Listener { protocol, local, vlan: None },
        };
        entry.set(flow.inner.tap(wanted, self::verdict(verdict)?)?.number());
        Ok(())
    })
}

/// [`sidestep_socket::ring_flow::Flow::leave`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_flow_leave(flow: *mut Flow, entry: u32) -> c_int {
    call("sidestep_flow_leave", || {
        // SAFETY: as the crate's text says.
        unsafe { handle(flow, "flow")? }.inner.leave(EntryId::of_number(entry));
        Ok(())
    })
}

/// [`sidestep_socket::ring_flow::Flow::path`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_flow_path(flow: *const Flow, entry: u32, way: *mut CFlowWay) -> c_int {
    call("sidestep_flow_path", || {
        // SAFETY: as the crate's text says.
        let (flow, way) = unsafe { (look(flow, "flow")?, out(way, "way")?) };
        way.set((&flow.inner.path(EntryId::of_number(entry))).into());
        Ok(())
    })
}

/// [`sidestep_socket::ring_flow::Flow::receive`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_flow_receive(flow: *mut Flow, packet: *mut CPacket) -> c_int {
    call("sidestep_flow_receive", || {
        // SAFETY: as the crate's text says.
        let (flow, packet) = unsafe { (handle(flow, "flow")?, out(packet, "packet")?) };
        packet.set((&flow.inner.receive().ok_or(Failure::NothingCame)?).into());
        Ok(())
    })
}

/// [`sidestep_socket::ring_flow::Flow::wait`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_flow_wait(flow: *mut Flow, waiting: c_int, timeout_ns: i64) -> c_int {
    call("sidestep_flow_wait", || {
        // SAFETY: as the crate's text says.
        let flow = unsafe { handle(flow, "flow")? };
        Ok(flow.inner.wait(idle(waiting)?, deadline(timeout_ns))?)
    })
}

/// [`sidestep_socket::ring_flow::Flow::request_wakeup`] and [`sidestep_socket::ring_flow::Flow::wakeup_fd`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_flow_wakeup_fd(flow: *mut Flow, fd: *mut c_int) -> c_int {
    call("sidestep_flow_wakeup_fd", || {
        // SAFETY: as the crate's text says.
        let (flow, fd) = unsafe { (handle(flow, "flow")?, out(fd, "fd")?) };
        let sleeps = flow.inner.request_wakeup();
        fd.set(if sleeps { flow.inner.wakeup_fd()?.as_raw_fd() } else { -1 });
        Ok(())
    })
}

/// [`sidestep_socket::ring_flow::Flow::statistics`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_flow_read_counts(
    flow: *const Flow,
    counts: *mut CFlowCounts,
    counts_bytes: usize,
) -> c_int {
    call("sidestep_flow_read_counts", || {
        // SAFETY: as the crate's text says.
        let flow = &unsafe { look(flow, "flow")? }.inner;
        let statistics = flow.statistics();
        let found = CFlowCounts {
            packets: statistics.packets() - statistics.by_kernel,
            by_kernel: statistics.by_kernel,
            lost: statistics.lost(),
            lost_bytes: statistics.queues.iter().map(|queue| queue.lost_bytes).sum(),
            bad_checksums: statistics.bad_checksums,
            malformed: statistics.malformed,
            fallbacks: statistics.fallbacks,
            queues: statistics.queues.len() as u64,
            dropped: flow.dropped(),
        };
        // SAFETY: as the crate's text says.
        unsafe { fill(&found, counts, counts_bytes, "counts") }
    })
}

/// The loss of one queue.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_flow_loss(flow: *const Flow, queue: u32, lost: *mut u64) -> c_int {
    call("sidestep_flow_loss", || {
        // SAFETY: as the crate's text says.
        let (flow, lost) = unsafe { (look(flow, "flow")?, out(lost, "lost")?) };
        lost.set(flow.inner.statistics().queues.get(queue as usize).map_or(0, |queue| queue.lost));
        Ok(())
    })
}

/// Ends the flow; null is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_flow_free(flow: *mut Flow) {
    // SAFETY: as the crate's text says.
    unsafe { take_back(flow) };
}

impl From<&EntryPath> for CFlowWay {
    fn from(path: &EntryPath) -> Self {
        let way = match path {
            EntryPath::Ring { .. } => FLOW_RING,
            EntryPath::Kernel { .. } => FLOW_KERNEL,
            EntryPath::Nothing { .. } => FLOW_NOTHING,
        };
        let (verdict, mode) = match path {
            EntryPath::Ring { verdict: Verdict::Drop, mode, .. } => (VERDICT_DROP, mode_number(*mode)),
            EntryPath::Ring { verdict: Verdict::Pass, mode, .. } => (VERDICT_PASS, mode_number(*mode)),
            _ => (VERDICT_PASS, 0),
        };
        Self { way, reason: path.reason().map_or(ACCELERATED, reason_number), verdict, mode }
    }
}

impl From<&Packet<'_>> for CPacket {
    fn from(packet: &Packet<'_>) -> Self {
        let (payload, ip) = (packet.payload(), packet.bytes());
        Self {
            payload: payload.as_ptr().cast(),
            length: payload.len(),
            ip: if ip.is_empty() { ptr::null() } else { ip.as_ptr().cast() },
            ip_length: ip.len(),
            received_ns: packet.received_ns(),
            lost_before: packet.lost_before(),
            source: packet.source().into(),
            destination: packet.destination().into(),
            queue: packet.queue().unwrap_or(NO_QUEUE),
            vlan: packet.vlan().unwrap_or(0),
            protocol: packet.protocol().number(),
            reserved: 0,
        }
    }
}

fn defaults() -> CFlowOptions {
    let defaults = FlowOptions::on("");
    CFlowOptions {
        interface_name: ptr::null(),
        feed: ptr::null(),
        control: ptr::null(),
        name: ptr::null(),
        doorbell: defaults.doorbell.into(),
        checksums: CHECKSUMS_AUTO,
        receive_buffer: defaults.receive_buffer,
        accelerate: defaults.accelerate.into(),
    }
}

/// The options of a flow.
///
/// # Safety
/// `options` is null or points to `bytes` bytes with C strings or nulls where it has pointers, and no thread changes
/// them during the call.
unsafe fn flow_options(options: *const CFlowOptions, bytes: usize) -> Result<FlowOptions, Failure> {
    // SAFETY: the caller's promise.
    let given = unsafe { read(options, bytes, defaults()) }?;
    if given.interface_name.is_null() {
        return Err(Failure::Usage("`interface_name` is null: name the interface"));
    }
    // SAFETY: the caller's promise; each is null or a C string.
    let mut options = FlowOptions::on(unsafe { text(given.interface_name, "interface_name") }?);
    if !given.feed.is_null() {
        // SAFETY: as above.
        options.feed = unsafe { text(given.feed, "feed") }?.to_owned();
    }
    if !given.control.is_null() {
        // SAFETY: as above.
        options.control = Some(unsafe { path(given.control) }?.to_owned());
    }
    if !given.name.is_null() {
        // SAFETY: as above.
        options.name = unsafe { text(given.name, "name") }?.to_owned();
    }
    options.doorbell = flag(given.doorbell)?;
    options.checksums = checksums(given.checksums)?;
    options.receive_buffer = given.receive_buffer;
    options.accelerate = flag(given.accelerate)?;
    Ok(options)
}

fn verdict(choice: u32) -> Result<Verdict, Failure> {
    match choice {
        VERDICT_PASS => Ok(Verdict::Pass),
        VERDICT_DROP => Ok(Verdict::Drop),
        _ => Err(Failure::Usage("`verdict` is neither SIDESTEP_VERDICT_PASS nor SIDESTEP_VERDICT_DROP")),
    }
}
