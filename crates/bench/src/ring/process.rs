//! The ring in shared memory: the far end is another process.

use super::channels::ring::{RingEnd, bytes_for};
use super::{Contestant, Job, Load, Near, Shape, cannot_open, far, lost};
use sidestep_ring::spsc::Resume;
use sidestep_ring::{Access, Cell, Kind, Options, Segment, Waking};
use sidestep_sys::{Problem, cpu, process};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// The arguments by which a program becomes the far end of `SharedRing`; it then calls [`far_process`].
pub const FAR_COMMAND: [&str; 2] = ["bench", "ring-peer"];
/// Time that the far process has to end after the near end is gone.
const FAR_END: Duration = Duration::from_secs(2);
/// Named here because a job has more to it than the far end needs.
const STREAM: &str = "stream";
const ANSWER: &str = "answer";

/// Our single-producer ring in a sealed memfd, between two processes.
pub(crate) struct SharedRing {
    /// The program that is the far end.
    pub program: PathBuf,
}

impl Contestant for SharedRing {
    fn name(&self) -> &'static str {
        "ring-shm"
    }

    fn description(&self) -> String {
        "sidestep's single-producer ring in shared memory (a sealed memfd), between two processes, both ends spinning."
            .into()
    }

    fn sleeps(&self) -> bool {
        false
    }

    fn run(&self, job: &Job, near: &mut Near) -> Result<(), Problem> {
        let cell = Cell::Line;
        let options = Options { kind: Kind::Spsc, cell, bytes: bytes_for(job.shape, cell), waking: Waking::Never };
        let (there, back) = (Segment::memfd(&options)?, Segment::memfd(&options)?);
        let mut end = RingEnd::of(there.producer()?, back.consumer(Resume::Unread)?);
        let mut far = self.start(job, &there, &back)?;
        let measured = near.measure(&mut end, job, || far.0.try_wait().is_ok_and(|ended| ended.is_none()));
        drop(end);
        measured.and(far.end())
    }
}

impl SharedRing {
    fn start(&self, job: &Job, there: &Segment, back: &Segment) -> Result<Far, Problem> {
        let failed = |error: std::io::Error| cannot_open("the far end of a shared ring", error);
        let load = if job.load == Load::Stream { STREAM } else { ANSWER };
        let Shape { size, messages } = job.shape;
        let mut command = Command::new(&self.program);
        command.args(FAR_COMMAND).args([load, &job.far_cpu.to_string(), &size.to_string(), &messages.to_string()]);
        // The two rings travel as standard input and output: no name that others could open, nothing to remove.
        command.stdin(Stdio::from(there.fd().try_clone_to_owned().map_err(failed)?));
        command.stdout(Stdio::from(back.fd().try_clone_to_owned().map_err(failed)?));
        process::die_with_parent(&mut command);
        command.spawn().map(Far).map_err(failed)
    }
}

/// The far process; dropping waits for it.
struct Far(Child);

impl Far {
    fn end(mut self) -> Result<(), Problem> {
        let begin = Instant::now();
        while begin.elapsed() < FAR_END {
            match self.0.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => return Err(lost(status)),
                Ok(None) => std::thread::sleep(Duration::from_micros(200)),
                Err(error) => return Err(lost(error)),
            }
        }
        Err(lost("its process does not end"))
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        // No harm if it has ended: it is waited for either way.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs as the far end of a `SharedRing` by the arguments after [`FAR_COMMAND`]; the rings are standard input and
/// output. Ends when the near end is gone.
pub fn far_process(arguments: &[String]) -> Result<(), Problem> {
    let refused = || {
        Problem::usage("cannot be a far end", "this command is for sidestep's own use").next("use: sidestep bench ring")
    };
    let [load, far_cpu, size, messages] = arguments else { return Err(refused()) };
    let number = |text: &str| text.parse::<usize>().map_err(|_| refused());
    let job = Job {
        shape: Shape { size: number(size)?, messages: number(messages)? },
        load: if load == STREAM { Load::Stream } else { Load::ClosedLoop },
        settle: Duration::ZERO,
        duration: Duration::ZERO,
        far_cpu: number(far_cpu)?.try_into().map_err(|_| refused())?,
    };
    let owned = |fd: &dyn AsFd| {
        fd.as_fd().try_clone_to_owned().map_err(|error| cannot_open("the far end of a shared ring", error))
    };
    let there = Segment::from_fd(owned(&std::io::stdin())?, Access::ReadWrite)?;
    let back = Segment::from_fd(owned(&std::io::stdout())?, Access::ReadWrite)?;
    cpu::restrict(&[job.far_cpu])?;
    let mut end = RingEnd::of(back.producer()?, there.consumer(Resume::Unread)?);
    far::serve(&mut end, &job, &AtomicBool::new(false));
    Ok(())
}
