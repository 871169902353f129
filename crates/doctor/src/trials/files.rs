//! Trials with files: the working directory for journals, folders and devices that `tune` writes to.

use super::Outcome;
use rustix::fs::{Access, Mode, OFlags, access, open, openat, statfs};
use sidestep_sys::Problem;
use sidestep_sys::mapped::MappedFile;
use sidestep_tune::snapshot::Store;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The file that is tried, bytes.
const BYTES: usize = 1 << 20;

/// The kind of a file system, as far as it matters to a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSystem {
    /// On a disk of this host.
    Disk(&'static str),
    /// In memory: gone after a reboot.
    Memory(&'static str),
    /// On another host, or in a process.
    Remote(&'static str),
    /// Of a kind that is not known here.
    Unknown(u64),
}

impl FileSystem {
    /// By the magic numbers of statfs(2).
    fn of(magic: u64) -> Self {
        match magic {
            0xef53 => Self::Disk("ext4"),
            0x5846_5342 => Self::Disk("XFS"),
            0x9123_683e => Self::Disk("Btrfs"),
            0x2fc1_2fc1 => Self::Disk("ZFS"),
            0xf2f5_2010 => Self::Disk("F2FS"),
            0x794c_7630 => Self::Disk("overlayfs"),
            0x0102_1994 => Self::Memory("tmpfs"),
            0x8584_58f6 => Self::Memory("ramfs"),
            0x6969 => Self::Remote("NFS"),
            0x6573_5546 => Self::Remote("FUSE"),
            0x0102_1997 => Self::Remote("9p"),
            0xff53_4d42 | 0xfe53_4d42 => Self::Remote("SMB"),
            other => Self::Unknown(other),
        }
    }

    /// Returns its name.
    pub fn name(self) -> String {
        match self {
            Self::Disk(name) | Self::Memory(name) | Self::Remote(name) => name.to_owned(),
            Self::Unknown(magic) => format!("a file system of type {magic:#x}"),
        }
    }
}

/// The working directory as the place of a journal.
#[derive(Clone, Debug)]
pub struct Journal {
    /// The folder.
    pub folder: PathBuf,
    /// Its file system.
    pub file_system: FileSystem,
    /// Set if messages can be written by storing them to mapped memory.
    pub is_mapped: bool,
    /// The time to bring a mebibyte to the disk (fdatasync(2)).
    pub sync: Duration,
    /// Free bytes.
    pub free_bytes: u64,
}

/// Writes a file without a name in the working directory, as a journal is written.
pub(super) fn journal() -> Result<Journal, Problem> {
    let folder = std::env::current_dir().map_err(|error| {
        Problem::failed("cannot find the working directory", error).next("change to one that exists: cd")
    })?;
    let failed = |error: io::Error| {
        Problem::failed(format!("cannot write a journal in {}", folder.display()), error)
            .next("change to a folder that you may write to, and run sidestep doctor there")
    };
    let facts = statfs(&folder).map_err(|error| failed(error.into()))?;
    let file = nameless(&folder).map_err(failed)?;
    // Every block has to be there: a store to a hole could fail.
    let write = || -> io::Result<bool> {
        io::Write::write_all(&mut &file, &vec![0; BYTES])?;
        let Some(mut mapped) = MappedFile::map(&file, BYTES)? else { return Ok(false) };
        Ok(mapped.store(0, b"8=FIX"))
    };
    let is_mapped = write().map_err(failed)?;
    let begin = Instant::now();
    file.sync_data().map_err(failed)?;
    let free_bytes = facts.f_bavail.saturating_mul(u64::try_from(facts.f_bsize).unwrap_or(0));
    let magic = u64::from((facts.f_type as u64 & 0xffff_ffff) as u32);
    Ok(Journal { file_system: FileSystem::of(magic), is_mapped, sync: begin.elapsed(), free_bytes, folder })
}

/// A file that goes with its descriptor. Where the file system has no such files, one whose name is removed at once.
fn nameless(folder: &Path) -> io::Result<File> {
    let mode = Mode::RUSR | Mode::WUSR;
    match open(folder, OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC, mode) {
        Ok(file) => Ok(file.into()),
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::ISDIR | rustix::io::Errno::INVAL) => {
            let name = format!(".sidestep-doctor-{}", std::process::id());
            let directory = File::open(folder)?;
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
            let file = openat(&directory, name.as_str(), flags, mode)?;
            fs::remove_file(folder.join(&name))?;
            Ok(file.into())
        }
        Err(error) => Err(error.into()),
    }
}

/// Asks whether what `tune apply` changes can be recorded: the folder, or the nearest one above it that exists.
pub(super) fn snapshots() -> Outcome {
    let store = Store::usual();
    let folder = store.folder();
    let nearest = folder.ancestors().find(|above| above.exists()).unwrap_or(Path::new("/"));
    access(nearest, Access::WRITE_OK).map_err(|error| {
        Problem::failed(format!("cannot record changes in {}", folder.display()), io::Error::from(error))
            .next("run as root, or choose another folder with SIDESTEP_STATE_DIR")
    })?;
    Ok(format!("changes are recorded in {}", folder.display()))
}

/// Asks whether the device that limits the wake-up time of the CPUs can be written.
pub(super) fn latency_device() -> Outcome {
    const DEVICE: &str = "/dev/cpu_dma_latency";
    // To open it would be a request already.
    access(DEVICE, Access::WRITE_OK)
        .map_err(|error| Problem::failed(format!("cannot write {DEVICE}"), io::Error::from(error)))?;
    Ok("CPUs can be kept awake (tune run --latency-qos)".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_of_this_folder_is_tried_and_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        drop(nameless(folder.path()).unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        assert!(nameless(Path::new("/proc")).is_err());
        let found = journal().unwrap();
        assert!(found.free_bytes > 0 && !found.file_system.name().is_empty(), "{found:?}");
    }

    #[test]
    fn kinds_are_told_apart() {
        assert_eq!(FileSystem::of(0x0102_1994), FileSystem::Memory("tmpfs"));
        assert_eq!(FileSystem::of(0x5846_5342), FileSystem::Disk("XFS"));
        assert!(FileSystem::of(7).name().contains("0x7"));
    }
}
