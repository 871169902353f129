//! The module's device as a source: its timer runs as long as it is open.

use sidestep_ring::Segment;
use sidestep_sys::Problem;
use sidestep_sys::ring_device;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::time::Duration;

/// The device of the module.
const DEVICE: &str = "/dev/sidestep-ring";

/// The device, open, with its facts.
pub(super) struct Device {
    file: File,
    info: ring_device::Info,
    interval: Duration,
}

impl Device {
    /// Opens it.
    pub(super) fn open(interval: Duration) -> Result<Self, Problem> {
        let file = OpenOptions::new().read(true).open(DEVICE).map_err(cannot_open)?;
        let info = ring_device::info(file.as_fd()).map_err(cannot_open)?;
        Ok(Self { file, info, interval })
    }

    /// Sets the interval of its timer, which then runs on the CPU of the caller if the module's parameter does not name one.
    pub(super) fn start(&self) -> Result<(), Problem> {
        let ns = u64::try_from(self.interval.as_nanos()).unwrap_or(u64::MAX);
        // Readers cannot set it: this descriptor is open for writing.
        let timer = OpenOptions::new().read(true).write(true).open(DEVICE).map_err(cannot_open)?;
        ring_device::set_interval(timer.as_fd(), ns).map_err(|error| {
            Problem::failed(format!("cannot set the timer of {DEVICE} to {:?}", self.interval), error)
                .next("run as root, and give an interval of 10 us or more")
        })
    }

    /// A reader of its own place in the ring.
    pub(super) fn reader(&self, is_non_blocking: bool) -> Result<File, Problem> {
        let flags = if is_non_blocking { rustix::fs::OFlags::NONBLOCK.bits().cast_signed() } else { 0 };
        OpenOptions::new().read(true).custom_flags(flags).open(DEVICE).map_err(cannot_open)
    }

    /// Its ring.
    pub(super) fn segment(&self) -> Result<Segment, Problem> {
        let bytes = usize::try_from(self.info.bytes).unwrap_or(usize::MAX);
        Segment::foreign(self.file.try_clone().map_err(cannot_open)?.into(), 0, bytes)
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the form of map_err")]
fn cannot_open(error: io::Error) -> Problem {
    let problem = Problem::failed(format!("cannot open {DEVICE}"), &error);
    match error.kind() {
        io::ErrorKind::NotFound => problem.next("build and load the module sidestep_ring: kernel/README.md"),
        io::ErrorKind::PermissionDenied => problem.next("run as root, or as a member of the device's group"),
        _ => problem.next("check that this module and this program are of one version: kernel/README.md"),
    }
}
