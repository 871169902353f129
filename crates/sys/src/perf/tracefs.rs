//! Tracepoints as tracefs describes them: their number, and where their fields are.

use crate::Problem;
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

/// Where tracefs usually is; the second one before Linux 4.1.
const PLACES: [&str; 2] = ["/sys/kernel/tracing/events", "/sys/kernel/debug/tracing/events"];
/// A description is a few kilobytes long.
const FORMAT_BYTES_MAX: u64 = 64 << 10;

/// The folder `events` of tracefs.
#[derive(Debug)]
pub struct Tracefs(OwnedFd);

/// A tracepoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    /// Its number, by which its records begin.
    pub id: u16,
    fields: Vec<(String, Field)>,
}

/// A field of its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    offset: usize,
    bytes: usize,
    /// Set if it holds the place of the text (`__data_loc`) instead of the text.
    elsewhere: bool,
}

impl Tracefs {
    /// Opens tracefs where it is mounted; else, as root, a mount that no path leads to and that ends with this value
    /// (fsmount(2), Linux 5.2).
    ///
    /// # Errors
    /// Fails if it may not be read, with what would allow that.
    pub fn open() -> Result<Self, Problem> {
        let folder = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut problem = None;
        for place in PLACES {
            match openat(CWD, place, folder, Mode::empty()) {
                Ok(events) => return Ok(Self(events)),
                Err(error) => problem = problem.or(Some(error)),
            }
        }
        let own = || {
            let system = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
            fsconfig_create(&system)?;
            let root = fsmount(&system, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::MOUNT_ATTR_RDONLY)?;
            openat(root, "events", folder, Mode::empty())
        };
        own().map(Self).map_err(|error| {
            let first = problem.map_or_else(String::new, |first| format!("{}: {first}; ", PLACES[0]));
            Problem::failed("cannot read the kernel's tracepoints", format!("{first}a mount of its own: {error}"))
                .next("run as root, or have tracefs mounted and readable: mount -t tracefs -o gid=GROUP,mode=750 tracefs /sys/kernel/tracing")
        })
    }

    /// The tracepoint `name` (`sched/sched_switch`).
    ///
    /// # Errors
    /// Fails if this kernel does not have it, or its description cannot be read.
    pub fn format(&self, name: &str) -> io::Result<Format> {
        let file = openat(&self.0, format!("{name}/format"), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let text = crate::file::read_open(File::from(file), FORMAT_BYTES_MAX)?;
        let text = String::from_utf8_lossy(&text);
        Format::parse(&text).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "its description has no number"))
    }
}

impl Format {
    fn parse(text: &str) -> Option<Self> {
        let id = text.lines().find_map(|line| line.strip_prefix("ID:"))?.trim().parse().ok()?;
        Some(Self { id, fields: text.lines().filter_map(parse_field).collect() })
    }

    /// The field of this name.
    pub fn field(&self, name: &str) -> Option<Field> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, field)| *field)
    }
}

/// Reads a line like `field:char prev_comm[16]; offset:8; size:16; signed:0;`.
fn parse_field(line: &str) -> Option<(String, Field)> {
    let mut parts = line.trim().split(';').map(str::trim);
    let declared = parts.next()?.strip_prefix("field:")?;
    let mut offset = None;
    let mut bytes = None;
    for part in parts {
        match part.split_once(':') {
            Some(("offset", value)) => offset = value.parse().ok(),
            Some(("size", value)) => bytes = value.parse().ok(),
            _ => {}
        }
    }
    let name = declared.split_whitespace().next_back()?;
    let name = name.split_once('[').map_or(name, |(name, _)| name);
    let elsewhere = declared.starts_with("__data_loc ");
    Some((name.to_owned(), Field { offset: offset?, bytes: bytes?, elsewhere }))
}

impl Field {
    /// The number in a record; none if the record is too short or the field is no number.
    pub fn number(self, record: &[u8]) -> Option<u64> {
        let bytes = record.get(self.offset..self.offset.checked_add(self.bytes)?)?;
        Some(match bytes.len() {
            1 => bytes[0].into(),
            2 => u16::from_ne_bytes(bytes.try_into().ok()?).into(),
            4 => u32::from_ne_bytes(bytes.try_into().ok()?).into(),
            8 => u64::from_ne_bytes(bytes.try_into().ok()?),
            _ => return None,
        })
    }

    /// The text in a record, up to its zero byte; none if the record is too short.
    pub fn text(self, record: &[u8]) -> Option<String> {
        let (from, bytes) = match self.elsewhere {
            // The offset is in the lower half of the word, the length in the upper one.
            true => self.number(record).map(|place| (place as usize & 0xffff, place as usize >> 16))?,
            false => (self.offset, self.bytes),
        };
        let text = record.get(from..from.checked_add(bytes)?)?;
        let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
        Some(String::from_utf8_lossy(&text[..end]).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HANDLER: &str = "name: irq_handler_entry\nID: 225\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:int irq;\toffset:8;\tsize:4;\tsigned:1;\n\
        \tfield:__data_loc char[] name;\toffset:12;\tsize:4;\tsigned:0;\n\
        \tfield:char comm[16];\toffset:16;\tsize:16;\tsigned:0;\n\n\
        print fmt: \"irq=%d name=%s\", REC->irq, __get_str(name)\n";

    #[test]
    fn fields_are_where_the_description_says() {
        let format = Format::parse(HANDLER).unwrap();
        assert_eq!(format.id, 225);
        let mut record = vec![0; 40];
        record[8..12].copy_from_slice(&27_u32.to_ne_bytes());
        record[12..16].copy_from_slice(&(32_u32 | 5 << 16).to_ne_bytes());
        record[16..20].copy_from_slice(b"bash");
        record[32..37].copy_from_slice(b"eth0\0");
        let field = |name| format.field(name).unwrap();
        assert_eq!(field("irq").number(&record), Some(27));
        assert_eq!(field("name").text(&record).as_deref(), Some("eth0"));
        assert_eq!(field("comm").text(&record).as_deref(), Some("bash"));
        assert_eq!(format.field("none"), None);
    }

    #[test]
    fn short_and_odd_records_have_no_fields() {
        let format = Format::parse(HANDLER).unwrap();
        let field = |name| format.field(name).unwrap();
        assert_eq!(field("irq").number(&[0; 11]), None);
        assert_eq!(field("name").text(&[0xff; 40]), None, "its place is beyond the record");
        assert_eq!(field("comm").number(&[0; 40]), None, "sixteen bytes are no number");
        for odd in ["", "ID: x", "ID: 70000", "ID: 1\nfield:", "ID: 1\nfield:int a;offset:-1;size:4;"] {
            assert!(Format::parse(odd).is_none_or(|format| format.fields.is_empty()), "{odd:?}");
        }
    }
}
