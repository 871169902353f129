//! The archive that Linux unpacks into its initial file system: cpio, format "newc"
//! (Documentation/driver-api/early-userspace/buffer-format.rst).
//!
//! ```text
//!  "070701" | 13 numbers, 8 hexadecimal digits each | name, zero byte, padding to 4 | data, padding to 4
//! ```

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

const DIRECTORY: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const CHARACTERS: u32 = 0o020_600;

/// An archive being written.
pub(super) struct Archive<W> {
    output: W,
    folders: BTreeSet<PathBuf>,
    entries: u32,
}

impl<W: Write> Archive<W> {
    pub(super) fn new(output: W) -> Self {
        Self { output, folders: BTreeSet::new(), entries: 0 }
    }

    /// Adds an executable file, and the folders above it. `path` is absolute.
    pub(super) fn file(&mut self, path: &Path, data: &[u8]) -> io::Result<()> {
        self.folders_of(path)?;
        self.entry(path, PROGRAM, (0, 0), data)
    }

    /// Adds an empty folder.
    pub(super) fn folder(&mut self, path: &Path) -> io::Result<()> {
        self.folders_of(path)?;
        if self.folders.insert(path.to_owned()) { self.entry(path, DIRECTORY, (0, 0), &[]) } else { Ok(()) }
    }

    /// Adds a character device.
    pub(super) fn device(&mut self, path: &Path, number: (u32, u32)) -> io::Result<()> {
        self.folders_of(path)?;
        self.entry(path, CHARACTERS, number, &[])
    }

    /// Ends the archive.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.entry(Path::new("/TRAILER!!!"), 0, (0, 0), &[])?;
        self.output.flush()
    }

    fn folders_of(&mut self, path: &Path) -> io::Result<()> {
        let above: Vec<&Path> = path.ancestors().skip(1).filter(|folder| *folder != Path::new("/")).collect();
        for folder in above.into_iter().rev() {
            if self.folders.insert(folder.to_owned()) {
                self.entry(folder, DIRECTORY, (0, 0), &[])?;
            }
        }
        Ok(())
    }

    fn entry(&mut self, path: &Path, mode: u32, device: (u32, u32), data: &[u8]) -> io::Result<()> {
        let name = path.strip_prefix("/").unwrap_or(path).as_os_str().as_encoded_bytes();
        let too_long = |_| io::Error::new(io::ErrorKind::InvalidInput, "the archive's format ends at 4 GiB");
        let (length, name_length) = (u32::try_from(data.len()).map_err(too_long)?, name.len() as u32 + 1);
        self.entries += 1;
        // inode, mode, uid, gid, links, time, length, device it is on (2), device number (2), length of the name,
        // checksum.
        let numbers = [self.entries, mode, 0, 0, 1, 0, length, 0, 0, device.0, device.1, name_length, 0];
        self.output.write_all(b"070701")?;
        for number in numbers {
            write!(self.output, "{number:08x}")?;
        }
        self.output.write_all(name)?;
        let header = 6 + 8 * numbers.len() + name_length as usize;
        self.output.write_all(&[0; 4][..1 + padding(header)])?;
        self.output.write_all(data)?;
        self.output.write_all(&[0; 4][..padding(data.len())])
    }
}

/// Zeroes up to the next multiple of four.
fn padding(length: usize) -> usize {
    length.next_multiple_of(4) - length
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_aligned_and_their_folders_come_first() {
        let mut bytes = Vec::new();
        let mut archive = Archive::new(&mut bytes);
        archive.file(Path::new("/a/b/c"), b"12345").unwrap();
        archive.file(Path::new("/a/b/d"), b"").unwrap();
        archive.folder(Path::new("/a")).unwrap();
        archive.device(Path::new("/dev/console"), (5, 1)).unwrap();
        archive.finish().unwrap();
        assert_eq!(bytes.len() % 4, 0);
        let (mut names, mut at) = (Vec::new(), 0);
        while at < bytes.len() {
            let number = |field: usize| {
                let digits = &bytes[at + 6 + 8 * field..][..8];
                usize::from_str_radix(std::str::from_utf8(digits).unwrap(), 16).unwrap()
            };
            assert_eq!(&bytes[at..at + 6], b"070701");
            let (mode, length, name) = (number(1), number(6), number(11));
            let text = std::str::from_utf8(&bytes[at + 110..at + 110 + name - 1]).unwrap();
            names.push((text.to_owned(), mode, length, number(9), number(10)));
            let data = (at + 110 + name).next_multiple_of(4);
            assert!(bytes[at + 110 + name - 1..data].iter().all(|byte| *byte == 0));
            at = (data + length).next_multiple_of(4);
        }
        let expected = [
            ("a", 0o040_755, 0, 0, 0),
            ("a/b", 0o040_755, 0, 0, 0),
            ("a/b/c", 0o100_755, 5, 0, 0),
            ("a/b/d", 0o100_755, 0, 0, 0),
            ("dev", 0o040_755, 0, 0, 0),
            ("dev/console", 0o020_600, 0, 5, 1),
            ("TRAILER!!!", 0, 0, 0, 0),
        ];
        let names: Vec<_> = names.iter().map(|entry| (entry.0.as_str(), entry.1, entry.2, entry.3, entry.4)).collect();
        assert_eq!(names, expected);
    }
}
