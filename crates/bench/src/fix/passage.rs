//! Whether an acceptor past the kernel is awake, and whether messages came to it past the kernel.

use super::remote::FarPassage;
use sidestep_control_api::client::Client;
use sidestep_sys::Problem;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Time until the heartbeat of a continued acceptor is fresh again for the steering program.
const AWAKE_MAX: Duration = Duration::from_secs(3);
/// Between two looks at its counters; after the one that shows it awake its sign of life is stored within 0.1 ms.
const LOOK: Duration = Duration::from_micros(500);

/// A stack of an acceptor, as its control plane knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stack {
    socket: PathBuf,
    id: u32,
}

impl Stack {
    /// Finds the stack of process `pid` at the control plane with this socket.
    pub(super) fn of(socket: PathBuf, pid: u32) -> Result<Self, Problem> {
        let clients = Client::connect_to(&socket, "sidestep bench")?.clients()?;
        let stacks = clients.iter().filter(|line| line.pid == Some(pid)).flat_map(|line| &line.stacks);
        let id = stacks.map(|stack| stack.id).next();
        let id = id.ok_or_else(|| Problem::failed("our own acceptor is not past the kernel", "it has no stack"))?;
        Ok(Self { socket, id })
    }

    /// Waits until the acceptor, which was stopped, has told the steering program that it lives: a connection made before
    /// that would be the kernel's.
    pub(super) fn awake(&self) -> Result<Passage, Problem> {
        let mut client = Client::connect_to(&self.socket, "sidestep bench")?;
        let (begin, before) = (Instant::now(), count(&mut client, self.id, "heartbeats")?);
        loop {
            std::thread::sleep(LOOK);
            if count(&mut client, self.id, "heartbeats")? > before {
                break;
            }
            if begin.elapsed() > AWAKE_MAX {
                return Err(Problem::failed("lost the acceptor", "its stack is polled no more"));
            }
        }
        std::thread::sleep(LOOK);
        let frames = count(&mut client, self.id, "rx_frames")?;
        Ok(Passage { client, stack: self.id, frames })
    }
}

/// The frames that an acceptor's stack had received before a slice.
pub(super) struct Passage {
    client: Client,
    stack: u32,
    frames: u64,
}

impl Passage {
    /// Checks that `messages` have come past the kernel since, each in a frame at least.
    pub(super) fn check(mut self, messages: u64) -> Result<(), Problem> {
        let frames = self.frames()?;
        check(frames, messages)
    }

    /// Returns the number of frames since.
    pub(super) fn frames(&mut self) -> Result<u64, Problem> {
        Ok(count(&mut self.client, self.stack, "rx_frames")?.saturating_sub(self.frames))
    }
}

/// The messages of a slice to an acceptor past the kernel, here or on another host.
pub(super) enum Watched {
    Here(Passage),
    There(FarPassage),
}

impl Watched {
    /// Checks that `messages` have come past the kernel since.
    pub(super) fn check(self, messages: u64) -> Result<(), Problem> {
        match self {
            Self::Here(passage) => passage.check(messages),
            Self::There(passage) => passage.check(messages),
        }
    }
}

/// Checks that as many frames as messages came past the kernel.
pub(super) fn check(frames: u64, messages: u64) -> Result<(), Problem> {
    if frames >= messages {
        return Ok(());
    }
    Err(Problem::failed("the acceptor was reached by the kernel", format!("{frames} frames for {messages} messages")))
}

fn count(client: &mut Client, stack: u32, name: &str) -> Result<u64, Problem> {
    let values = client.counters(stack)?;
    Ok(values.iter().find(|(counter, _)| counter == name).map_or(0, |(_, value)| *value))
}
