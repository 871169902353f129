//! The threads beside a journal: one prepares segments and removes old ones, one waits for the disk.

use super::format::HEADER_BYTES;
use super::manifest::Manifest;
use super::{Durability, Options, disk};
use sidestep_sys::mapped::MappedFile;
use sidestep_sys::{Problem, cpu};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Zeroes written at a time while a segment is prepared.
const CHUNK: usize = 256 << 10;
/// The shortest message that the index makes room for beforehand, bytes with its record: a heartbeat has some 64.
const MESSAGE_BYTES: usize = 80;
/// Stack of either thread, bytes: they call the kernel and nothing else.
const STACK_BYTES: usize = 128 << 10;
/// The longest wait of a writer for a segment that is being prepared.
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

/// A segment and what it has.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) number: u64,
    pub(super) file: Arc<File>,
    pub(super) bytes: u64,
}

enum Job {
    Prepare(u64),
    /// Syncs segments of an earlier process; the last has so many bytes.
    SyncOlder(Vec<PathBuf>, u64, u64),
    /// Cut a finished segment to the bytes it has; nothing may be mapped beyond them then.
    Finish(Written, Option<MappedFile>),
    /// Remove segments below this number, once the disk has what made them superfluous.
    Retire(Written, u64, Vec<PathBuf>),
    /// Remove a segment that was never begun.
    Discard(PathBuf),
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
    pub(super) fn start(folder: PathBuf, options: Options, manifest: Arc<Manifest>) -> Result<Self, Problem> {
        let (jobs, inbox) = channel();
        let (outbox, spares) = channel();
        let maker = cpu::allowed();
        let work = move || {
            settle(options, &maker);
            let mut manifest_writer =
                ManifestWriter { manifest, folder, syncs: options.durability == Durability::PageCache, failed: false };
            for job in inbox {
                match job {
                    Job::Prepare(number) => {
                        if outbox.send(prepare(&manifest_writer.folder, number, &options)).is_err() {
                            return;
                        }
                    }
                    Job::SyncOlder(paths, newest, bytes) => manifest_writer.sync_older(&paths, newest, bytes),
                    Job::Finish(written, mapped) => {
                        drop(mapped);
                        // A segment longer than its content is read just as well.
                        drop(disk::set_len(&written.file, written.bytes));
                        manifest_writer.sync(&written);
                    }
                    Job::Retire(written, oldest, paths) => manifest_writer.retire(&written, oldest, &paths),
                    Job::Discard(path) => drop(disk::remove(&path)),
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

    /// The reason why the requested segment could not be prepared, if known by now.
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

    /// Returns whether the requested segment, or the reason why there is none, is available without waiting.
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

    pub(super) fn sync_older(&self, paths: Vec<PathBuf>, newest: u64, bytes: u64) {
        self.tell(Job::SyncOlder(paths, newest, bytes));
    }

    pub(super) fn finish(&self, written: Written, mapped: Option<MappedFile>) {
        self.tell(Job::Finish(written, mapped));
    }

    pub(super) fn retire(&self, written: Written, oldest: u64, paths: Vec<PathBuf>) {
        self.tell(Job::Retire(written, oldest, paths));
    }

    pub(super) fn discard(&self, path: PathBuf) {
        self.tell(Job::Discard(path));
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

/// Records in the manifest which segments are on the disk, in their order. With group commit the [`Syncer`] does that.
struct ManifestWriter {
    manifest: Arc<Manifest>,
    folder: PathBuf,
    syncs: bool,
    /// True after a failed sync: the content of the disk is unknown from then on.
    failed: bool,
}

impl ManifestWriter {
    fn sync_older(&mut self, paths: &[PathBuf], newest: u64, bytes: u64) {
        let synced = sync_all(&self.folder, paths).is_ok() && self.say(newest, bytes).is_ok();
        self.failed |= !synced;
    }

    /// Every segment before this one was synced earlier, by this thread.
    fn sync(&mut self, written: &Written) {
        if !self.syncs || self.failed {
            return;
        }
        let synced = disk::sync(&written.file).and_then(|()| disk::sync_folder(&self.folder)).is_ok()
            && self.say(written.number, written.bytes).is_ok();
        self.failed = !synced;
    }

    fn say(&self, segment: u64, bytes: u64) -> Result<(), Problem> {
        self.manifest.set_synced(segment, bytes)?;
        self.manifest.sync()
    }

    /// Removes old segments; one that cannot be removed now is removed at the next opening.
    fn retire(&mut self, written: &Written, oldest: u64, paths: &[PathBuf]) {
        self.sync(written);
        if !self.failed && self.manifest.set_oldest(oldest).and_then(|()| self.manifest.sync()).is_ok() {
            paths.iter().for_each(|path| drop(disk::remove(path)));
        }
    }
}

/// Has the disk have all of these, and their names.
pub(super) fn sync_all(folder: &Path, paths: &[PathBuf]) -> io::Result<()> {
    for path in paths {
        disk::sync(&File::open(path)?)?;
    }
    disk::sync_folder(folder)
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
        None => drop(cpu::move_to_helper_cpus(maker)),
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
            let _ = disk::remove(&path);
            let problem = Problem::failed(format!("cannot prepare the journal segment {}", path.display()), error);
            Err(problem.next("free space on that disk, or make it writable"))
        }
    }
}

fn preallocated(path: &Path, bytes: u64, durable: bool) -> io::Result<File> {
    let file = disk::create(path)?;
    disk::allocate(&file, bytes)?;
    // Written blocks need no change of metadata at the first sync, and their pages are in memory.
    let zeroes = vec![0; CHUNK];
    let mut at = 0;
    while at < bytes {
        let count = CHUNK.min((bytes - at) as usize);
        disk::write_at(&file, &zeroes[..count], at)?;
        at += count as u64;
    }
    if durable {
        disk::sync(&file)?;
        path.parent().map_or(Ok(()), disk::sync_folder)?;
    }
    Ok(file)
}

/// Waits for the disk, so that the writer need not.
#[derive(Debug)]
pub(super) struct Syncer {
    jobs: Option<Sender<(Written, u64)>>,
    state: Arc<Synced>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Synced {
    ticket: AtomicU64,
    failed: AtomicBool,
}

impl Syncer {
    pub(super) fn start(options: Options, manifest: Arc<Manifest>) -> Result<Self, Problem> {
        let (jobs, inbox) = channel::<(Written, u64)>();
        let maker = cpu::allowed();
        let state = Arc::new(Synced::default());
        let shared = Arc::clone(&state);
        let work = move || {
            settle(options, &maker);
            let mut last = None;
            while let Ok((mut written, mut ticket)) = inbox.recv() {
                // Whatever else has been written to the same file by now is synced by the same call.
                while let Ok((next, later)) = inbox.try_recv() {
                    if next.number != written.number && disk::sync(&written.file).is_err() {
                        return shared.failed.store(true, Ordering::Release);
                    }
                    (written, ticket) = (next, later);
                }
                if acknowledge(&written, &manifest, &mut last).is_err() {
                    // After a failed sync the state of the disk is unknown: never report durable again.
                    return shared.failed.store(true, Ordering::Release);
                }
                shared.ticket.store(ticket, Ordering::Release);
            }
        };
        let thread = std::thread::Builder::new().name("fix-sync".into()).stack_size(STACK_BYTES).spawn(work);
        let thread = thread.map_err(|error| Problem::failed("cannot start the journal's sync thread", error))?;
        Ok(Self { jobs: Some(jobs), state, thread: Some(thread) })
    }

    /// Has everything written so far synced; it is when [`Syncer::synced`] has reached `ticket`.
    pub(super) fn ask(&self, written: Written, ticket: u64) {
        if let Some(jobs) = &self.jobs {
            let _ = jobs.send((written, ticket));
        }
    }

    /// Waits until everything asked for is done; gives the last ticket whose bytes are on the disk.
    pub(super) fn finish(mut self) -> Result<u64, Problem> {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.synced()
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

/// Syncs a segment and says so in the manifest; the disk learns of a segment before anything in it counts as kept.
fn acknowledge(written: &Written, manifest: &Manifest, last: &mut Option<u64>) -> Result<(), Problem> {
    disk::sync(&written.file).map_err(|error| Problem::failed("cannot write the journal to the disk", error))?;
    manifest.set_synced(written.number, written.bytes)?;
    if last.replace(written.number) != Some(written.number) {
        manifest.sync()?;
    }
    Ok(())
}

impl Drop for Syncer {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
