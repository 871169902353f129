//! Reading segments without holding the journal, for people: what one says, record by record.

use super::SEGMENT_BYTES_MAX;
use super::format::{HEADER_BYTES, Header, Kind, NoHeader, Record, VERSION, record_bytes};
use sidestep_sys::Problem;
use std::path::Path;

/// The next step after damage.
pub(super) const WAY_ON: &str = "restore it from a copy, or go on without what is lost: --accept-loss, or JournalAcceptLoss=Y \
                                 in the settings";

/// One record of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Its kind.
    pub kind: Kind,
    /// See [`Kind`].
    pub number: u64,
    /// A message as it was sent, or the payload of a reset.
    pub payload: &'a [u8],
}

/// The facts of a segment, besides its records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The session's name.
    pub session: String,
    /// The bytes after the last intact record that are not zeroes, up to the last: a torn write, or damage.
    pub rest_bytes: u64,
}

/// Shows every intact record of a segment in order; ends at the first that is not intact.
///
/// # Errors
/// The file cannot be read, or is not a segment of a journal of a version that is known.
pub fn read_segment(path: &Path, visit: &mut dyn FnMut(Entry<'_>)) -> Result<Segment, Problem> {
    let bytes = read(path)?;
    let header = Header::decode(&bytes).map_err(|why| refusal(path, why))?;
    let end = walk(&bytes, header.salt, |record, _| {
        visit(Entry { kind: record.kind, number: record.number, payload: record.payload });
    });
    Ok(Segment { session: header.session, rest_bytes: not_zero(&bytes[end..]) })
}

/// Bytes up to the last that is not zero.
pub(super) fn not_zero(bytes: &[u8]) -> u64 {
    bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last as u64 + 1)
}

pub(super) fn read(path: &Path) -> Result<Vec<u8>, Problem> {
    let fail = |why: &dyn std::fmt::Display| Problem::failed(format!("cannot read {}", path.display()), why);
    sidestep_sys::file::read(path, SEGMENT_BYTES_MAX).map_err(|error| fail(&error))
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
        NoHeader::Unused => Problem::failed(what, "it is empty").next(WAY_ON),
        NoHeader::Foreign => Problem::failed(what, "it is not a journal of sidestep")
            .next("give each session a folder of its own, without other files that end in .journal"),
        NoHeader::Version(version) => {
            Problem::failed(what, format!("it is of version {version}, this program reads 1 to {VERSION}"))
                .next("use the program that wrote it")
        }
        NoHeader::Damaged => Problem::failed(what, "its header is damaged").next(WAY_ON),
    }
}
