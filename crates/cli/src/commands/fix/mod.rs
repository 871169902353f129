//! `sidestep fix`.

mod admin;
mod decode;
mod exchange;
mod send;

use crate::args_fix::{Fix, Thread};
use sidestep_fix::engine::{Idle, SocketOptions};
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

/// Puts this thread where it was asked to be, and says how it idles.
fn settle(thread: &Thread) -> Result<(Idle, SocketOptions), Problem> {
    if let Some(cpu) = thread.cpu {
        cpu::check(cpu)?;
        cpu::restrict(&[cpu])?;
    }
    let idle = if thread.spin { Idle::Spin } else { Idle::Block };
    Ok((idle, SocketOptions::default().for_idle(idle)))
}
