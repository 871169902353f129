//! Reading segments without holding the journal, for people: what one says, record by record.

use super::SEGMENT_BYTES_MAX;
use super::format::{HEADER_BYTES, Header, Kind, NoHeader, Record, record_bytes};
use sidestep_sys::Problem;
use std::path::Path;

/// One record of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// What it says.
    pub kind: Kind,
    /// See [`Kind`].
    pub number: u64,
    /// A message as it was sent, or the payload of a reset.
    pub payload: &'a [u8],
}

/// Shows every intact record of a segment in order and gives the session's name; ends at the first that is not intact.
///
/// # Errors
/// The file cannot be read, or is not a segment of a journal of this version.
pub fn read_segment(path: &Path, visit: &mut dyn FnMut(Entry<'_>)) -> Result<String, Problem> {
    let bytes = read(path)?;
    let header = Header::decode(&bytes).map_err(|why| refusal(path, why))?;
    walk(&bytes, header.salt, |record, _| {
        visit(Entry { kind: record.kind, number: record.number, payload: record.payload });
    });
    Ok(header.session)
}

pub(super) fn read(path: &Path) -> Result<Vec<u8>, Problem> {
    let fail = |why: &dyn std::fmt::Display| Problem::failed(format!("cannot read {}", path.display()), why);
    let facts = std::fs::metadata(path).map_err(|error| fail(&error))?;
    if facts.len() > SEGMENT_BYTES_MAX {
        return Err(fail(&"it is larger than any segment of a journal"));
    }
    std::fs::read(path).map_err(|error| fail(&error))
}

/// Shows every intact record and its position; gives the position of what follows the last.
pub(super) fn walk<'a>(bytes: &'a [u8], salt: u32, mut visit: impl FnMut(Record<'a>, usize)) -> usize {
    let mut at = HEADER_BYTES;
    while let Some(record) = bytes.get(at..).and_then(|rest| Record::decode(rest, salt)) {
        visit(record, at);
        at += record_bytes(record.payload.len());
    }
    at.min(bytes.len())
}

pub(super) fn refusal(path: &Path, why: NoHeader) -> Problem {
    let what = format!("cannot use the journal {}", path.display());
    match why {
        NoHeader::Unused => Problem::failed(what, "it is empty"),
        NoHeader::Foreign => Problem::failed(what, "it is not a journal of sidestep")
            .next("give each session a folder of its own, without other files that end in .journal"),
        NoHeader::Version(version) => {
            Problem::failed(what, format!("it is of version {version}, this program reads 1"))
                .next("use the program that wrote it")
        }
        NoHeader::Damaged => Problem::failed(what, "its header is damaged")
            .next("restore it, or move the folder away and agree on new sequence numbers with the counterparty"),
    }
}
