//! The file that bind(2) makes for a Unix socket.

use super::is_retry;
use sidestep_sys::fork::ForkGuard;
use socket2::{Domain, SockAddr, Socket};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, io};

/// Between two attempts to connect to a listener whose backlog is full.
const RETRY_EVERY: Duration = Duration::from_millis(1);

/// The file of a Unix socket, removed with its listener: by the process that made it, and if it is still that file.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    device: u64,
    inode: u64,
    guard: ForkGuard,
}

impl SocketFile {
    /// Takes the file at `path`, which this process has just made.
    ///
    /// # Errors
    /// The file cannot be examined.
    pub fn at(path: &Path) -> io::Result<Self> {
        let facts = fs::symlink_metadata(path)?;
        let (device, inode) = (facts.dev(), facts.ino());
        Ok(Self { path: path.to_owned(), device, inode, guard: ForkGuard::new()? })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let is_it = |facts: fs::Metadata| (facts.dev(), facts.ino()) == (self.device, self.inode);
        if self.guard.is_same_process() && fs::symlink_metadata(&self.path).is_ok_and(is_it) {
            // Without the listener behind it the name only misleads. Gone meanwhile is as good.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Binds a Unix socket at `path`, in the place of a socket whose listener has died.
///
/// # Errors
/// The name is taken, by a listener that lives or by another kind of file; or the folder cannot be written.
pub(crate) fn bind_file(socket: Socket, path: &Path) -> io::Result<Socket> {
    let address = SockAddr::unix(path)?;
    match socket.bind(&address) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            if !is_orphaned(&socket, path, &address)? {
                return Err(error);
            }
            fs::remove_file(path)?;
            socket.bind(&address).map(|()| socket)
        }
        other => other.map(|()| socket),
    }
}

/// Connects to the Unix socket at `path`, as long as a full backlog is all that is in the way. Without O_NONBLOCK, connect(2)
/// would wait there for ever.
///
/// # Errors
/// Nobody listens there; its backlog stays full for `timeout`.
pub(crate) fn connect_file(socket: Socket, path: &Path, timeout: Duration) -> io::Result<Socket> {
    let deadline = Instant::now().checked_add(timeout);
    let address = SockAddr::unix(path)?;
    socket.set_nonblocking(true)?;
    loop {
        match socket.connect(&address) {
            Ok(()) => return Ok(socket),
            Err(error) if !is_retry(&error) => return Err(error),
            Err(_) if deadline.is_some_and(|deadline| Instant::now() >= deadline) => {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "its backlog is full and it accepts nobody"));
            }
            Err(_) => std::thread::sleep(RETRY_EVERY),
        }
    }
}

/// Returns whether the file is a socket that refuses to be connected to. Another file refuses that, too, and is not a listener's.
fn is_orphaned(socket: &Socket, path: &Path, address: &SockAddr) -> io::Result<bool> {
    if !fs::symlink_metadata(path).is_ok_and(|facts| facts.file_type().is_socket()) {
        return Ok(false);
    }
    let probe = Socket::new(Domain::UNIX, socket.r#type()?, None)?;
    // A listener whose backlog is full lives, and is not waited for.
    probe.set_nonblocking(true)?;
    Ok(probe.connect(address).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused))
}

#[cfg(test)]
mod tests {
    use super::*;
    use socket2::Type;

    #[test]
    fn a_listener_leaves_the_socket_of_its_successor() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let bind = || {
            let socket = bind_file(Socket::new(Domain::UNIX, Type::STREAM, None).unwrap(), &path).unwrap();
            (socket, SocketFile::at(&path).unwrap())
        };
        let first = bind();
        fs::remove_file(&path).unwrap();
        let second = bind();
        drop(first);
        assert!(path.exists(), "it is another file");
        drop(second);
        assert!(!path.exists(), "this one was its own");
    }

    #[test]
    fn the_file_of_a_dead_listener_is_replaced_and_no_other() {
        let folder = tempfile::tempdir().unwrap();
        for kind in [Type::STREAM, Type::SEQPACKET] {
            let path = folder.path().join(format!("{kind:?}"));
            let bind = || bind_file(Socket::new(Domain::UNIX, kind, None).unwrap(), &path);
            let first = bind().unwrap();
            first.listen(1).unwrap();
            assert_eq!(bind().unwrap_err().kind(), io::ErrorKind::AddrInUse, "it lives");
            drop(first);
            drop(bind().unwrap());
            fs::remove_file(&path).unwrap();
            fs::write(&path, "somebody's").unwrap();
            assert_eq!(bind().unwrap_err().kind(), io::ErrorKind::AddrInUse);
            assert_eq!(fs::read(&path).unwrap(), b"somebody's");
        }
    }
}
