//! A control plane in the background.

use rustix::fs::{Mode, OFlags};
use sidestep_control_api::client::{Client, Error};
use sidestep_control_api::place;
use sidestep_sys::Problem;
use sidestep_sys::process::detach;
use std::ffi::OsString;
use std::fs::{DirBuilder, File};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The time until it serves; binding to a busy machine's state takes tenths of a second.
const START_MAX: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(5);

/// The end of the log that is shown when it does not start, bytes.
const LAST_WORDS_BYTES: u64 = 2048;

/// Starts `sidestep control` again with this command's other flags, in a session of its own, and waits until it serves. Returns
/// the file with its messages.
pub(super) fn start(log: Option<&Path>, socket: Option<&Path>) -> Result<PathBuf, Problem> {
    let path = log.map_or_else(default_log, |path| Ok(path.to_owned()))?;
    let socket = socket.map_or_else(place::socket, |path| Ok(path.to_owned()))?;
    let log = open(&path)?;
    let failed =
        |error| Problem::failed("cannot start the control plane", error).next("start it by hand: sidestep control");
    let output = || log.try_clone().map(Stdio::from).map_err(failed);
    let mut command = Command::new(std::env::current_exe().map_err(failed)?);
    command.args(own_flags()).stdin(Stdio::null()).stdout(output()?).stderr(output()?).current_dir("/");
    detach(&mut command);
    let mut child = command.spawn().map_err(failed)?;
    wait(&mut child, &socket, &log, &path)?;
    Ok(path)
}

/// The flags of this process without those that put it into the background.
fn own_flags() -> Vec<OsString> {
    let mut flags = Vec::new();
    let mut given = std::env::args_os().skip(1);
    while let Some(flag) = given.next() {
        match flag.to_str() {
            Some("--background") => {}
            Some("--log") => _ = given.next(),
            Some(text) if text.starts_with("--log=") => {}
            _ => flags.push(flag),
        }
    }
    flags
}

fn default_log() -> Result<PathBuf, Problem> {
    let directory = place::directory()?;
    let root = directory.parent().unwrap_or(Path::new("/run")).to_owned();
    let failed =
        |error| Problem::failed(format!("cannot use {}", root.display()), error).next("run as root, or give --log");
    DirBuilder::new().recursive(true).mode(0o755).create(&root).map_err(failed)?;
    Ok(root.join(format!("control-{}.log", place::namespace_inode()?)))
}

/// Opens the log, emptied. Another user's link in its place is not followed.
fn open(path: &Path) -> Result<File, Problem> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::APPEND | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NOCTTY;
    let failed = |error: std::io::Error| {
        Problem::failed(format!("cannot write {}", path.display()), error)
            .next("name a file for its messages: --log FILE")
    };
    let file = rustix::fs::open(path, flags, Mode::from_bits_retain(0o600)).map_err(|error| failed(error.into()))?;
    let file = File::from(file);
    file.set_len(0).map_err(failed)?;
    Ok(file)
}

/// Waits until a control plane serves. Another one may have been quicker; then this one is ended.
fn wait(child: &mut Child, socket: &Path, mut log: &File, path: &Path) -> Result<(), Problem> {
    let deadline = Instant::now() + START_MAX;
    loop {
        match Client::connect_to(socket, "sidestep control") {
            Ok(client) => {
                let serves = client.control_pid();
                let _ = client.bye();
                if serves != child.id() {
                    // It would end by itself, or serve after the other one.
                    let _ = child.kill();
                    let _ = child.wait();
                }
                return Ok(());
            }
            Err(Error::Refused(refusal)) => {
                return Err(Problem::failed("cannot use the control plane", refusal).next("see what it says"));
            }
            Err(Error::Lost(_)) => {}
        }
        let has_ended = child.try_wait().ok().flatten().is_some();
        if has_ended || Instant::now() >= deadline {
            let mut words = String::new();
            let _ = log.seek(SeekFrom::Start(0));
            let _ = log.take(LAST_WORDS_BYTES).read_to_string(&mut words);
            let why = words.trim().trim_start_matches("sidestep: ").to_owned();
            let why = if why.is_empty() { "it says nothing".to_owned() } else { why };
            return Err(Problem::failed("the control plane does not serve", why)
                .next(format!("see {}, or start it by hand: sidestep control", path.display())));
        }
        std::thread::sleep(LOOK);
    }
}
