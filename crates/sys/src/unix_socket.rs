//! Unix sockets that listen at a path, in a folder where no other user can replace them, with their final permissions
//! from the first moment.

use std::ffi::CString;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The type of the connection (unix(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Bytes.
    Stream,
    /// Messages, whole and in order.
    Packets,
}

/// Listens at `path` with mode 0600; [`allow`] admits others. Replaces a stale socket of this user. accept(2) does not
/// wait.
///
/// # Errors
/// Fails if the folder, or one above it, belongs to another user or is writable by one; if a process listens there
/// already; if bind(2) fails.
pub fn listen(path: &Path, kind: Kind, backlog: i32) -> io::Result<OwnedFd> {
    let path = &place(path)?;
    remove_stale(path, kind)?;
    let socket = socket(kind)?;
    // bind(2) gives the file the mode of the socket: no other user may connect at any moment.
    let file = File::from(socket);
    file.set_permissions(Permissions::from_mode(0o600))?;
    let socket = OwnedFd::from(file);
    let (address, length) = address(path)?;
    // SAFETY: `address` is a sockaddr_un that lives for the call, and `length` bytes of it are filled.
    check(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) })?;
    // SAFETY: the call takes numbers alone.
    check(unsafe { libc::listen(socket.as_raw_fd(), backlog) })?;
    Ok(socket)
}

/// Resolves all symbolic links in the path. Only root and this user can put another file there, or replace a folder
/// above it: each folder belongs to one of them, and others may write to it only if its sticky bit keeps them from
/// renaming files that are not theirs.
fn place(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or_else(|| refused("it has no file name".into()))?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = fs::canonicalize(parent)?;
    for folder in folder.ancestors() {
        let facts = fs::symlink_metadata(folder)?;
        if let Some(fault) = fault(facts.uid(), facts.gid(), facts.mode()) {
            return Err(refused(format!("{} {fault}, who could put something else in its place", folder.display())));
        }
    }
    Ok(folder.join(name))
}

fn refused(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

/// The reason why others can replace files in a folder.
fn fault(uid: u32, gid: u32, mode: u32) -> Option<String> {
    // SAFETY: both calls take nothing and cannot fail.
    let own = unsafe { (libc::geteuid(), libc::getegid()) };
    if uid != 0 && uid != own.0 && !is_of_no_user_here(uid) {
        return Some(format!("belongs to user {uid}"));
    }
    // A group of this user's own, as many systems create for each user.
    let is_others = mode & 0o002 != 0 || mode & 0o020 != 0 && gid != own.1 && gid != 0;
    (is_others && mode & libc::S_ISVTX == 0).then(|| format!("can be written by others (mode {:04o})", mode & 0o7777))
}

/// The number of root's own folders in a user namespace that does not map root.
fn is_of_no_user_here(uid: u32) -> bool {
    let overflow = fs::read_to_string("/proc/sys/kernel/overflowuid").ok().and_then(|text| text.trim().parse().ok());
    let is_whole =
        fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| map.split_whitespace().eq(["0", "0", "4294967295"]));
    overflow == Some(uid) && !is_whole
}

fn remove_stale(path: &Path, kind: Kind) -> io::Result<()> {
    let facts = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        facts => facts?,
    };
    if !facts.file_type().is_socket() {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "a file that is not a socket is there"));
    }
    let (address, length) = address(path)?;
    let socket = socket(kind)?;
    // SAFETY: as in `listen`.
    match check(unsafe { libc::connect(socket.as_raw_fd(), (&raw const address).cast(), length) }) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
        // A failure of any kind: the socket is not known to be dead.
        _ => return Err(io::Error::new(io::ErrorKind::AddrInUse, "another process listens there")),
    }
    // SAFETY: the call takes nothing and cannot fail.
    if facts.uid() != unsafe { libc::geteuid() } {
        return Err(refused(format!("there is a socket of user {}", facts.uid())));
    }
    fs::remove_file(path)
}

fn socket(kind: Kind) -> io::Result<OwnedFd> {
    let kind = match kind {
        Kind::Stream => libc::SOCK_STREAM,
        Kind::Packets => libc::SOCK_SEQPACKET,
    };
    // SAFETY: the call takes numbers alone.
    let socket = unsafe { libc::socket(libc::AF_UNIX, kind | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, 0) };
    check(socket)?;
    // SAFETY: the descriptor is new, and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(socket) })
}

fn address(path: &Path) -> io::Result<(libc::sockaddr_un, libc::socklen_t)> {
    // SAFETY: all-zero bytes are a valid sockaddr_un.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    let bytes = path.as_os_str().as_bytes();
    // The last byte stays zero.
    if bytes.len() >= address.sun_path.len() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{} is longer than 107 bytes", path.display()),
        ));
    }
    for (place, byte) in address.sun_path.iter_mut().zip(bytes) {
        *place = *byte as libc::c_char;
    }
    Ok((address, (size_of::<libc::sa_family_t>() + bytes.len() + 1) as libc::socklen_t))
}

