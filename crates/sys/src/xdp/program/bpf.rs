//! bpf(2): the five commands used here. Attributes are written as the words that linux/bpf.h defines.

use super::code::Instruction;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

const BPF_MAP_CREATE: i32 = 0;
const BPF_MAP_UPDATE_ELEM: i32 = 2;
const BPF_PROG_LOAD: i32 = 5;
const BPF_PROG_TEST_RUN: i32 = 10;
const BPF_LINK_CREATE: i32 = 28;

const BPF_MAP_TYPE_XSKMAP: u32 = 17;
const BPF_PROG_TYPE_XDP: u32 = 6;
const BPF_XDP: u32 = 37;
/// The program reads only the first buffer of a frame, so it supports frames of several.
const BPF_F_XDP_HAS_FRAGS: u32 = 1 << 5;
/// The outcome of the program is carried out.
const BPF_F_TEST_XDP_LIVE_FRAMES: u32 = 2;
const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;
const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;

/// The name that bpftool shows, at most 15 bytes.
const NAME: &[u8; 16] = b"sidestep_raw\0\0\0\0";
/// Space for the verifier's log of a program of two dozen instructions.
const LOG_BYTES: usize = 64 << 10;

/// The place where a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attach {
    Native,
    Generic,
}

#[repr(C)]
struct MapCreate {
    kind: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries: u32,
    flags: u32,
    inner_map: u32,
    numa_node: u32,
    name: [u8; 16],
}

