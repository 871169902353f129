//! The directory of lab records: atomic writes, and one lock against concurrent removal or claiming.

use std::env;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use sidestep_sys::{Problem, lock};

use super::name::LabName;
use super::state::State;

/// Runtime state that ends with the boot, as namespaces do.
const DEFAULT: &str = "/run/sidestep";

/// The variable that replaces [`DEFAULT`], for tests and for machines without /run.
pub(crate) const VARIABLE: &str = "SIDESTEP_STATE_DIR";

/// The size limit of a record, which has about one KiB.
const RECORD_BYTES_MAX: u64 = 64 << 10;

/// The directory `labs` of the state directory.
#[derive(Clone, Debug)]
pub(crate) struct Directory(PathBuf);

/// The lock held while labs are claimed or removed; released on drop or when the process ends.
pub(crate) struct Lock(#[expect(dead_code, reason = "closing the file gives the lock back")] File);

impl Directory {
    pub(crate) fn from_environment() -> Self {
        let root = env::var_os(VARIABLE).filter(|path| !path.is_empty()).unwrap_or_else(|| DEFAULT.into());
        Self::under(Path::new(&root))
    }

    pub(crate) fn under(root: &Path) -> Self {
        Self(root.join("labs"))
    }

    pub(crate) fn lock(&self) -> Result<Lock, Problem> {
        let path = self.0.join("lock");
        let problem = |error: io::Error| self.problem("lock", &path, &error);
        fs::create_dir_all(&self.0).map_err(problem)?;
        let file = File::options().write(true).create(true).truncate(false).open(&path).map_err(problem)?;
        lock::exclusive(&file).map_err(problem)?;
        Ok(Lock(file))
    }

    /// The labs that have a record, intact or damaged.
    pub(crate) fn names(&self) -> Result<Vec<LabName>, Problem> {
        let entries = match fs::read_dir(&self.0) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(self.problem("list", &self.0, &error)),
        };
        let name_of = |entry: fs::DirEntry| {
            let file = entry.file_name();
            LabName::new(file.to_str()?.strip_suffix(".json")?).ok()
        };
        let mut names: Vec<_> = entries.filter_map(Result::ok).filter_map(name_of).collect();
        names.sort();
        Ok(names)
    }

    /// Removes partial records whose writer was killed. Names are claimed under the lock, so a partial file without a
    /// record is not in use.
    pub(crate) fn remove_torn(&self, _lock: &Lock) {
        for entry in fs::read_dir(&self.0).into_iter().flatten().filter_map(Result::ok) {
            let file = entry.file_name();
            let name = file.to_str().and_then(|file| LabName::new(file.strip_suffix(".json.tmp")?).ok());
            if name.is_some_and(|name| !self.has(&name)) {
                // A leftover costs some bytes, and the next lab tries again.
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    pub(crate) fn has(&self, name: &LabName) -> bool {
        self.record(name).exists()
    }

    /// Returns `Ok(None)` without a record; the inner error describes the damage of a record.
    pub(crate) fn load(&self, name: &LabName) -> Result<Option<Result<State, String>>, Problem> {
        let path = self.record(name);
        let text = match read_bounded(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Err(self.problem("read", &path, &error));
            }
            Err(error) => return Ok(Some(Err(error.to_string()))),
        };
        Ok(Some(State::parse(name, &text)))
    }

    pub(crate) fn store(&self, state: &State) -> Result<(), Problem> {
        self.write(&self.record(&state.name), &state.to_json()?)
    }

    /// The file into which the relay of a persistent lab writes its counters.
    pub(crate) fn counters(&self, name: &LabName) -> PathBuf {
        self.file(name, "wire")
    }

    /// The file into which the relay of a persistent lab writes its errors.
    pub(crate) fn relay_log(&self, name: &LabName) -> PathBuf {
        self.file(name, "log")
    }

    /// Writes a file atomically: a reader, or a crash, sees the old content or the new, never a part. Each file has one
    /// writer, so one temporary name per file is enough.
    pub(crate) fn write(&self, path: &Path, content: &[u8]) -> Result<(), Problem> {
        let temporary = temporary(path);
        fs::write(&temporary, content)
            .and_then(|()| fs::rename(&temporary, path))
            .map_err(|error| self.problem("write", path, &error))
    }

    /// Removes the files of a lab. The record goes last: as long as it exists, an interrupted removal is resumed.
    pub(crate) fn forget(&self, name: &LabName) -> Result<(), Problem> {
        let record = self.record(name);
        let counters = self.counters(name);
        for path in [&temporary(&counters), &counters, &self.relay_log(name), &temporary(&record), &record] {
            match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(self.problem("remove", path, &error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn record(&self, name: &LabName) -> PathBuf {
        self.file(name, "json")
    }

    fn file(&self, name: &LabName, extension: &str) -> PathBuf {
        self.0.join(format!("{name}.{extension}"))
    }

    fn problem(&self, verb: &str, path: &Path, error: &io::Error) -> Problem {
        Problem::failed(format!("cannot {verb} {}", path.display()), error).next(format!(
            "run as root, or name a directory of your own by the environment variable {VARIABLE} (now {})",
            self.0.display()
        ))
    }
}

fn temporary(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".tmp");
    name.into()
}

/// Reads a file of at most a record's size.
pub(crate) fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    File::open(path)?.take(RECORD_BYTES_MAX + 1).read_to_end(&mut text)?;
    if text.len() as u64 > RECORD_BYTES_MAX {
        return Err(io::Error::other(format!("it is larger than {RECORD_BYTES_MAX} bytes")));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use sidestep_sys::process::Process;

    use super::super::options::Options;
    use super::*;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(test: &str) -> Self {
            let path = env::temp_dir().join(format!("sidestep-{test}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    #[test]
    fn what_is_stored_is_listed_loaded_and_forgotten() {
        let scratch = Scratch::new("store");
        let directory = Directory::under(&scratch.0);
        assert_eq!(directory.names().unwrap(), []);
        let _lock = directory.lock().unwrap();
        let name = LabName::new("x").unwrap();
        let state = State::new(name.clone(), &Options::default(), Process::this().unwrap(), true);
        directory.store(&state).unwrap();
        fs::write(directory.counters(&name), "{}").unwrap();
        assert_eq!(directory.names().unwrap(), std::slice::from_ref(&name));
        assert!(directory.load(&name).unwrap().unwrap().is_ok());
        directory.forget(&name).unwrap();
        assert!(directory.load(&name).unwrap().is_none());
        assert_eq!(fs::read_dir(&directory.0).unwrap().count(), 1, "only the lock is left");
    }

    #[test]
    fn a_torn_record_goes_unless_a_whole_one_is_beside_it() {
        let scratch = Scratch::new("torn");
        let directory = Directory::under(&scratch.0);
        let lock = directory.lock().unwrap();
        let file = |name: &str| directory.0.join(name);
        for name in ["whole.json", "whole.json.tmp", "torn.json.tmp", "other.tmp"] {
            fs::write(file(name), "{").unwrap();
        }
        directory.remove_torn(&lock);
        assert!(!file("torn.json.tmp").exists());
        assert!(file("whole.json").exists() && file("whole.json.tmp").exists() && file("other.tmp").exists());
    }

    #[test]
    fn a_damaged_record_is_told_apart_from_a_missing_one() {
        let scratch = Scratch::new("damaged");
        let directory = Directory::under(&scratch.0);
        let _lock = directory.lock().unwrap();
        let name = LabName::new("x").unwrap();
        for damage in [&b"{"[..], b"", &[0xff; 70_000]] {
            fs::write(directory.record(&name), damage).unwrap();
            assert!(directory.load(&name).unwrap().unwrap().is_err());
        }
    }
}
