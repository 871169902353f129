//! Snapshots of old values, written and synced before the first setting is changed.
//!
//! A snapshot is never changed afterwards. The present value of a setting shows its state: the old value, ours,
//! or another program's. So a process may be killed at any moment.

use crate::host::Identity;
use crate::plan::Change;
use serde::{Deserialize, Serialize};
use sidestep_sys::{Problem, file};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// The number of the file's format.
const SCHEMA: u32 = 1;
/// The longest snapshot, bytes; each change takes about 200.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// The most snapshots at a time; with more, the original state is no longer clear.
const SNAPSHOTS_MAX: usize = 1000;

/// One run of `apply`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    schema: u32,
    /// Its number; later ones are greater.
    pub number: u32,
    /// Start time, seconds since 1970.
    pub started_unix_s: u64,
    /// The host and network namespace.
    pub identity: Identity,
    /// The profile that asked for it.
    pub profile: String,
    /// The changes, in their order.
    pub changes: Vec<Change>,
}

/// The folder of snapshots.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
}

/// Held while settings are changed, so that two do not do it at once.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Store {
    /// In `$SIDESTEP_STATE_DIR/tune`, or `/var/lib/sidestep/tune`: it must outlive a reboot.
    pub fn usual() -> Self {
        let base = std::env::var_os("SIDESTEP_STATE_DIR").map_or_else(|| "/var/lib/sidestep".into(), PathBuf::from);
        Self::at(base.join("tune"))
    }

    /// In this folder.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Waits until no other process changes settings.
    pub fn lock(&self) -> Result<Lock, Problem> {
        let failed = |error: io::Error| {
            Problem::failed(format!("cannot use the folder {}", self.folder.display()), error)
                .next("run as root, or choose another folder with SIDESTEP_STATE_DIR")
        };
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder).map_err(failed)?;
        let file =
            OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(self.folder.join("lock"));
        let file = file.map_err(failed)?;
        sidestep_sys::lock::exclusive(&file).map_err(failed)?;
        Ok(Lock { _file: file })
    }

    /// The snapshots, oldest first. One that cannot be read is an error: it may be the only way back.
    pub fn list(&self) -> Result<Vec<Snapshot>, Problem> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => {
                return Err(
                    Problem::failed(format!("cannot list {}", self.folder.display()), error).next("run as root")
                );
            }
        };
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let mut numbers: Vec<u32> = names.filter_map(|name| name.strip_suffix(".json")?.parse().ok()).collect();
        numbers.sort_unstable();
        numbers.into_iter().map(|number| self.read(number)).collect()
    }

    fn path(&self, number: u32) -> PathBuf {
        self.folder.join(format!("{number:06}.json"))
    }

    fn read(&self, number: u32) -> Result<Snapshot, Problem> {
        let path = self.path(number);
        let what = || format!("cannot read the snapshot {}", path.display());
        let next = "move it away if its settings need not be reverted";
        let bytes = file::read(&path, FILE_BYTES_MAX).map_err(|error| Problem::failed(what(), error).next(next))?;
        let snapshot = parse(&bytes).map_err(|why| Problem::failed(what(), why).next(next))?;
        Ok(Snapshot { number, ..snapshot })
    }

    /// Writes a snapshot that survives a crash at any later moment. The lock must be held.
    pub(crate) fn save(
        &self,
        _lock: &Lock,
        identity: Identity,
        profile: &str,
        changes: &[Change],
        saving: impl FnOnce(&Snapshot),
    ) -> Result<Snapshot, Problem> {
        let known = self.list()?;
        if known.len() >= SNAPSHOTS_MAX {
            return Err(Problem::failed(
                "cannot change settings",
                format!("a host has at most {SNAPSHOTS_MAX} snapshots that are not reverted"),
            )
            .next("sidestep tune revert --all"));
        }
        let number = known.last().map_or(1, |last| last.number + 1);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let snapshot = Snapshot {
            schema: SCHEMA,
            number,
            started_unix_s: now.as_secs(),
            identity,
            profile: profile.to_owned(),
            changes: changes.to_vec(),
        };
        let path = self.path(number);
        let failed = |error: io::Error| {
            Problem::failed(format!("cannot write the snapshot {}", path.display()), error).next("nothing was changed")
        };
        let text = serde_json::to_vec_pretty(&snapshot).map_err(io::Error::from).map_err(failed)?;
        let draft = path.with_extension("draft");
        write_synced(&draft, &text).map_err(failed)?;
        saving(&snapshot);
        fs::rename(&draft, &path).and_then(|()| self.sync()).map_err(failed)?;
        Ok(snapshot)
    }

    /// Removes a snapshot; its settings stay as they are.
    pub fn remove(&self, snapshot: &Snapshot) -> Result<(), Problem> {
        let path = self.path(snapshot.number);
        fs::remove_file(&path)
            .and_then(|()| self.sync())
            .map_err(|error| Problem::failed(format!("cannot remove the snapshot {}", path.display()), error))
    }

    fn sync(&self) -> io::Result<()> {
        File::open(&self.folder)?.sync_all()
    }
}

fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn parse(bytes: &[u8]) -> Result<Snapshot, String> {
    let snapshot: Snapshot = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    if snapshot.schema != SCHEMA {
        return Err(format!("it has format {}, this program knows {SCHEMA}", snapshot.schema));
    }
    // The file could be hand-made: it may name settable locations only.
    match snapshot.changes.iter().find(|change| !change.location.is_settable()) {
        Some(change) => Err(format!("{} is not a setting of the running kernel", change.location)),
        None => Ok(snapshot),
    }
}

/// Parses arbitrary bytes as a snapshot. For fuzzing.
pub fn parse_any(bytes: &[u8]) -> bool {
    parse(bytes).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::location::Location;
    use crate::reading::Form;

    fn change() -> Change {
        let location = Location::parse("proc:sys/vm/swappiness").unwrap();
        Change {
            check: "mem-swappiness".into(),
            subject: String::new(),
            location,
            form: Form::Text,
            before: "60".into(),
            after: "10".into(),
        }
    }

    #[test]
    fn a_snapshot_is_found_again_and_numbers_rise() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::at(folder.path().join("a/b"));
        assert!(store.list().unwrap().is_empty());
        let lock = store.lock().unwrap();
        let first = store.save(&lock, Identity::default(), "latency", &[change()], |_| ()).unwrap();
        let second = store.save(&lock, Identity::default(), "latency", &[], |_| ()).unwrap();
        assert_eq!(store.list().unwrap(), [first.clone(), second.clone()]);
        store.remove(&first).unwrap();
        assert_eq!((first.number, second.number, store.list().unwrap().len()), (1, 2, 1));
    }

    #[test]
    fn a_file_that_is_no_snapshot_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::at(folder.path());
        let good = serde_json::json!({"schema": 1, "number": 1, "started_unix_s": 0, "profile": "",
            "identity": {"boot": "", "network": ""}, "changes": [change()]});
        assert!(parse(good.to_string().as_bytes()).is_ok());
        let hostile = good.to_string().replace("proc:sys/vm/swappiness", "proc:1/mem");
        let climbing = good.to_string().replace("proc:sys/vm/swappiness", "proc:sys/../1/mem");
        for text in [&hostile, &climbing, "{}", "", &good.to_string().replace("\"schema\":1", "\"schema\":9")] {
            fs::write(store.path(1), text).unwrap();
            assert!(store.list().unwrap_err().to_string().contains("000001.json"), "{text}");
        }
    }
}
