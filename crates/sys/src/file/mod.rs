//! Reads user-named files as a whole, with a limit on their size; [`replace`] writes them.

pub mod replace;

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// Reads a whole file or pipe (`<(command)` in a shell, /dev/stdin) of at most `bytes_max` bytes.
///
/// # Errors
/// Fails if the file cannot be opened or read, is a folder, a device or a socket, or is longer than `bytes_max`.
pub fn read(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    read_open(&open(path)?, bytes_max)
}

/// Reads a whole file or pipe as text.
///
/// # Errors
/// Fails as [`read`] does, or if the file is not UTF-8.
pub fn read_text(path: &Path, bytes_max: u64) -> io::Result<String> {
    String::from_utf8(read(path, bytes_max)?)
        .map_err(|error| io::Error::new(ErrorKind::InvalidData, format!("it is not UTF-8: {}", error.utf8_error())))
}

/// Opens a file or a pipe. Its type is checked after opening: before, the name could still change its meaning.
///
/// # Errors
/// Fails if it cannot be opened, or is a folder, a device or a socket.
pub fn open(path: &Path) -> io::Result<File> {
    // Opening a device or a terminal can block or have side effects (open(2)); opening a pipe waits for its writer.
    let is_pipe = std::fs::metadata(path)?.file_type().is_fifo();
    let flags = libc::O_NOCTTY | if is_pipe { 0 } else { libc::O_NONBLOCK };
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let kind = file.metadata()?.file_type();
    let what = match kind {
        kind if kind.is_file() || kind.is_fifo() => return Ok(file),
        kind if kind.is_dir() => "it is a directory",
        kind if kind.is_socket() => "it is a socket",
        _ => "it is a device",
    };
    Err(io::Error::new(ErrorKind::InvalidInput, format!("{what}; a file or a pipe can be read")))
}

/// Opens a regular file, and nothing else: for files that were found and not named, among which a pipe would be waited for.
///
/// # Errors
/// Fails if it cannot be opened, or is no regular file.
pub fn open_regular(path: &Path) -> io::Result<File> {
    // A pipe that is opened so does not wait for its writer (fifo(7)).
    let flags = libc::O_NOCTTY | libc::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::new(ErrorKind::InvalidInput, "it is no regular file"))
}

/// Opens what is there and is not replaced by writing (a device, a pipe) for writing. It does not wait for the reader of a pipe.
///
/// # Errors
/// Fails if it cannot be opened, or nothing reads the pipe.
pub fn open_in_place(path: &Path) -> io::Result<File> {
    let open = |flags| OpenOptions::new().write(true).custom_flags(libc::O_NOCTTY | flags).open(path);
    // A pipe without a reader refuses a writer that does not wait (fifo(7)).
    let _found = open(libc::O_NONBLOCK).map_err(|error| match error.raw_os_error() {
        Some(libc::ENXIO) => io::Error::new(ErrorKind::NotConnected, "nothing reads it"),
        _ => error,
    })?;
    open(0)
}

/// Reads the rest of an open source of at most `bytes_max` bytes.
///
/// # Errors
/// Fails if it cannot be read or is longer than `bytes_max`.
pub(crate) fn read_open(source: impl Read, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        return Err(io::Error::new(ErrorKind::FileTooLarge, format!("it has more than {bytes_max} bytes")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn path(name: &str) -> std::path::PathBuf {
        std::env::temp_dir().join(format!("sidestep-file-{}-{name}", std::process::id()))
    }

    fn fifo(name: &str) -> std::path::PathBuf {
        let path = path(name);
        let text = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
        // SAFETY: the name is a C string that outlives the call.
        assert_eq!(unsafe { libc::mkfifo(text.as_ptr(), 0o600) }, 0);
        path
    }

    #[test]
    fn a_file_is_read_whole_or_refused() {
        let path = path("limit");
        std::fs::write(&path, "12345678").unwrap();
        assert_eq!(read(&path, 8).unwrap(), b"12345678");
        assert_eq!(read_text(&path, 9).unwrap(), "12345678");
        assert!(read(&path, 7).unwrap_err().to_string().contains("more than 7 bytes"));
        std::fs::write(&path, [0xff]).unwrap();
        assert!(read_text(&path, 8).unwrap_err().to_string().contains("not UTF-8"));
        std::fs::remove_file(&path).unwrap();
        assert_eq!(read(&path, 8).unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[test]
    fn a_pipe_is_written_to_its_reader_alone() {
        let fifo = fifo("written");
        assert!(open_in_place(&fifo).unwrap_err().to_string().contains("nothing reads it"));
        let reader = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&fifo).unwrap();
        open_in_place(&fifo).unwrap().write_all(b"whole").unwrap();
        assert_eq!(read_open(reader, 8).unwrap(), b"whole");
        std::fs::remove_file(&fifo).unwrap();
    }

    #[test]
    fn a_pipe_that_was_found_is_not_waited_for() {
        let fifo = fifo("found");
        assert!(open_regular(&fifo).unwrap_err().to_string().contains("no regular file"));
        std::fs::remove_file(&fifo).unwrap();
        assert!(open_regular(&std::env::temp_dir()).is_err() && open_regular(&fifo).is_err());
        std::fs::write(&fifo, "x").unwrap();
        assert!(open_regular(&fifo).is_ok());
        std::fs::remove_file(&fifo).unwrap();
    }

    #[test]
    fn what_never_ends_is_refused() {
        for device in ["/dev/zero", "/dev/null"] {
            let refused = read(Path::new(device), 1 << 20).unwrap_err().to_string();
            assert!(refused.contains("it is a device"), "{refused}");
        }
        assert!(read(&std::env::temp_dir(), 8).unwrap_err().to_string().contains("directory"));
    }

    #[test]
    fn a_pipe_is_read_to_its_end_and_not_beyond_the_limit() {
        let fifo = fifo("pipe");
        for (bytes, fits) in [(8, true), (1 << 20, false)] {
            let writer = std::thread::spawn({
                let fifo = fifo.clone();
                move || OpenOptions::new().write(true).open(fifo).unwrap().write_all(&vec![b'x'; bytes])
            });
            assert_eq!(read(&fifo, 8).is_ok(), fits);
            // The writer may have found no reader left.
            let _ = writer.join().unwrap();
        }
        std::fs::remove_file(&fifo).unwrap();
    }
}
