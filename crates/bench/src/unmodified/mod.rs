//! The path `run`: both ends are programs of their own that know blocking sockets alone, each started under libsidestep.so.
//!
//! The two programs are this one, called as `sidestep bench unmodified ...`; what they do is what any program does with std's sockets.
//! Each looks at its own status page before it ends: a slice that the kernel has carried is refused.

mod client;
mod server;
mod wire;

pub use client::Client;
pub use server::Server;

use crate::cpu_time::Spent;
use crate::measure::SAMPLES_MAX;
use sidestep_sys::Problem;
use sidestep_sys::process::die_with_parent;
use sidestep_unmodified::library;
use sidestep_unmodified::status::{PathNow, SocketKind, processes};
use std::io::{self, ErrorKind, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Time for the peer to connect, and for a socket to go past the kernel: the interfaces restart after their programs were attached.
const READY_MAX: Duration = Duration::from_secs(5);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(2);
/// The longest number that either program prints, with its line feed.
const NUMBER_BYTES_MAX: usize = 21;

/// What the measuring program has found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) settling: u64,
    pub(crate) lost: u64,
    pub(crate) involuntary_switches: u64,
    pub(crate) cpu: Spent,
    pub(crate) samples: Vec<u64>,
}

fn failed(what: &str) -> impl Fn(io::Error) -> Problem {
    let what = what.to_owned();
    move |error| Problem::failed(&what, error)
}

/// Waits until a socket of this process goes past the kernel, as its status page shows.
fn await_acceleration(kind: SocketKind) -> Result<(), Problem> {
    let deadline = Instant::now() + READY_MAX;
    loop {
        let page = processes().into_iter().find(|found| found.pid == std::process::id());
        let sockets = page.map(|page| page.view.snapshot().sockets).unwrap_or_default();
        let Some(socket) = sockets.into_iter().find(|socket| socket.kind == kind) else {
            return Err(Problem::failed("the library is not there", "this process has no status page"));
        };
        match socket.path {
            PathNow::Accelerated { .. } => return Ok(()),
            PathNow::Kernel { description, .. } if Instant::now() > deadline => {
                return Err(Problem::failed("the kernel carries the slice", description));
            }
            PathNow::Undecided if Instant::now() > deadline => {
                return Err(Problem::failed("the kernel carries the slice", "its path is not decided"));
            }
            _ => std::thread::sleep(PAUSE),
        }
    }
}

/// One of the two programs, under the library.
pub(crate) struct Program {
    child: Child,
    output: ChildStdout,
}

impl Program {
    fn start(program: &Path, role: &str, arguments: &[[String; 2]]) -> Result<Self, Problem> {
        let library = library::find(std::env::var_os(library::VARIABLE))?;
        let preload = library::preload(&library, std::env::var_os(library::LD_PRELOAD).as_deref());
        let mut command = Command::new(program);
        command.args(["bench", "unmodified", role]).args(arguments.iter().flatten());
        command.env(library::LD_PRELOAD, preload).stdin(Stdio::null()).stdout(Stdio::piped());
        die_with_parent(&mut command);
        let mut child = command.spawn().map_err(failed("cannot start a program under the library"))?;
        let output = child.stdout.take().ok_or(ErrorKind::BrokenPipe).map_err(io::Error::from);
        Ok(Self { child, output: output.map_err(failed("cannot start a program"))? })
    }

    fn number(&mut self) -> io::Result<u64> {
        let mut number = String::new();
        for _ in 0..NUMBER_BYTES_MAX {
            let mut byte = [0];
            self.output.read_exact(&mut byte)?;
            if byte == *b"\n" {
                return number.parse().map_err(|_| ErrorKind::InvalidData.into());
            }
            number.push(byte[0].into());
        }
        Err(ErrorKind::InvalidData.into())
    }

    fn found(&mut self) -> io::Result<Found> {
        let (settling, lost, involuntary_switches) = (self.number()?, self.number()?, self.number()?);
        let cpu = Spent { ns: self.number()?, messages: self.number()?, last_cpu: None };
        let count = self.number()?.min(SAMPLES_MAX as u64);
        let mut bytes = vec![0; count as usize * size_of::<u64>()];
        self.output.read_exact(&mut bytes)?;
        let samples = bytes.chunks_exact(8).filter_map(|chunk| Some(u64::from_le_bytes(chunk.try_into().ok()?)));
        Ok(Found { settling, lost, involuntary_switches, cpu, samples: samples.collect() })
    }

    /// What the answering program has counted: involuntary context switches, CPU time and messages.
    pub(crate) fn counted(mut self) -> Result<(u64, Spent), Problem> {
        let mut numbers =
            || Ok((self.number()?, Spent { ns: self.number()?, messages: self.number()?, last_cpu: None }));
        let counted = numbers();
        self.end()?;
        counted.map_err(failed("cannot read what the answering program has counted"))
    }

    /// Waits for its end, which must be a good one.
    fn end(&mut self) -> Result<(), Problem> {
        let status = self.child.wait().map_err(failed("lost a program under the library"))?;
        if status.success() {
            return Ok(());
        }
        Err(Problem::failed("a program under the library failed", status)
            .next("see what it printed above, and sidestep ps"))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // One that has ended is not there any more.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
