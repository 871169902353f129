//! Accepting a loss: a new journal of everything that is intact in a damaged one, in its place; the damaged one stays aside.
//!
//! What the new one says last is what was written last: numbers do not go back to what stands before the damage if anything
//! behind it is intact. Messages that are lost are answered by gap fills.

use super::chain::{Found, SEARCH_BYTES, SEARCH_FACTOR, segments};
use super::disk::{sync_parents, unusable};
use super::format::{HEADER_BYTES, Header, Kind, Record, claimed_bytes, record_bytes, u64_at};
use super::reader::read;
use super::write::salt;
use super::{Journal, Options};
use crate::store::Store;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use sidestep_sys::Problem;
use std::fs;
use std::path::{Path, PathBuf};

/// Folders of damaged journals that are kept beside one journal.
const DAMAGED_MAX: usize = 1000;

/// Puts a sound journal in the place of the one in `folder`, which the caller has locked; gives the folder that has the
/// damaged one now.
pub(super) fn salvage(folder: &Path, session: &str, options: Options, utc_ns: i64) -> Result<PathBuf, Problem> {
    let found = segments(folder)?;
    let new = beside(folder, "~salvaged");
    if new.exists() {
        // An earlier attempt was interrupted, and perhaps this is what it had exchanged already.
        fs::rename(&new, name_aside(folder)?).map_err(|error| unusable(&new, error))?;
    }
    let known: Vec<&Header> = found.iter().filter_map(|file| file.header.as_ref().ok()).collect();
    let created_ns = known.first().map_or(utc_ns, |header| header.created_ns as i64);
    let options = Options { accept_loss: false, ..options };
    let (mut journal, _) = Journal::open(&new, session, options, created_ns)?;
    for file in &found {
        copy(file, &known, &mut journal)?;
    }
    // Everything of it is on the disk when it is closed.
    drop(journal);
    exchange(folder, &new)
}

/// A name next to the folder that no session's folder has: see `engine::session_folder`.
fn beside(folder: &Path, ending: &str) -> PathBuf {
    let mut name = folder.file_name().unwrap_or_default().to_owned();
    name.push(ending);
    folder.with_file_name(name)
}

fn name_aside(folder: &Path) -> Result<PathBuf, Problem> {
    let mut names = (1..DAMAGED_MAX).map(|number| beside(folder, &format!("~damaged{number}")));
    let free = names.find(|path| !path.exists());
    free.ok_or_else(|| {
        unusable(folder, format!("a journal has at most {DAMAGED_MAX} damaged ones beside it; remove some"))
    })
}

fn exchange(folder: &Path, new: &Path) -> Result<PathBuf, Problem> {
    let aside = name_aside(folder)?;
    // In one step: there is never a moment without a journal, which would begin at 1.
    renameat_with(CWD, folder, CWD, new, RenameFlags::EXCHANGE).map_err(|error| {
        Problem::failed(format!("cannot exchange {} and {}", folder.display(), new.display()), error)
            .next("stop here, move the first away and give the second its name")
    })?;
    fs::rename(new, &aside).map_err(|error| unusable(new, error))?;
    sync_parents(folder, folder.parent()).map_err(|error| unusable(folder, error))?;
    Ok(aside)
}

/// Says again whatever one segment says.
fn copy(file: &Found, known: &[&Header], journal: &mut Journal) -> Result<(), Problem> {
    let Ok(bytes) = read(&file.path) else { return Ok(()) };
    let salts: Vec<u32> = match &file.header {
        Ok(header) => {
            say_header(header, journal)?;
            vec![header.salt]
        }
        // A record is known by its salt, which is made of what other headers say.
        Err(_) => known.iter().map(|header| salt(header.created_ns as i64, file.number)).collect(),
    };
    let mut result = Ok(());
    intact(&bytes, &salts, &mut |record| {
        if result.is_ok() {
            result = say(record, journal).and_then(|()| journal.commit());
        }
    });
    result
}

/// The state at the beginning of a segment, by its header, whatever was lost before it.
fn say_header(header: &Header, journal: &mut Journal) -> Result<(), Problem> {
    if header.generation > journal.generation() {
        journal.reset(header.created_ns as i64)?;
    }
    journal.set_next_outbound(header.next_outbound)?;
    journal.record_inbound(header.next_inbound)
}

fn say(record: &Record<'_>, journal: &mut Journal) -> Result<(), Problem> {
    match record.kind {
        Kind::Outbound => journal.record_outbound(record.number, record.payload),
        Kind::NextInbound => journal.record_inbound(record.number),
        Kind::NextOutbound => journal.set_next_outbound(record.number),
        Kind::Reset if record.payload.len() == 8 => journal.reset(u64_at(record.payload, 0) as i64),
        Kind::Reset => Ok(()),
    }
}

/// Passes every intact record of a segment, those after damage, too. The search for them is bounded.
fn intact(bytes: &[u8], salts: &[u32], visit: &mut dyn FnMut(&Record<'_>)) {
    let mut work = SEARCH_FACTOR * bytes.len() + SEARCH_BYTES;
    let mut at = HEADER_BYTES;
    while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
        if let Some(record) = salts.iter().find_map(|salt| Record::decode(rest, *salt)) {
            visit(&record);
            at += record_bytes(record.payload.len());
            continue;
        }
        at += 8;
        let claimed = if rest.len() < 8 { 0 } else { claimed_bytes(rest) };
        let hashed = if claimed <= rest.len() && Kind::is_code(rest) { salts.len() * claimed } else { 0 };
        let Some(left) = work.checked_sub(hashed) else { return };
        work = left;
    }
}
