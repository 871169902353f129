//! The threads beside a journal: one prepares segments and removes old ones, one waits for the disk.

use super::format::HEADER_BYTES;
use super::{Durability, Options};
use rustix::fs::{FallocateFlags, fallocate};
use sidestep_sys::mapped::MappedFile;
use sidestep_sys::{Problem, cpu};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Files of a journal are for their user alone: messages may have passwords (554).
pub(super) const FILE_MODE: u32 = 0o600;
/// Zeroes written at a time while a segment is prepared.
const CHUNK: usize = 256 << 10;
/// The shortest message that the index makes room for beforehand, bytes with its record: a heartbeat has some 64.
const MESSAGE_BYTES: usize = 80;
/// Stack of either thread, bytes: they call the kernel and nothing else.
const STACK_BYTES: usize = 128 << 10;
/// How long a writer waits for a segment that is being prepared.
const PREPARE_MAX: Duration = Duration::from_secs(10);

/// A segment that is ready to be written.
#[derive(Debug)]
pub(super) struct Spare {
    pub(super) number: u64,
    pub(super) file: Arc<File>,
    pub(super) mapped: Option<MappedFile>,
    /// Touched memory for the index.
    pub(super) positions: Vec<u32>,
}

enum Job {
    Prepare(u64),
    /// Cut a finished segment to the bytes it has; nothing may be mapped beyond them then.
    Finish(Arc<File>, Option<MappedFile>, u64),
    Remove(Vec<PathBuf>),
}

/// Prepares segments off the hot path.
#[derive(Debug)]
pub(super) struct Roller {
    jobs: Option<Sender<Job>>,
    spares: Receiver<Result<Spare, Problem>>,
    thread: Option<JoinHandle<()>>,
    /// The answer to the last request: a segment, or why there is none.
    ready: Option<Result<Spare, Problem>>,
    asked: bool,
}

impl Roller {
    pub(super) fn start(folder: PathBuf, options: Options) -> Result<Self, Problem> {
        let (jobs, inbox) = channel();
        let (outbox, spares) = channel();
        let maker = cpu::allowed();
        let work = move || {
            settle(options, &maker);
            for job in inbox {
                match job {
                    Job::Prepare(number) => {
                        if outbox.send(prepare(&folder, number, &options)).is_err() {
                            return;
                        }
                    }
                    // A segment longer than its content is read just as well.
                    Job::Finish(file, mapped, length) => {
                        drop(mapped);
                        drop(file.set_len(length));
                    }
                    // What cannot be removed is removed at the next opening.
                    Job::Remove(paths) => paths.iter().for_each(|path| drop(fs::remove_file(path))),
                }
            }
        };
        let thread = std::thread::Builder::new().name("fix-journal".into()).stack_size(STACK_BYTES).spawn(work);
        let thread = thread.map_err(|error| Problem::failed("cannot start the journal's thread", error))?;
        Ok(Self { jobs: Some(jobs), spares, thread: Some(thread), ready: None, asked: false })
    }

    fn tell(&self, job: Job) {
        if let Some(jobs) = &self.jobs {
            let _ = jobs.send(job);
        }
    }

    /// Asks for segment `number`.
    pub(super) fn ask(&mut self, number: u64) {
        if !self.asked {
            self.asked = true;
            self.ready = None;
            self.tell(Job::Prepare(number));
        }
    }

    /// Why the segment that was asked for could not be prepared, if that is known by now.
    pub(super) fn failure(&mut self) -> Option<&Problem> {
        if self.asked && self.ready.is_none() {
            self.ready = match self.spares.try_recv() {
                Ok(answer) => Some(answer),
                Err(TryRecvError::Empty) => None,
                Err(TryRecvError::Disconnected) => Some(Err(gone())),
            };
        }
        self.ready.as_ref().and_then(|ready| ready.as_ref().err())
    }

    /// Whether the segment asked for, or the reason why there is none, is there without waiting.
    pub(super) fn is_ready(&mut self) -> bool {
        self.failure().is_some() || self.ready.is_some()
    }

    /// Asks again after a failure; the answer comes later.
    pub(super) fn ask_again(&mut self, number: u64) {
        if self.failure().is_some() {
            self.asked = false;
            self.ask(number);
        }
    }

    /// The segment asked for. Waits while it is still being made.
    pub(super) fn take(&mut self) -> Result<Spare, Problem> {
        self.asked = false;
        match self.ready.take() {
            Some(answer) => answer,
            None => self.spares.recv_timeout(PREPARE_MAX).unwrap_or_else(|_| Err(gone())),
        }
    }

    pub(super) fn finish(&self, file: Arc<File>, mapped: Option<MappedFile>, length: u64) {
        self.tell(Job::Finish(file, mapped, length));
    }

    pub(super) fn remove(&self, paths: Vec<PathBuf>) {
        self.tell(Job::Remove(paths));
    }
}

