//! Reading the segments back: which there must be, where each must end, and what a crash may have taken.
//!
//! A process that is killed leaves what it has written (the page cache is the kernel's), but for the write it was in the middle of.
//! A power cut may take any page that was not synced, and any file whose name was not. What neither can do is damage, and is
//! refused. The identity of the boot that the manifest was written in decides between the two.

use super::disk::unusable;
use super::format::{Header, Kind, NoHeader, Record, claimed_bytes, claims_to_vouch, marked, u64_at};
use super::helper::segment_path;
use super::index::Index;
use super::manifest::{self, Boot, Facts, Manifest, NoManifest};
use super::reader::{WAY_ON, not_zero, read, refusal, walk};
use super::recovery::Recovery;
use sidestep_sys::Problem;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Bytes that are checked in search of a record behind a damaged one: this, and so many times the bytes there are.
pub(super) const SEARCH_BYTES: usize = 1 << 20;
pub(super) const SEARCH_FACTOR: usize = 4;

/// The reason why a journal is not opened.
#[derive(Debug)]
pub(super) enum Refused {
    /// Something is gone or changed that no crash takes or changes; it can be accepted.
    Damaged(Problem),
    /// Anything else.
    Other(Problem),
}

impl From<Problem> for Refused {
    fn from(problem: Problem) -> Self {
        Self::Other(problem)
    }
}

/// A file of the folder that is called a segment.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) number: u64,
    pub(super) path: PathBuf,
    pub(super) header: Result<Header, NoHeader>,
}

/// The content of the segments, added up.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) generation: u64,
    pub(super) created_ns: i64,
    pub(super) next_outbound: u64,
    pub(super) next_inbound: u64,
    pub(super) index: Index,
    pub(super) recovery: Recovery,
    /// First and last segment that were read, and the bytes of the last.
    pub(super) oldest: u64,
    pub(super) newest: Option<(u64, u64)>,
    /// Files of no use any more: prepared ones, superfluous ones, and what a power cut has cut off.
    pub(super) dropped: Vec<PathBuf>,
    /// There is none before the first opening, and in a folder of the first layout.
    pub(super) manifest: Option<(Manifest, Facts)>,
    /// True if the manifest's statement about this boot holds.
    pub(super) is_exact: bool,
}

/// The expected content.
#[derive(Debug, Default)]
struct Claims {
    from: Option<u64>,
    /// Every segment up to this one; the last one's end is known by `synced` or its mark.
    to: Option<u64>,
    synced: Option<(u64, u64)>,
    /// Written in this boot: nothing that was written can be missing.
    exact: bool,
    /// A folder of the first layout, which has no manifest.
    legacy: bool,
}

pub(super) fn damaged(path: &Path, why: impl std::fmt::Display) -> Refused {
    Refused::Damaged(Problem::failed(format!("cannot use the journal {}", path.display()), why).next(WAY_ON))
}

/// Reads everything; `signed` says whether the lock names a manifest.
pub(super) fn read_back(folder: &Path, session: &str, boot: &Boot, signed: bool) -> Result<State, Refused> {
    let found = segments(folder)?;
    let mut state = State::default();
    let claims = match Manifest::open(folder) {
        Ok((manifest, facts)) => {
            let claims = claims(&facts, boot);
            if facts.session != session {
                return Err(Refused::Other(another_session(&manifest::path(folder), &facts.session, session)));
            }
            state.is_exact = claims.exact;
            state.manifest = Some((manifest, facts));
            claims
        }
        Err(why) => without_manifest(folder, &why, &found, signed)?,
    };
    let first = found.iter().find(|file| file.header.is_ok()).map(|file| file.number);
    let Some(start) = claims.from.or(first) else {
        return state.drop_rest(&found, &claims, None, boot);
    };
    let mut number = start;
    while let Some((path, header)) = segment(folder, &found, number, &claims)? {
        check_header(path, header, number, session)?;
        if number == start {
            state.oldest = number;
            (state.generation, state.created_ns) = (header.generation, header.created_ns as i64);
            (state.next_outbound, state.next_inbound) = (header.next_outbound, header.next_inbound);
        }
        let next = found.iter().find(|file| file.number == number + 1).and_then(|file| file.header.as_ref().ok());
        if !state.read(path, header, next, &claims)? {
            break;
        }
        number += 1;
    }
    state.drop_rest(&found, &claims, Some(start), boot)
}

