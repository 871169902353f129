//! The segments that a journal is known to have: a segment that was removed or emptied is noticed.
//!
//! ```text
//! manifest (4096 bytes), all numbers little-endian; a slot is two numbers and the CRC-32 of both, begun with its position
//!      0  8  magic "SIDEFIXM"     12  16  identity of the boot that the journal was last opened in
//!      8  4  version (1)          28   2  length of the session's name
//!     30  .. the name, zeroes up to 508, CRC-32 of bytes 0..508
//!    512  24 slot: the oldest segment that is needed, 0
//!   1024  24 slot: the newest segment that was begun, 0
//!   1536  24 slot: the disk has every needed segment up to this one, and of this one so many bytes
//! ```
//!
//! Each part is one sector: a disk writes it whole or not at all, and so does the kernel, whenever the process is killed.
//! "Newest" holds as long as the machine runs: after a power cut the bytes that a process wrote may be missing. "Synced" is
//! written once the disk has what it says, so it always holds.

use super::disk;
use super::format::{NAME_MAX, u64_at};
use sidestep_sys::Problem;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

const MAGIC: [u8; 8] = *b"SIDEFIXM";
const VERSION: u32 = 1;
const BYTES: usize = 4096;
const SECTOR: usize = 512;
const OLDEST_AT: usize = 512;
const NEWEST_AT: usize = 1024;
const SYNCED_AT: usize = 1536;
const SLOT_BYTES: usize = 20;

/// The identity of a boot of this machine; zeroes where the kernel gives none, which equal no boot.
pub(super) type Boot = [u8; 16];

/// The content of a manifest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) boot: Boot,
    pub(super) session: String,
    pub(super) oldest: Option<u64>,
    pub(super) newest: Option<u64>,
    pub(super) synced: Option<(u64, u64)>,
}

/// The reason why a manifest is of no use.
#[derive(Debug)]
pub(super) enum NoManifest {
    /// There is none.
    Missing,
    /// Another version of the layout.
    Version(u32),
    /// Damaged.
    Damaged,
    /// The system does not give it.
    Unreadable(io::Error),
}

/// The manifest of a journal that is open.
#[derive(Debug)]
pub(super) struct Manifest {
    file: File,
    path: PathBuf,
}

pub(super) fn path(folder: &Path) -> PathBuf {
    folder.join("manifest")
}

impl Manifest {
    /// Makes one that knows of no segment, and that `oldest` will be the first. When this returns the disk has it.
    pub(super) fn create(folder: &Path, session: &str, boot: &Boot, oldest: u64) -> io::Result<Self> {
        let new = folder.join("manifest.new");
        let mut bytes = identity(boot, session);
        bytes.extend_from_slice(&slot(OLDEST_AT, (oldest, 0)));
        bytes.resize(BYTES, 0);
        // What an earlier attempt has left.
        let _ = disk::remove(&new);
        let file = disk::create(&new)?;
        disk::write_at(&file, &bytes, 0)?;
        disk::sync(&file)?;
        disk::rename(&new, &path(folder))?;
        disk::sync_folder(folder)?;
        Ok(Self { file, path: path(folder) })
    }

    /// Reads that of a folder.
    pub(super) fn open(folder: &Path) -> Result<(Self, Facts), NoManifest> {
        let opened = OpenOptions::new().read(true).write(true).open(path(folder));
        let mut file = opened.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => NoManifest::Missing,
            _ => NoManifest::Unreadable(error),
        })?;
        let mut bytes = [0; BYTES];
        file.read_exact(&mut bytes).map_err(|_| NoManifest::Damaged)?;
        let facts = decode(&bytes)?;
        Ok((Self { file, path: path(folder) }, facts))
    }

    /// The content of a folder's manifest, for a reader.
    pub(super) fn facts(folder: &Path) -> Option<Facts> {
        let mut bytes = [0; BYTES];
        File::open(path(folder)).and_then(|mut file| file.read_exact(&mut bytes)).ok()?;
        decode(&bytes).ok()
    }

    /// From now on what the manifest says is about this boot.
    pub(super) fn set_boot(&self, boot: &Boot, session: &str) -> Result<(), Problem> {
        self.write(0, &identity(boot, session))
    }

    pub(super) fn set_oldest(&self, segment: u64) -> Result<(), Problem> {
        self.set(OLDEST_AT, (segment, 0))
    }

    pub(super) fn set_newest(&self, segment: u64) -> Result<(), Problem> {
        self.set(NEWEST_AT, (segment, 0))
    }

    /// Nothing is known to have been begun in this boot.
    pub(super) fn clear_newest(&self) -> Result<(), Problem> {
        self.write(NEWEST_AT, &[0; SLOT_BYTES])
    }

    pub(super) fn set_synced(&self, segment: u64, bytes: u64) -> Result<(), Problem> {
        self.set(SYNCED_AT, (segment, bytes))
    }

    pub(super) fn sync(&self) -> Result<(), Problem> {
        disk::sync(&self.file).map_err(|error| self.failed(&error))
    }

    fn set(&self, at: usize, numbers: (u64, u64)) -> Result<(), Problem> {
        self.write(at, &slot(at, numbers))
    }

    fn write(&self, at: usize, bytes: &[u8]) -> Result<(), Problem> {
        disk::write_at(&self.file, bytes, at as u64).map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &io::Error) -> Problem {
        Problem::failed(format!("cannot write {}", self.path.display()), error)
            .next("free space on that disk, or make it writable, then start the session again")
    }
}