impl Drop for Roller {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn gone() -> Problem {
    Problem::failed("cannot prepare a journal segment", "it took too long, or the thread that does it has ended")
        .next("check the disk, then start the session again")
}

/// Puts a thread beside the writer where it is wanted, or out of the way.
fn settle(options: Options, maker: &[u32]) {
    match options.helper_cpu {
        // One that there is not was refused when the journal was opened.
        Some(one) => drop(cpu::restrict(&[one])),
        None => drop(cpu::step_aside(maker)),
    }
}

/// The name of a segment's file.
pub(super) fn segment_path(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number:016x}.journal"))
}

/// Makes a segment with all its blocks and pages; what is written to it later cannot fail for want of space.
pub(super) fn prepare(folder: &Path, number: u64, options: &Options) -> Result<Spare, Problem> {
    let (path, bytes) = (segment_path(folder, number), options.segment_bytes);
    let made = preallocated(&path, bytes, options.durability == Durability::Disk).and_then(|file| {
        let mapped = if options.wants_mapping() { MappedFile::map(&file, bytes as usize)? } else { None };
        Ok((file, mapped))
    });
    match made {
        Ok((file, mapped)) => {
            let mut positions = vec![1; (bytes as usize - HEADER_BYTES) / MESSAGE_BYTES];
            positions.clear();
            Ok(Spare { number, file: Arc::new(file), mapped, positions })
        }
        Err(error) => {
            // Half a segment would only take up what little space there is.
            let _ = fs::remove_file(&path);
            let problem = Problem::failed(format!("cannot prepare the journal segment {}", path.display()), error);
            Err(problem.next("free space on that disk, or make it writable"))
        }
    }
}

fn preallocated(path: &Path, bytes: u64, durable: bool) -> io::Result<File> {
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(FILE_MODE).open(path)?;
    match fallocate(&file, FallocateFlags::empty(), 0, bytes) {
        // Some file systems cannot; the zeroes below take the space just as well.
        Ok(()) | Err(rustix::io::Errno::OPNOTSUPP) => {}
        Err(error) => return Err(error.into()),
    }
    // Written blocks need no change of metadata at the first sync, and their pages are in memory.
    let zeroes = vec![0; CHUNK];
    let mut at = 0;
    while at < bytes {
        let count = CHUNK.min((bytes - at) as usize);
        file.write_all_at(&zeroes[..count], at)?;
        at += count as u64;
    }
    if durable {
        file.sync_all()?;
        sync_folder(path)?;
    }
    Ok(file)
}

fn sync_folder(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

/// Waits for the disk, so that the writer need not.
#[derive(Debug)]
pub(super) struct Syncer {
    jobs: Option<Sender<(Arc<File>, u64)>>,
    state: Arc<Synced>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Synced {
    ticket: AtomicU64,
    failed: AtomicBool,
}

impl Syncer {
    pub(super) fn start(options: Options) -> Result<Self, Problem> {
        let (jobs, inbox) = channel::<(Arc<File>, u64)>();
        let maker = cpu::allowed();
        let state = Arc::new(Synced::default());
        let shared = Arc::clone(&state);
        let work = move || {
            settle(options, &maker);
            while let Ok((mut file, mut ticket)) = inbox.recv() {
                // Whatever else has been written to the same file by now is synced by the same call.
                while let Ok((next, later)) = inbox.try_recv() {
                    if !Arc::ptr_eq(&next, &file) && file.sync_data().is_err() {
                        return shared.failed.store(true, Ordering::Release);
                    }
                    (file, ticket) = (next, later);
                }
                if file.sync_data().is_err() {
                    // After a failed sync nobody knows what the disk has: never say durable again.
                    return shared.failed.store(true, Ordering::Release);
                }
                shared.ticket.store(ticket, Ordering::Release);
            }
        };
        let thread = std::thread::Builder::new().name("fix-sync".into()).stack_size(STACK_BYTES).spawn(work);
        let thread = thread.map_err(|error| Problem::failed("cannot start the journal's sync thread", error))?;
        Ok(Self { jobs: Some(jobs), state, thread: Some(thread) })
    }

    /// Has everything written to `file` so far synced; it is when [`Syncer::synced`] has reached `ticket`.
    pub(super) fn ask(&self, file: &Arc<File>, ticket: u64) {
        if let Some(jobs) = &self.jobs {
            let _ = jobs.send((Arc::clone(file), ticket));
        }
    }

    /// The last ticket whose bytes are on the disk.
    pub(super) fn synced(&self) -> Result<u64, Problem> {
        if self.state.failed.load(Ordering::Acquire) {
            return Err(Problem::failed("cannot write the journal to the disk", "fdatasync failed")
                .next("check the disk (dmesg); what was not synced is not acknowledged"));
        }
        Ok(self.state.ticket.load(Ordering::Acquire))
    }
}

impl Drop for Syncer {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