/// The segment of this number. `None` where the chain may end before it.
fn segment<'a>(
    folder: &Path,
    found: &'a [Found],
    number: u64,
    claims: &Claims,
) -> Result<Option<(&'a Path, &'a Header)>, Refused> {
    let is_needed = claims.to.is_some_and(|to| number <= to);
    match found.iter().find(|file| file.number == number) {
        Some(Found { path, header: Ok(header), .. }) => Ok(Some((path, header))),
        Some(Found { path, header: Err(NoHeader::Foreign), .. }) if is_needed => {
            Err(damaged(path, "it is not a journal of sidestep"))
        }
        Some(Found { path, header: Err(why), .. }) if is_needed => Err(Refused::Damaged(refusal(path, *why))),
        None if is_needed => Err(damaged(&segment_path(folder, number), "it is missing")),
        _ => Ok(None),
    }
}

fn claims(facts: &Facts, boot: &Boot) -> Claims {
    let exact = facts.newest.is_some() && facts.boot == *boot && *boot != Boot::default();
    let synced = facts.synced;
    let to = if exact { facts.newest } else { synced.map(|(segment, _)| segment) };
    Claims { from: facts.oldest, to, synced, exact, legacy: false }
}

fn without_manifest(folder: &Path, why: &NoManifest, found: &[Found], signed: bool) -> Result<Claims, Refused> {
    let path = manifest::path(folder);
    match why {
        NoManifest::Missing => {}
        NoManifest::Damaged => return Err(damaged(&path, "it is damaged")),
        NoManifest::Version(version) => {
            let why = format!("it is of version {version}, this program reads 1");
            return Err(Problem::failed(format!("cannot use the journal {}", path.display()), why)
                .next("use the program that wrote it")
                .into());
        }
        NoManifest::Unreadable(error) => {
            return Err(Problem::failed(format!("cannot read {}", path.display()), error)
                .next("make it readable and writable for this user")
                .into());
        }
    }
    let versions: Vec<(u64, u32)> =
        found.iter().filter_map(|file| Some((file.number, file.header.as_ref().ok()?.version))).collect();
    if signed || versions.iter().any(|(_, version)| *version > 1) {
        return Err(damaged(&path, "it is missing"));
    }
    let to = versions.last().map(|(number, _)| *number);
    Ok(Claims { from: versions.first().map(|(number, _)| *number), to, legacy: true, ..Claims::default() })
}

/// The segments of a folder by number.
pub(super) fn segments(folder: &Path) -> Result<Vec<Found>, Problem> {
    let entries = fs::read_dir(folder).map_err(|error| unusable(folder, error))?;
    let mut found = Vec::new();
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.extension().is_none_or(|ending| ending != "journal") {
            continue;
        }
        let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
        match u64::from_str_radix(name, 16) {
            Ok(number) if segment_path(folder, number) == path => {
                let header =
                    header(&path).map_err(|error| Problem::failed(format!("cannot read {}", path.display()), error))?;
                found.push(Found { number, path, header });
            }
            _ => return Err(refusal(&path, NoHeader::Foreign)),
        }
    }
    found.sort_unstable_by_key(|file| file.number);
    Ok(found)
}

fn header(path: &Path) -> io::Result<Result<Header, NoHeader>> {
    let mut bytes = Vec::with_capacity(super::format::HEADER_BYTES);
    File::open(path)?.take(super::format::HEADER_BYTES as u64).read_to_end(&mut bytes)?;
    Ok(match Header::decode(&bytes) {
        // Killed between making the file and filling it.
        Err(NoHeader::Foreign) if bytes.iter().all(|byte| *byte == 0) => Err(NoHeader::Unused),
        result => result,
    })
}

fn another_session(path: &Path, found: &str, session: &str) -> Problem {
    let why = format!("it is the journal of {found}, not of {session}");
    Problem::failed(format!("cannot use the journal {}", path.display()), why)
        .next("give each session a folder of its own (FileStorePath, --store-path)")
}

fn check_header(path: &Path, header: &Header, number: u64, session: &str) -> Result<(), Problem> {
    if header.session != session {
        return Err(another_session(path, &header.session, session));
    }
    if header.number != number {
        let what = format!("cannot use the journal {}", path.display());
        return Err(Problem::failed(what, "it was renamed").next("give the file its name back"));
    }
    Ok(())
}

