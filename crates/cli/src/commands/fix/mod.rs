//! `sidestep fix`.

mod admin;
mod decode;
mod exchange;
mod send;

use crate::args_fix::{Fix, Thread};
use sidestep_fix::engine::SocketOptions;
use sidestep_sys::idle::IdleStrategy;
use sidestep_sys::{Problem, cpu};

pub(super) fn run(args: Fix) -> Result<u8, Problem> {
    match args {
        Fix::Exchange(args) => exchange::run(&args),
        Fix::Send(args) => send::run(&args),
        Fix::Decode(args) => decode::run(&args),
        Fix::Sessions(args) => admin::sessions(&args),
        Fix::Reset(args) => admin::reset(&args),
    }
}

/// Pins this thread to the CPU of the flags; returns how it waits, and the socket options that follow.
pub(super) fn apply_thread_options(thread: &Thread) -> Result<(IdleStrategy, SocketOptions), Problem> {
    if let Some(cpu) = thread.cpu {
        cpu::check(cpu)?;
        cpu::restrict(&[cpu])?;
    }
    let idle = if thread.spin { IdleStrategy::SPIN } else { IdleStrategy::PARK };
    Ok((idle, SocketOptions::default().for_idle(idle)))
}