/// Version 2 of the extended attribute that holds an access control list (linux/posix_acl_xattr.h).
const ACL_VERSION: u32 = 2;
const ACL_NOBODY: u32 = u32::MAX;
/// Read and write: connect(2) asks for write, and write without read would look odd in a list.
const ACL_READ_WRITE: u16 = 6;

/// Lets these users and groups connect to the socket at `path` besides its owner, by an access control list (acl(5)):
/// the kernel refuses all others before this program sees them. Returns `false` if the file system does not support
/// such lists.
pub fn allow(path: &Path, uids: &[u32], gids: &[u32]) -> io::Result<bool> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let list = access_list(uids, gids);
    let name = c"system.posix_acl_access";
    // SAFETY: two strings that end in zero, and `list` with its length; all live for the call.
    let result = unsafe { libc::lsetxattr(path.as_ptr(), name.as_ptr(), list.as_ptr().cast(), list.len(), 0) };
    match check(result) {
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(false),
        result => result.map(|()| true),
    }
}

/// ```text
/// | version, 4 bytes | tag, 2 | rights, 2 | number, 4 | tag, 2 | ...       little-endian
/// ```
fn access_list(uids: &[u32], gids: &[u32]) -> Vec<u8> {
    const OWNER: u16 = 0x01;
    const USER: u16 = 0x02;
    const OWNING_GROUP: u16 = 0x04;
    const GROUP: u16 = 0x08;
    const MASK: u16 = 0x10;
    const OTHERS: u16 = 0x20;
    let mut list = ACL_VERSION.to_le_bytes().to_vec();
    let mut add = |tag: u16, rights: u16, number: u32| {
        list.extend(tag.to_le_bytes());
        list.extend(rights.to_le_bytes());
        list.extend(number.to_le_bytes());
    };
    let in_order = |numbers: &[u32]| numbers.iter().copied().collect::<std::collections::BTreeSet<u32>>();
    add(OWNER, ACL_READ_WRITE, ACL_NOBODY);
    in_order(uids).into_iter().for_each(|uid| add(USER, ACL_READ_WRITE, uid));
    add(OWNING_GROUP, 0, ACL_NOBODY);
    in_order(gids).into_iter().for_each(|gid| add(GROUP, ACL_READ_WRITE, gid));
    add(MASK, ACL_READ_WRITE, ACL_NOBODY);
    add(OTHERS, 0, ACL_NOBODY);
    list
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result >= 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().mode() & 0o7777
    }

    #[test]
    fn a_socket_is_its_owners_alone_and_a_dead_one_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let socket = listen(&path, Kind::Stream, 4).unwrap();
        assert_eq!(mode(&path), 0o600);
        UnixStream::connect(&path).unwrap();
        let taken = listen(&path, Kind::Stream, 4).unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
        drop(socket);
        drop(listen(&path, Kind::Packets, 4).unwrap());
        let file = folder.path().join("file");
        fs::write(&file, "kept").unwrap();
        assert!(listen(&file, Kind::Stream, 4).is_err());
        assert_eq!(fs::read_to_string(&file).unwrap(), "kept");
    }

    #[test]
    fn a_folder_in_which_others_can_swap_files_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let open = folder.path().join("open");
        fs::create_dir_all(open.join("inner")).unwrap();
        for (mode, is_good) in [(0o777, false), (0o1777, true), (0o755, true)] {
            fs::set_permissions(&open, Permissions::from_mode(mode)).unwrap();
            for path in [open.join("socket"), open.join("inner/socket")] {
                let result = listen(&path, Kind::Stream, 4);
                assert_eq!(result.is_ok(), is_good, "{mode:o} {}: {result:?}", path.display());
            }
        }
        // A link is followed once, and its target is checked.
        fs::set_permissions(&open, Permissions::from_mode(0o777)).unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&open, &link).unwrap();
        let error = listen(&link.join("socket"), Kind::Stream, 4).unwrap_err().to_string();
        assert!(error.contains("can be written by others (mode 0777)"), "{error}");
        assert!(fault(12_345, 0, 0o755).is_some(), "another user's");
    }

    #[test]
    fn a_list_lets_in_who_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let _socket = listen(&path, Kind::Packets, 4).unwrap();
        if !allow(&path, &[7, 0, 7], &[8]).unwrap() {
            return eprintln!("skipped: the file system has no access control lists");
        }
        // The mask is shown as the group's permissions.
        assert_eq!(mode(&path), 0o660);
        assert_eq!(access_list(&[7, 0, 7], &[8]).len(), 4 + 8 * 7, "twice named is once listed");
    }
}