impl State {
    /// Adds one segment; `next` is the header of the segment after it, which says where this one ends. True where the next one
    /// is to be read, too.
    fn read(&mut self, path: &Path, header: &Header, next: Option<&Header>, claims: &Claims) -> Result<bool, Refused> {
        let bytes = read(path)?;
        let number = header.number;
        // Where the next header says; a segment that has been cut shorter is damaged at its end.
        let limit = next.map_or(bytes.len(), |next| usize::try_from(next.previous_bytes).unwrap_or(usize::MAX));
        self.index.begin(number, self.next_outbound, Vec::new());
        let end = walk(&bytes[..limit.min(bytes.len())], header.salt, |record, at| self.apply(number, &record, at));
        let continues = next.is_some() && end == limit;
        let must_continue = claims.to.is_some_and(|to| number < to) || (claims.exact && next.is_some());
        let known_end = known_end(claims, header, &bytes).map_err(|why| damaged(path, why))?;
        // The caller names it.
        let is_next_missing = must_continue && next.is_none();
        let rest = if continues { &[] } else { &bytes[end..] };
        if (must_continue && next.is_some() && !continues) || (end as u64) < known_end || vouched_for(rest, header.salt)
        {
            return Err(damaged(path, format!("it is damaged at byte {end}")));
        }
        self.recovery.torn_bytes += not_zero(rest);
        self.newest = Some((number, end as u64));
        Ok(continues || is_next_missing)
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

    /// Decides about the files that are not in the chain that begins with `start`.
    fn drop_rest(mut self, found: &[Found], claims: &Claims, start: Option<u64>, boot: &Boot) -> Result<Self, Refused> {
        let spare = self.newest.map_or(0, |(number, _)| number + 1);
        for Found { number, path, header } in found {
            let is_behind = *number >= spare;
            if start.is_some_and(|start| start <= *number) && !is_behind {
                continue;
            }
            match header {
                Err(why @ (NoHeader::Foreign | NoHeader::Version(_))) => return Err(refusal(path, *why).into()),
                // Only the one after the last is prepared, and its header may be half there.
                Err(why) if *number != spare && (claims.legacy || (claims.exact && is_behind)) => {
                    return Err(Refused::Damaged(refusal(path, *why)));
                }
                Ok(_) if claims.exact && is_behind => {
                    return Err(damaged(path, "the segment that it follows is missing"));
                }
                Ok(header) if is_behind => {
                    let bytes = read(path)?;
                    let records = bytes.get(super::format::HEADER_BYTES..).unwrap_or_default();
                    if vouched_for(records, header.salt) {
                        return Err(damaged(path, "the disk had it, and had what it follows, which is missing"));
                    }
                    self.recovery.torn_bytes += not_zero(records);
                }
                _ => {}
            }
            self.dropped.push(path.clone());
        }
        if let Some((_, facts)) = &self.manifest {
            self.recovery.restarted = facts.boot != *boot && (facts.synced != self.newest || self.newest.is_none());
        }
        Ok(self)
    }
}

/// Bytes that a segment has at least; the first layout does not say.
fn known_end(claims: &Claims, header: &Header, bytes: &[u8]) -> Result<u64, &'static str> {
    let synced = claims.synced.filter(|(segment, _)| *segment == header.number).map_or(0, |(_, bytes)| bytes);
    if !claims.exact || claims.to.is_none_or(|newest| header.number < newest) {
        return Ok(synced);
    }
    match marked(bytes, header.salt) {
        Some(bytes) => Ok(bytes.max(synced)),
        // Begun, and the manifest does not know it yet.
        None if claims.to.is_some_and(|newest| header.number > newest) => Ok(synced),
        None => Err("its mark is damaged"),
    }
}

/// Returns whether an intact record follows that was written when everything before it was on the disk. Bytes that
/// would take too long to search count as one: the journal is refused, which loses nothing.
fn vouched_for(rest: &[u8], salt: u32) -> bool {
    let mut work = SEARCH_FACTOR * rest.len() + SEARCH_BYTES;
    for bytes in (0..rest.len()).step_by(8).map(|at| &rest[at..]).filter(|bytes| claims_to_vouch(bytes)) {
        if Record::decode(bytes, salt).is_some() {
            return true;
        }
        let hashed = Some(claimed_bytes(bytes)).filter(|claimed| *claimed <= bytes.len()).unwrap_or_default();
        let Some(left) = work.checked_sub(hashed) else { return true };
        work = left;
    }
    false
}
