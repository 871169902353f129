//! A program of a user, outside the workspace: it names everything that the face has, and nothing else of sidestep.

#![forbid(unsafe_code)]

mod codec;
mod market;
#[allow(dead_code)] // Written by `sidestep market generate`: more than is used here.
mod quotes;
mod rings;
mod sessions;
mod sockets;
mod streams;

use sidestep::error::{Kind, Problem};
use sidestep::idle::{FOREVER_NS, Idle, IdleStrategy, Pause};
use std::time::Duration;

fn main() -> Result<(), Problem> {
    sockets::run()?;
    streams::run()?;
    rings::run()?;
    codec::run()?;
    market::run()?;
    sessions::run()?;
    assert!(matches!(next_pause(IdleStrategy::SPIN), Pause::Spin));
    assert_eq!(failed("a step", "a reason").kind(), Kind::Failed);
    println!("good");
    Ok(())
}

/// What the loops below do while nothing comes.
fn next_pause(strategy: IdleStrategy) -> Pause {
    let mut idle = Idle::new(IdleStrategy { park_max_ns: FOREVER_NS, ..strategy });
    let pause = idle.next_pause();
    idle.reset();
    pause
}

/// An error of a call on a hot path, as one of set-up.
fn failed(step: &str, why: impl std::fmt::Display) -> Problem {
    Problem::new(Kind::Failed, step, why)
}

/// Polls until there is a result, for two seconds at most.
fn until<T>(what: &str, mut step: impl FnMut() -> Result<Option<T>, Problem>) -> Result<T, Problem> {
    let begin = std::time::Instant::now();
    let mut idle = Idle::new(IdleStrategy::SPIN_THEN_YIELD);
    while begin.elapsed() < Duration::from_secs(2) {
        if let Some(result) = step()? {
            return Ok(result);
        }
        idle.next_pause().take(std::thread::park_timeout);
    }
    Err(failed(what, "it has not come within two seconds"))
}
