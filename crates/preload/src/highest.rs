//! The highest descriptor number of the program, for select(2): its sets may be as short as that.
//!
//! The kernel reads and writes the sets up to the size of its table of descriptors, whatever the program asks for, and the library's own
//! descriptors make that table larger than the program's are.

use crate::descriptors;
use libc::c_int;
use rustix::fs::{Mode, OFlags, RawDir, SeekFrom, open, seek};
use sidestep_sys::own_descriptors;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicI32, Ordering};

/// The bits of C's set (FD_SETSIZE): what is asked for up to here is there.
const SET_BITS: c_int = 1024;

/// Bits that the kernel reads at a time.
const WORD_BITS: u32 = usize::BITS;

/// What stands before the numbers in a folder of /proc: `.` and `..`.
const FIRST_ENTRY: u64 = 2;

/// The room for entries: some 150 at a time.
const ENTRIES_BYTES: usize = 4096;

/// The highest number that the program has chosen (dup2(2), F_DUPFD).
static CHOSEN: AtomicI32 = AtomicI32::new(0);

/// The program has chosen a number.
#[inline]
pub(crate) fn note_chosen(number: c_int) {
    if number >= SET_BITS && !own_descriptors::is_own(number) {
        CHOSEN.fetch_max(number, Ordering::Relaxed);
    }
}

/// The count of bits of a call of select(2) that can be of descriptors.
#[inline]
pub(crate) fn clamp(count: c_int) -> c_int {
    if count <= SET_BITS { count } else { clamp_long(count) }
}

#[cold]
fn clamp_long(count: c_int) -> c_int {
    let known = descriptors::known().last().unwrap_or(0).max(CHOSEN.load(Ordering::Relaxed));
    let end = known.max(listed().unwrap_or(0)) + 1;
    let bits = (end as u32).next_multiple_of(WORD_BITS) as c_int;
    count.min(bits.max(SET_BITS))
}

/// The highest number from [`SET_BITS`] on that is none of the library's, by /proc/self/fd, which lists them in order. The list ends at the
/// library's first, unless the program has all numbers up to there.
fn listed() -> Option<c_int> {
    let folder = open("/proc/self/fd", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    seek(&folder, SeekFrom::Start(FIRST_ENTRY + SET_BITS as u64)).ok()?;
    let mut room = [const { MaybeUninit::uninit() }; ENTRIES_BYTES];
    let mut entries = RawDir::new(&folder, &mut room);
    let (mut highest, mut is_full) = (None, false);
    while let Some(Ok(entry)) = entries.next() {
        let Some(number) = entry.file_name().to_str().ok().and_then(|name| name.parse::<c_int>().ok()) else {
            continue;
        };
        if !own_descriptors::is_own(number) {
            highest = Some(number);
        } else {
            is_full |= highest == Some(number - 1);
            if !is_full {
                break;
            }
        }
    }
    highest
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

    #[test]
    fn sets_end_with_the_highest_number() {
        assert_eq!((clamp(0), clamp(-1), clamp(SET_BITS)), (0, -1, SET_BITS));
        let file = std::fs::File::open("/dev/null").unwrap();
        // SAFETY: the descriptor is open, and what is made is nobody else's.
        let high = unsafe {
            let number = libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 1100);
            OwnedFd::from_raw_fd(number)
        };
        let number = high.as_raw_fd();
        assert!(number >= 1100 && listed().unwrap() >= number);
        assert!(clamp(c_int::MAX) > number && clamp(c_int::MAX) < c_int::MAX && clamp(c_int::MAX) % 64 == 0);
        assert_eq!(clamp(1030), 1030);
    }
}
