//! Opening: the lock, the segments in their order, what a crash left behind.

use super::format::{HEADER_BYTES, Header, Kind, NoHeader, Record, claimed_bytes, claims_to_vouch, u64_at};
use super::helper::{FILE_MODE, Roller, Syncer, prepare, segment_path};
use super::index::Index;
use super::reader::{read, refusal, walk};
use super::{Durability, Journal, Options};
use rustix::fs::{FlockOperation, flock};
use sidestep_sys::Problem;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes that a journal's buffer has room for before it grows: a poll's worth of messages.
const BUFFER_BYTES: usize = 64 << 10;
/// Bytes that are checked in search of a record behind a damaged one: this, and so many times the bytes there are.
const SEARCH_BYTES: usize = 1 << 20;
const SEARCH_FACTOR: usize = 4;
/// A journal has orders and passwords: it is for its user alone.
const FOLDER_MODE: u32 = 0o700;

/// What opening has found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Intact records read back.
    pub records: u64,
    /// Bytes of a torn write that were dropped: what was not acknowledged, or what a power cut took from the page cache.
    pub torn_bytes: u64,
}

/// What the segments say, added up.
#[derive(Debug, Default)]
struct State {
    generation: u64,
    created_ns: i64,
    next_outbound: u64,
    next_inbound: u64,
    index: Index,
    recovery: Recovery,
    /// First and last segment with a header, and the bytes of the last.
    oldest: u64,
    newest: Option<(u64, u64)>,
}

pub(super) fn open(
    folder: &Path,
    session: &str,
    options: Options,
    utc_ns: i64,
) -> Result<(Journal, Recovery), Problem> {
    let made = DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder);
    made.map_err(|error| unusable(folder, error))?;
    let lock = lock(folder)?;
    let durable = options.durability == Durability::Disk;
    let mut state = read_back(folder, session)?;
    if state.newest.is_none() {
        (state.next_outbound, state.next_inbound, state.created_ns) = (1, 1, utc_ns);
    }
    let (number, previous_bytes) = next_segment(&state);
    let first = prepare(folder, number, &options)?;
    let mut journal = Journal {
        roller: Roller::start(folder.to_owned(), options)?,
        syncer: if durable { Some(Syncer::start(options)?) } else { None },
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
        oldest: if state.newest.is_some() { state.oldest.min(number) } else { number },
        failure: None,
        rolls_waited: 0,
        scratch: Vec::new(),
        _lock: lock,
    };
    journal.begin(first, previous_bytes);
    journal.commit()?;
    if let Some((newest, bytes)) = state.newest {
        // Its preallocated rest, and what was torn, are of no use; a segment that stays longer is read just as well.
        let file = OpenOptions::new().write(true).open(segment_path(folder, newest));
        let _ = file.and_then(|file| file.set_len(bytes));
    }
    Ok((journal, state.recovery))
}

/// The number of the segment to go on in, and the bytes of the one before. That one is not touched, even where it has no
/// records: until the next one's header is written, its header is the only place that has the numbers.
fn next_segment(state: &State) -> (u64, u64) {
    state.newest.map_or((0, 0), |(number, bytes)| (number + 1, bytes))
}

fn unusable(folder: &Path, error: impl std::fmt::Display) -> Problem {
    Problem::failed(format!("cannot use {} for a journal", folder.display()), error)
        .next("choose a folder that this user may write to (FileStorePath)")
}

/// Two processes that write one journal would hand out the same numbers.
fn lock(folder: &Path) -> Result<File, Problem> {
    let path = folder.join("lock");
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(FILE_MODE);
    let opened = options.open(&path);
    let mut file = opened.map_err(|error| unusable(folder, error))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let mut owner = String::new();
            let _ = Read::by_ref(&mut file).take(16).read_to_string(&mut owner);
            return Err(Problem::failed(
                format!("cannot open the journal in {}", folder.display()),
                format!("process {} has it open", owner.trim()),
            )
            .next("stop that process, or give this session another folder"));
        }
        Err(error) => return Err(unusable(folder, error)),
    }
    // For people only: the lock counts, not the number.
    let _ = file.rewind().and_then(|()| writeln!(file, "{:<10}", std::process::id()));
    Ok(file)
}

/// The segments of a folder by number.
fn segments(folder: &Path) -> Result<Vec<(u64, PathBuf)>, Problem> {
    let entries = fs::read_dir(folder).map_err(|error| unusable(folder, error))?;
    let mut found = Vec::new();
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.extension().is_none_or(|ending| ending != "journal") {
            continue;
        }
        let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
        match u64::from_str_radix(name, 16) {
            Ok(number) if segment_path(folder, number) == path => found.push((number, path)),
            _ => return Err(refusal(&path, NoHeader::Foreign)),
        }
    }
    found.sort_unstable();
    Ok(found)
}

