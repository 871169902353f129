//! The persistent state of control: a lock, and one small file per stack.

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use sidestep_control_api::message::StackFacts;
use sidestep_sys::Problem;
use sidestep_sys::owner::Owner;
use sidestep_sys::process::Process;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The limit of a record, which has about one KiB.
const RECORD_BYTES_MAX: u64 = 64 << 10;

/// The most records of one directory; there are never more stacks than this.
const RECORDS_MAX: usize = 4096;

/// The attempts to lock: a holder that ends removes its lock, and a waiter tries again.
const LOCK_TRIES: usize = 8;

/// The directory of one network namespace's control, with its lock.
#[derive(Debug)]
pub(crate) struct State {
    directory: PathBuf,
    /// Locked; closing it, or the end of the process, releases the lock.
    #[expect(dead_code, reason = "it is held, not used")]
    lock: File,
}

/// The record of a stack, for the next control.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) facts: StackFacts,
    pub(crate) name: String,
    pub(crate) pid: u32,
    pub(crate) start_ticks: u64,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    #[serde(with = "OwnerForm", default = "unknown")]
    pub(crate) owner: Owner,
}

/// The form of [`Owner`] in a record.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Owner", rename_all = "snake_case")]
enum OwnerForm {
    User(u32),
    Container(u64),
    Unknown,
}

/// The default for a record of an earlier release.
fn unknown() -> Owner {
    Owner::Unknown
}

impl Record {
    pub(crate) fn process(&self) -> Process {
        Process { pid: self.pid, start_ticks: self.start_ticks }
    }
}

impl State {
    /// Makes the directory if needed and locks it; refuses while another control has it.
    pub(crate) fn take(directory: &Path) -> Result<Self, Problem> {
        let problem = |error: io::Error| {
            Problem::failed(format!("cannot use {}", directory.display()), error)
                .next("run as root, or set SIDESTEP_STATE_DIR to a folder that may be written")
        };
        DirBuilder::new().recursive(true).mode(0o755).create(directory).map_err(problem)?;
        DirBuilder::new().recursive(true).mode(0o700).create(directory.join("stacks")).map_err(problem)?;
        for _ in 0..LOCK_TRIES {
            if let Some(lock) = take_lock(&directory.join("lock"))? {
                return Ok(Self { directory: directory.to_owned(), lock });
            }
        }
        Err(problem(io::Error::other("its lock is being removed over and over")))
    }

    /// The path.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The directory of pinned BPF objects.
    pub(crate) fn pins(&self) -> PathBuf {
        self.directory.join("bpf")
    }

    /// Stores a stack's record, atomically.
    pub(crate) fn store(&self, record: &Record) -> io::Result<()> {
        let text = serde_json::to_vec(record)?;
        let path = self.record(record.facts.id);
        let draft = path.with_extension("draft");
        fs::write(&draft, text)?;
        fs::set_permissions(&draft, Permissions::from_mode(0o600))?;
        fs::rename(&draft, &path)
    }

    /// Removes a stack's record.
    pub(crate) fn forget(&self, stack: u32) {
        // A leftover names a stack that the next control does not find, and then removes.
        let _ = fs::remove_file(self.record(stack));
    }

    /// The records of an earlier control; invalid files are removed.
    pub(crate) fn records(&self) -> Vec<Record> {
        let entries = fs::read_dir(self.directory.join("stacks")).into_iter().flatten().filter_map(Result::ok);
        let of = |entry: fs::DirEntry| {
            let path = entry.path();
            let record = read(&path).filter(|record| self.record(record.facts.id) == path);
            if record.is_none() {
                let _ = fs::remove_file(&path);
            }
            record
        };
        entries.take(RECORDS_MAX).filter_map(of).collect()
    }

    /// Removes the directory, which must contain only files made here.
    pub(crate) fn remove(self) -> Result<(), Problem> {
        let failed = |path: &Path, error: io::Error| {
            Problem::failed(format!("cannot remove {}", path.display()), error).next("remove it by hand")
        };
        for path in ["control.sock", "stacks", "lock"].map(|name| self.directory.join(name)) {
            let result = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            match result {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(&path, error)),
                _ => {}
            }
        }
        match fs::remove_dir(&self.directory) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(&self.directory, error)),
            _ => Ok(()),
        }
    }

    fn record(&self, stack: u32) -> PathBuf {
        self.directory.join("stacks").join(format!("{stack}.json"))
    }
}

/// Takes the lock; `None` if its last holder just removed it.
fn take_lock(path: &Path) -> Result<Option<File>, Problem> {
    let problem =
        |error: io::Error| Problem::failed(format!("cannot lock {}", path.display()), error).next("run as root");
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path);
    let mut file = file.map_err(problem)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let mut holder = String::new();
            let _ = file.take(20).read_to_string(&mut holder);
            let why = format!("control is running already (process {})", holder.trim());
            return Err(Problem::failed("cannot start the control plane of this network namespace", why)
                .next("end that one first; sidestep ps shows what it serves"));
        }
        Err(error) => return Err(problem(error.into())),
    }
    let inode = file.metadata().map_err(problem)?.ino();
    if fs::metadata(path).map_or(true, |found| found.ino() != inode) {
        return Ok(None);
    }
    file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id())).map_err(problem)?;
    Ok(Some(file))
}

fn read(path: &Path) -> Option<Record> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(RECORD_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    serde_json::from_slice(&bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::stack_facts;

    fn record(stack: u32) -> Record {
        let this = Process::this().unwrap();
        let (pid, start_ticks) = (this.pid, this.start_ticks);
        Record {
            facts: stack_facts(stack, "eth1", 0),
            name: "feed".into(),
            pid,
            start_ticks,
            uid: 7,
            gid: 8,
            owner: Owner::Container(9),
        }
    }

    #[test]
    fn there_is_one_control_and_the_next_finds_what_it_kept() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("net-1");
        let state = State::take(&directory).unwrap();
        let refused = State::take(&directory).unwrap_err().to_string();
        assert!(refused.contains(&format!("process {}", std::process::id())), "{refused}");
        state.store(&record(3)).unwrap();
        state.store(&record(4)).unwrap();
        state.forget(4);
        drop(state);
        let state = State::take(&directory).unwrap();
        assert_eq!(state.records(), [record(3)]);
        state.remove().unwrap();
        assert!(!directory.exists());
    }

    #[test]
    fn what_is_no_record_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let state = State::take(folder.path()).unwrap();
        let stacks = folder.path().join("stacks");
        fs::write(stacks.join("1.json"), "{").unwrap();
        fs::write(stacks.join("2.json"), serde_json::to_vec(&record(9)).unwrap()).unwrap();
        fs::write(stacks.join("3.draft"), "").unwrap();
        assert_eq!(state.records(), []);
        assert_eq!(fs::read_dir(stacks).unwrap().count(), 0);
    }
}