fn identity(boot: &Boot, session: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(BYTES);
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(boot);
    let name = &session.as_bytes()[..session.len().min(NAME_MAX)];
    out.extend_from_slice(&(name.len() as u16).to_le_bytes());
    out.extend_from_slice(name);
    out.resize(SECTOR - 4, 0);
    let crc = crc32fast::hash(&out);
    out.extend_from_slice(&crc.to_le_bytes());
    out
}

fn slot(at: usize, (first, second): (u64, u64)) -> [u8; SLOT_BYTES] {
    let mut out = [0; SLOT_BYTES];
    out[..8].copy_from_slice(&first.to_le_bytes());
    out[8..16].copy_from_slice(&second.to_le_bytes());
    let crc = slot_crc(at, &out[..16]);
    out[16..].copy_from_slice(&crc.to_le_bytes());
    out
}

/// Begun with the position, plus one, so that zeroes are no slot and no slot passes for another.
fn slot_crc(at: usize, numbers: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(at as u32 + 1);
    hasher.update(numbers);
    hasher.finalize()
}

fn read_slot(bytes: &[u8], at: usize) -> Result<Option<(u64, u64)>, NoManifest> {
    let slot = &bytes[at..at + SLOT_BYTES];
    if slot.iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    if slot_crc(at, &slot[..16]).to_le_bytes() != slot[16..] {
        return Err(NoManifest::Damaged);
    }
    Ok(Some((u64_at(slot, 0), u64_at(slot, 8))))
}

fn decode(bytes: &[u8; BYTES]) -> Result<Facts, NoManifest> {
    if bytes[..8] != MAGIC {
        return Err(NoManifest::Damaged);
    }
    let version = u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]);
    if version != VERSION {
        return Err(NoManifest::Version(version));
    }
    let length = usize::from(u16::from_le_bytes([bytes[28], bytes[29]]));
    let crc = crc32fast::hash(&bytes[..SECTOR - 4]).to_le_bytes();
    if crc != bytes[SECTOR - 4..SECTOR] || length > NAME_MAX {
        return Err(NoManifest::Damaged);
    }
    let mut boot = [0; 16];
    boot.copy_from_slice(&bytes[12..28]);
    let session = std::str::from_utf8(&bytes[30..30 + length]).map_err(|_| NoManifest::Damaged)?.to_owned();
    let first = |at| Ok(read_slot(bytes, at)?.map(|(segment, _)| segment));
    let (oldest, newest) = (first(OLDEST_AT)?, first(NEWEST_AT)?);
    Ok(Facts { boot, session, oldest, newest, synced: read_slot(bytes, SYNCED_AT)? })
}

/// The identity of this boot.
pub(super) fn this_boot() -> Boot {
    let text = sidestep_sys::proc::Roots::default().proc("sys/kernel/random/boot_id");
    let mut boot = [0; 16];
    let digits: Vec<u8> =
        text.bytes().filter_map(|byte| char::from(byte).to_digit(16)).map(|digit| digit as u8).collect();
    if digits.len() == 2 * boot.len() {
        for (byte, pair) in boot.iter_mut().zip(digits.chunks(2)) {
            *byte = pair[0] << 4 | pair[1];
        }
    }
    boot
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_reads_back_and_a_changed_bit_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(Manifest::open(folder.path()), Err(NoManifest::Missing)));
        let manifest = Manifest::create(folder.path(), "FIX.4.4:A->B", &[1; 16], 2).unwrap();
        manifest.set_boot(&[7; 16], "FIX.4.4:A->B").unwrap();
        manifest.set_oldest(3).unwrap();
        manifest.set_newest(0).unwrap();
        manifest.set_synced(9, 4096).unwrap();
        let expected = Facts {
            boot: [7; 16],
            session: "FIX.4.4:A->B".into(),
            oldest: Some(3),
            newest: Some(0),
            synced: Some((9, 4096)),
        };
        assert_eq!(Manifest::open(folder.path()).unwrap().1, expected);
        let good = std::fs::read(path(folder.path())).unwrap();
        for at in (0..SECTOR).chain(OLDEST_AT..OLDEST_AT + SLOT_BYTES).chain(SYNCED_AT..SYNCED_AT + SLOT_BYTES) {
            let mut bad = good.clone();
            bad[at] ^= 1;
            std::fs::write(path(folder.path()), &bad).unwrap();
            assert!(Manifest::open(folder.path()).is_err(), "byte {at}");
        }
        std::fs::write(path(folder.path()), b"").unwrap();
        assert!(matches!(Manifest::open(folder.path()), Err(NoManifest::Damaged)));
    }

    #[test]
    fn a_boot_is_known_and_stays_the_same() {
        assert_ne!(this_boot(), [0; 16]);
        assert_eq!(this_boot(), this_boot());
    }
}