fn read_back(folder: &Path, session: &str) -> Result<State, Problem> {
    let mut used = Vec::new();
    for (number, path) in segments(folder)? {
        match header(&path)? {
            Some(header) => used.push((number, path, header)),
            // Prepared and never used; it is made again.
            None => drop(fs::remove_file(&path)),
        }
    }
    let mut state = State::default();
    for (at, (number, path, header)) in used.iter().enumerate() {
        check_header(path, header, *number, session)?;
        let next = used.get(at + 1).map(|(_, _, next)| next);
        if next.is_some_and(|next| next.number != number + 1) {
            let why = "the segment that follows it is missing";
            return Err(Problem::failed(format!("cannot use the journal {}", path.display()), why)
                .next("restore it, or move the folder away and agree on new sequence numbers with the counterparty"));
        }
        if at == 0 {
            state.oldest = *number;
            (state.generation, state.created_ns) = (header.generation, header.created_ns as i64);
            (state.next_outbound, state.next_inbound) = (header.next_outbound, header.next_inbound);
        }
        state.read(path, header, next)?;
    }
    Ok(state)
}

fn header(path: &Path) -> Result<Option<Header>, Problem> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES);
    let file = File::open(path).and_then(|file| file.take(HEADER_BYTES as u64).read_to_end(&mut bytes));
    file.map_err(|error| Problem::failed(format!("cannot read {}", path.display()), error))?;
    match Header::decode(&bytes) {
        Ok(header) => Ok(Some(header)),
        Err(NoHeader::Unused) => Ok(None),
        // Killed between making the file and filling it.
        Err(NoHeader::Foreign) if bytes.iter().all(|byte| *byte == 0) => Ok(None),
        Err(why) => Err(refusal(path, why)),
    }
}

fn check_header(path: &Path, header: &Header, number: u64, session: &str) -> Result<(), Problem> {
    let what = || format!("cannot use the journal {}", path.display());
    if header.session != session {
        let why = format!("it is the journal of {}, not of {session}", header.session);
        return Err(Problem::failed(what(), why).next("give each session a folder of its own (FileStorePath)"));
    }
    if header.number != number {
        return Err(Problem::failed(what(), "it was renamed").next("give the file its name back"));
    }
    Ok(())
}

impl State {
    /// Adds one segment; `next` is the header of the segment after it, which says where this one ends.
    fn read(&mut self, path: &Path, header: &Header, next: Option<&Header>) -> Result<(), Problem> {
        let bytes = read(path)?;
        let limit = next.map_or(bytes.len(), |next| usize::try_from(next.previous_bytes).unwrap_or(usize::MAX));
        let bytes = bytes.get(..limit).ok_or_else(|| damaged(path, bytes.len()))?;
        self.index.begin(header.number, self.next_outbound, Vec::new());
        let end = walk(bytes, header.salt, |record, at| self.apply(header.number, &record, at));
        if next.is_some() && end != limit {
            return Err(damaged(path, end));
        }
        let rest = &bytes[end..];
        if next.is_none() && vouched_for(rest, header.salt) {
            return Err(damaged(path, end));
        }
        self.recovery.torn_bytes += torn(rest);
        self.newest = Some((header.number, end as u64));
        Ok(())
    }

    fn apply(&mut self, segment: u64, record: &Record<'_>, at: usize) {
        self.recovery.records += 1;
        match record.kind {
            Kind::Outbound => {
                if record.number < self.next_outbound {
                    self.index.cut(record.number);
                }
                self.index.add(record.number, segment, at as u32);
                self.next_outbound = record.number.saturating_add(1);
            }
            Kind::NextInbound => self.next_inbound = record.number,
            Kind::NextOutbound => {
                self.index.cut(record.number);
                self.next_outbound = record.number;
            }
            Kind::Reset => {
                self.generation = record.number;
                self.created_ns = if record.payload.len() == 8 { u64_at(record.payload, 0) as i64 } else { 0 };
                (self.next_outbound, self.next_inbound) = (1, 1);
                self.index.clear();
            }
        }
    }
}

/// Bytes that are not zeroes behind the last intact record, up to the last one.
fn torn(rest: &[u8]) -> u64 {
    rest.iter().rposition(|byte| *byte != 0).map_or(0, |last| last as u64 + 1)
}

/// Whether an intact record follows that was written when everything before it was on the disk. Bytes that would take too
/// long to search count as one: the journal is refused, which loses nothing.
fn vouched_for(rest: &[u8], salt: u32) -> bool {
    let mut work = SEARCH_FACTOR * rest.len() + SEARCH_BYTES;
    for bytes in (8..rest.len()).step_by(8).map(|at| &rest[at..]).filter(|bytes| claims_to_vouch(bytes)) {
        if Record::decode(bytes, salt).is_some() {
            return true;
        }
        let hashed = Some(claimed_bytes(bytes)).filter(|claimed| *claimed <= bytes.len()).unwrap_or_default();
        let Some(left) = work.checked_sub(hashed) else { return true };
        work = left;
    }
    false
}

fn damaged(path: &Path, at: usize) -> Problem {
    Problem::failed(format!("cannot use the journal {}", path.display()), format!("it is damaged at byte {at}"))
        .next("restore it, or move the folder away and agree on new sequence numbers with the counterparty")
}
