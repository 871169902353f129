//! The program's instructions (RFC 9669), assembled here so that a dozen of them need no compiler.

use super::Filter;
use std::os::fd::{AsRawFd, BorrowedFd};

/// One instruction, `struct bpf_insn`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Instruction {
    code: u8,
    /// Destination in the lower four bits, source in the upper.
    registers: u8,
    offset: i16,
    immediate: i32,
}

const _: () = assert!(size_of::<Instruction>() == 8);

/// Operation codes: class, size or source, mode or operation.
const LOAD_BYTE: u8 = 0x71;
const LOAD_HALF: u8 = 0x69;
const LOAD_WORD: u8 = 0x61;
const LOAD_IMMEDIATE_64: u8 = 0x18;
const MOVE: u8 = 0xb7;
const MOVE_REGISTER: u8 = 0xbf;
const ADD: u8 = 0x07;
const AND: u8 = 0x57;
const JUMP_IF_NOT: u8 = 0x55;
const JUMP_IF_GREATER_REGISTER: u8 = 0x2d;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;

/// The immediate of a 64-bit load is a map's descriptor.
const PSEUDO_MAP_FD: u8 = 1;
const BPF_FUNC_REDIRECT_MAP: i32 = 51;
const XDP_PASS: i32 = 2;
const XDP_TX: i32 = 3;

/// Fields of `struct xdp_md`.
const DATA: i16 = 0;
const DATA_END: i16 = 4;
const RX_QUEUE_INDEX: i16 = 16;

/// Ethernet, IPv4 without options, UDP.
const HEADERS_BYTES: i32 = 42;
const ETHER_TYPE: i16 = 12;
const VERSION_AND_LENGTH: i16 = 14;
const FRAGMENT: i16 = 20;
const PROTOCOL: i16 = 23;
const DESTINATION_PORT: i16 = 36;

fn instruction(code: u8, to: u8, from: u8, offset: i16, immediate: i32) -> Instruction {
    Instruction { code, registers: from << 4 | to, offset, immediate }
}

/// The value as a load in this machine's byte order sees it.
fn network_order(value: u16) -> i32 {
    i32::from(value.to_be())
}

/// `return XDP_PASS`
pub(super) fn pass() -> Vec<Instruction> {
    vec![instruction(MOVE, 0, 0, 0, XDP_PASS), instruction(EXIT, 0, 0, 0, 0)]
}

/// `return XDP_TX`.
pub(super) fn transmit() -> Vec<Instruction> {
    vec![instruction(MOVE, 0, 0, 0, XDP_TX), instruction(EXIT, 0, 0, 0, 0)]
}

/// `return bpf_redirect_map(&sockets, ctx->rx_queue_index, XDP_PASS)` for frames that pass the filter. Frames of a
/// queue without a socket also go to the kernel.
pub(super) fn redirect(filter: Filter, sockets: BorrowedFd<'_>) -> Vec<Instruction> {
    let mut code = match filter {
        Filter::Everything => Vec::new(),
        Filter::UdpPort(port) => checks(port),
    };
    code.extend([
        instruction(LOAD_WORD, 2, 1, RX_QUEUE_INDEX, 0),
        instruction(LOAD_IMMEDIATE_64, 1, PSEUDO_MAP_FD, 0, sockets.as_raw_fd()),
        instruction(0, 0, 0, 0, 0),
        instruction(MOVE, 3, 0, 0, XDP_PASS),
        instruction(CALL, 0, 0, 0, BPF_FUNC_REDIRECT_MAP),
        instruction(EXIT, 0, 0, 0, 0),
    ]);
    if filter != Filter::Everything {
        // Without a check nothing jumps here, and the verifier refuses unreachable instructions.
        code.extend([instruction(MOVE, 0, 0, 0, XDP_PASS), instruction(EXIT, 0, 0, 0, 0)]);
    }
    code
}

/// Instructions between the last check and the one that passes the frame to the kernel.
const REDIRECT_LENGTH: usize = 6;

fn checks(port: u16) -> Vec<Instruction> {
    let mut code = vec![
        instruction(LOAD_WORD, 3, 1, DATA, 0),
        instruction(LOAD_WORD, 4, 1, DATA_END, 0),
        instruction(MOVE_REGISTER, 5, 3, 0, 0),
        instruction(ADD, 5, 0, 0, HEADERS_BYTES),
        instruction(JUMP_IF_GREATER_REGISTER, 5, 4, 0, 0),
        instruction(LOAD_HALF, 5, 3, ETHER_TYPE, 0),
        instruction(JUMP_IF_NOT, 5, 0, 0, network_order(0x0800)),
        instruction(LOAD_BYTE, 5, 3, VERSION_AND_LENGTH, 0),
        instruction(JUMP_IF_NOT, 5, 0, 0, 0x45),
        instruction(LOAD_BYTE, 5, 3, PROTOCOL, 0),
        instruction(JUMP_IF_NOT, 5, 0, 0, 17),
        instruction(LOAD_HALF, 5, 3, FRAGMENT, 0),
        instruction(AND, 5, 0, 0, network_order(0x3fff)),
        instruction(JUMP_IF_NOT, 5, 0, 0, 0),
        instruction(LOAD_HALF, 5, 3, DESTINATION_PORT, 0),
        instruction(JUMP_IF_NOT, 5, 0, 0, network_order(port)),
    ];
    let pass = code.len() + REDIRECT_LENGTH;
    for (position, step) in code.iter_mut().enumerate() {
        if matches!(step.code, JUMP_IF_NOT | JUMP_IF_GREATER_REGISTER) {
            step.offset = (pass - position - 1) as i16;
        }
    }
    code
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn every_check_jumps_to_the_end_that_passes() {
        let file = std::fs::File::open("/dev/null").unwrap();
        let code = redirect(Filter::UdpPort(7411), file.as_fd());
        let pass = code.len() - 2;
        let jumps =
            code.iter().enumerate().filter(|(_, step)| matches!(step.code, JUMP_IF_NOT | JUMP_IF_GREATER_REGISTER));
        let targets: Vec<usize> = jumps.map(|(at, step)| at + 1 + step.offset as usize).collect();
        assert_eq!(targets, [pass; 6]);
        assert_eq!(code[pass], instruction(MOVE, 0, 0, 0, XDP_PASS));
        assert_eq!(redirect(Filter::Everything, file.as_fd()), code[16..pass]);
    }
}