#[repr(C)]
struct MapUpdate {
    map: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
struct ProgramLoad {
    kind: u32,
    instructions: u32,
    code: u64,
    licence: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attach_type: u32,
}

#[repr(C)]
struct LinkCreate {
    program: u32,
    interface: u32,
    attach_type: u32,
    flags: u32,
}

/// `struct xdp_md`.
#[repr(C)]
struct Context {
    data: u32,
    data_end: u32,
    data_meta: u32,
    interface: u32,
    queue: u32,
    egress: u32,
}

#[repr(C)]
struct TestRun {
    program: u32,
    result: u32,
    data_bytes: u32,
    data_out_bytes: u32,
    data: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    context_bytes: u32,
    context_out_bytes: u32,
    context: u64,
    context_out: u64,
    flags: u32,
    cpu: u32,
    batch: u32,
    padding: u32,
}

const _: () = {
    assert!(size_of::<TestRun>() == 80 && size_of::<Context>() == 24);
    assert!(size_of::<MapCreate>() == 44 && size_of::<MapUpdate>() == 32);
    assert!(size_of::<ProgramLoad>() == 72 && size_of::<LinkCreate>() == 16);
};

/// A map from queue to socket.
pub(super) fn xsk_map(entries: u32) -> io::Result<OwnedFd> {
    let attributes = MapCreate {
        kind: BPF_MAP_TYPE_XSKMAP,
        key_bytes: 4,
        value_bytes: 4,
        entries,
        flags: 0,
        inner_map: 0,
        numa_node: 0,
        name: *NAME,
    };
    // SAFETY: MAP_CREATE reads the attributes, which hold no pointer.
    unsafe { descriptor(BPF_MAP_CREATE, &attributes) }
}

/// Inserts a descriptor into a map.
pub(super) fn update(map: BorrowedFd<'_>, key: u32, value: BorrowedFd<'_>) -> io::Result<()> {
    let value = value.as_raw_fd();
    let attributes = MapUpdate {
        map: map.as_raw_fd().cast_unsigned(),
        padding: 0,
        key: &raw const key as u64,
        value: &raw const value as u64,
        flags: 0,
    };
    // SAFETY: key and value have the four bytes each that the map was made with, and live until after the call.
    unsafe { call(BPF_MAP_UPDATE_ELEM, &attributes) }.map(drop)
}

/// Loads a program; an error carries the verifier's log.
pub(super) fn load(code: &[Instruction]) -> Result<OwnedFd, (io::Error, String)> {
    let mut log = vec![0_u8; LOG_BYTES];
    // The kernel allows GPL-only helpers to programs of a GPL-compatible licence.
    let licence = c"Dual MIT/GPL";
    let mut attributes = ProgramLoad {
        kind: BPF_PROG_TYPE_XDP,
        instructions: code.len() as u32,
        code: code.as_ptr() as u64,
        licence: licence.as_ptr() as u64,
        log_level: 0,
        log_bytes: 0,
        log: 0,
        kernel_version: 0,
        flags: BPF_F_XDP_HAS_FRAGS,
        name: *NAME,
        interface: 0,
        attach_type: BPF_XDP,
    };
    // A kernel before Linux 5.18 does not know the flag; its drivers accept the program only at an MTU within a page.
    for flags in [BPF_F_XDP_HAS_FRAGS, 0] {
        attributes.flags = flags;
        // SAFETY: code and licence are readable for the lengths given and live until after the call.
        if let Ok(program) = unsafe { descriptor(BPF_PROG_LOAD, &attributes) } {
            return Ok(program);
        }
    }
    (attributes.log_level, attributes.log_bytes, attributes.log) = (1, LOG_BYTES as u32, log.as_mut_ptr() as u64);
    // SAFETY: as above; the log is writable for the length given and lives until after the call.
    unsafe { descriptor(BPF_PROG_LOAD, &attributes) }.map_err(|error| {
        let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
        (error, String::from_utf8_lossy(&log[..end]).into_owned())
    })
}

/// The most frames of a batch (`TEST_XDP_MAX_BATCH` is 256): half of a veth's queue.
const LIVE_BATCH_MAX: u32 = 128;

/// Runs a program so many times on a frame that came by the first queue of an interface, and carries its outcome out.
pub(super) fn run_live(program: &OwnedFd, interface: u32, frame: &[u8], repeat: u32) -> io::Result<()> {
    let bytes = u32::try_from(frame.len()).map_err(io::Error::other)?;
    let context = Context { data: 0, data_end: bytes, data_meta: 0, interface, queue: 0, egress: 0 };
    let attributes = TestRun {
        program: program.as_raw_fd().cast_unsigned(),
        result: 0,
        data_bytes: bytes,
        data_out_bytes: 0,
        data: frame.as_ptr() as u64,
        data_out: 0,
        repeat,
        duration: 0,
        context_bytes: size_of::<Context>() as u32,
        context_out_bytes: 0,
        context: &raw const context as u64,
        context_out: 0,
        flags: BPF_F_TEST_XDP_LIVE_FRAMES,
        cpu: 0,
        batch: repeat.clamp(1, LIVE_BATCH_MAX),
        padding: 0,
    };
    let attributes = std::cell::UnsafeCell::new(attributes);
    // SAFETY: frame and context are readable for the lengths given and live until after the call, which writes the result and
    // the duration into the attributes: they lie in a cell that nobody else reads.
    unsafe { call(BPF_PROG_TEST_RUN, &attributes) }.map(drop)
}

/// Attaches a program until the descriptor is closed (Linux 5.9). EBUSY: another one is attached.
pub(super) fn link(program: BorrowedFd<'_>, interface: u32, attach: Attach) -> io::Result<OwnedFd> {
    let flags = match attach {
        Attach::Native => XDP_FLAGS_DRV_MODE,
        Attach::Generic => XDP_FLAGS_SKB_MODE,
    };
    let program = program.as_raw_fd().cast_unsigned();
    let attributes = LinkCreate { program, interface, attach_type: BPF_XDP, flags };
    // SAFETY: LINK_CREATE reads the attributes, which hold no pointer.
    unsafe { descriptor(BPF_LINK_CREATE, &attributes) }
}

/// # Safety
/// As for [`call`]; the command must return a new descriptor.
unsafe fn descriptor<T>(command: i32, attributes: &T) -> io::Result<OwnedFd> {
    // SAFETY: the caller keeps the conditions of `call`.
    let descriptor = unsafe { call(command, attributes) }?;
    // SAFETY: the kernel has just returned this descriptor and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// # Safety
/// The attributes must be those of the command, and what they point at must live until after the call.
unsafe fn call<T>(command: i32, attributes: &T) -> io::Result<i32> {
    let attributes_at = std::ptr::from_ref(attributes);
    // SAFETY: the attributes are readable for the size given; the caller answers for what they point at. The kernel
    // writes into them for none of the commands used here but TEST_RUN, whose attributes are in a cell.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, attributes_at, size_of::<T>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { i32::try_from(result).map_err(io::Error::other) }
}
