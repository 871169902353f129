//! Opening: the lock, what there was, and the segment to go on in.

use super::chain::{Refused, State, read_back};
use super::disk::{FILE_MODE, sync_parents, unusable};
use super::helper::{Roller, Syncer, prepare, segment_path, sync_all};
use super::manifest::{Boot, Facts, Manifest, this_boot};
use super::recovery::Recovery;
use super::{Durability, Journal, Options, disk, salvage};
use rustix::fs::{FlockOperation, flock};
use sidestep_sys::Problem;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes that a journal's buffer has room for before it grows: a poll's worth of messages.
const BUFFER_BYTES: usize = 64 << 10;
/// A journal has orders and passwords: it is for its user alone.
const FOLDER_MODE: u32 = 0o700;
/// The word in the lock file once there is a manifest, behind the number of the process.
const SIGNED: &str = "journal";

pub(super) fn open(
    folder: &Path,
    session: &str,
    options: Options,
    utc_ns: i64,
) -> Result<(Journal, Recovery), Problem> {
    open_in(folder, session, options, utc_ns, &this_boot())
}

/// The same in a boot of this identity.
pub(super) fn open_in(
    folder: &Path,
    session: &str,
    options: Options,
    utc_ns: i64,
    boot: &Boot,
) -> Result<(Journal, Recovery), Problem> {
    let known = folder.ancestors().skip(1).find(|path| path.exists()).map(Path::to_owned);
    let made = DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder);
    made.map_err(|error| unusable(folder, error))?;
    let (lock, signed) = lock(folder)?;
    let state = read_back(folder, session, boot, signed);
    if state.as_ref().is_ok_and(|state| state.manifest.is_none()) {
        // What is kept in a folder is kept as long as the folder.
        sync_parents(folder, known.as_deref()).map_err(|error| unusable(folder, error))?;
    }
    match state {
        Ok(state) => begin(folder, session, options, utc_ns, boot, state, lock),
        Err(Refused::Damaged(_)) if options.accept_loss => {
            let aside = salvage::salvage(folder, session, options, utc_ns)?;
            drop(lock);
            let options = Options { accept_loss: false, ..options };
            let (journal, recovery) = open_in(folder, session, options, utc_ns, boot)?;
            Ok((journal, Recovery { damaged: Some(aside), ..recovery }))
        }
        Err(Refused::Damaged(problem) | Refused::Other(problem)) => Err(problem),
    }
}

/// Goes on behind what was read. Nothing of it is changed before the new segment has its header.
fn begin(
    folder: &Path,
    session: &str,
    options: Options,
    utc_ns: i64,
    boot: &Boot,
    mut state: State,
    mut lock: File,
) -> Result<(Journal, Recovery), Problem> {
    if state.newest.is_none() {
        (state.next_outbound, state.next_inbound, state.created_ns) = (1, 1, utc_ns);
    }
    let (number, previous_bytes) = next_segment(&state);
    let oldest = if state.newest.is_some() { state.oldest.min(number) } else { number };
    let (manifest, facts) = match state.manifest.take() {
        Some((manifest, facts)) => (manifest, facts),
        None => {
            let made = Manifest::create(folder, session, boot, oldest).map_err(|error| unusable(folder, error))?;
            (made, Facts { boot: *boot, oldest: Some(oldest), ..Facts::default() })
        }
    };
    sign(&mut lock);
    let manifest = Arc::new(manifest);
    if !state.is_exact && facts.newest.is_some() {
        // It may be among those that are dropped now.
        manifest.clear_newest()?;
    }
    for path in &state.dropped {
        disk::remove(path).map_err(|error| unusable(folder, error))?;
    }
    let durable = options.durability == Durability::Disk;
    let older: Vec<PathBuf> = match state.newest {
        Some((newest, _)) => (state.oldest..=newest).map(|number| segment_path(folder, number)).collect(),
        None => Vec::new(),
    };
    if durable {
        // What is acknowledged from now on must not come to stand behind a gap.
        sync_all(folder, &older).map_err(|error| unusable(folder, error))?;
    }
    let first = prepare(folder, number, &options)?;
    let roller = Roller::start(folder.to_owned(), options, Arc::clone(&manifest))?;
    if let Some((newest, bytes)) = state.newest.filter(|_| !durable) {
        roller.sync_older(older, newest, bytes);
    }
    let mut journal = Journal {
        syncer: if durable { Some(Syncer::start(options, Arc::clone(&manifest))?) } else { None },
        roller,
        folder: folder.to_owned(),
        session: session.to_owned(),
        options,
        generation: state.generation,
        created_ns: state.created_ns,
        next_outbound: state.next_outbound,
        next_inbound: state.next_inbound,
        index: state.index,
        segment: number,
        file: Arc::clone(&first.file),
        mapped: None,
        salt: 0,
        written: 0,
        buffer: Vec::with_capacity(BUFFER_BYTES),
        dirty: false,
        ticket: 0,
        superfluous: None,
        oldest,
        failure: None,
        rolls_waited: 0,
        scratch: Vec::new(),
        manifest,
        _lock: lock,
    };
    if facts.oldest != Some(oldest) {
        journal.manifest.set_oldest(oldest)?;
    }
    journal.begin(first, previous_bytes)?;
    if facts.boot != *boot {
        journal.manifest.set_boot(boot, session)?;
    }
    journal.commit()?;
    if let Some((newest, bytes)) = state.newest {
        // Its preallocated rest, and what was torn, are of no use; a segment that stays longer is read just as well.
        let file = OpenOptions::new().write(true).open(segment_path(folder, newest));
        let _ = file.and_then(|file| disk::set_len(&file, bytes));
    }
    Ok((journal, state.recovery))
}

/// The number of the segment to go on in, and the bytes of the one before. That one is not touched, even where it has no
/// records: until the next one's header is written, its header is the only place that has the numbers.
fn next_segment(state: &State) -> (u64, u64) {
    state.newest.map_or((0, 0), |(number, bytes)| (number + 1, bytes))
}

/// Two processes that write one journal would hand out the same numbers. Says whether a manifest was made here before.
fn lock(folder: &Path) -> Result<(File, bool), Problem> {
    let path = folder.join("lock");
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(FILE_MODE);
    let opened = options.open(&path);
    let mut file = opened.map_err(|error| unusable(folder, error))?;
    let locked = flock(&file, FlockOperation::NonBlockingLockExclusive);
    let mut said = String::new();
    let _ = Read::by_ref(&mut file).take(64).read_to_string(&mut said);
    let mut words = said.split_whitespace();
    let owner = words.next().unwrap_or_default();
    match locked {
        Ok(()) => Ok((file, words.any(|word| word == SIGNED))),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(Problem::failed(
            format!("cannot open the journal in {}", folder.display()),
            format!("process {owner} has it open"),
        )
        .next("stop that process, or give this session another folder")),
        Err(error) => Err(unusable(folder, error)),
    }
}

/// The number is for people only: the lock decides. The word says that there is a manifest.
fn sign(lock: &mut File) {
    let _ = lock.rewind().and_then(|()| writeln!(lock, "{:<10} {SIGNED}", std::process::id()));
}
