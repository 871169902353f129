//! Start times as the initial time namespace sees them. /proc adds the offset of the reader's time namespace
//! (time_namespaces(7), Linux 5.6), so that two containers read two numbers for one process.

use std::fs;
use std::io;
use std::path::Path;

/// The name of the initial time namespace (PROC_TIME_INIT_INO in the kernel's proc_ns.h).
const INITIAL: &str = "time:[4026531834]";
const NANOSECONDS: i64 = 1_000_000_000;

/// A start time that this process has read in /proc, clock ticks, without the offset of its time namespace. Fails if
/// the offset is unknown: a guess could take a living process for a dead one.
pub(super) fn unshifted(ticks: u64) -> io::Result<u64> {
    let offset = offset_ticks()?;
    let shifted = i64::try_from(ticks).ok().and_then(|ticks| ticks.checked_sub(offset));
    shifted
        .and_then(|ticks| u64::try_from(ticks).ok())
        .ok_or_else(|| unknown("a process would have started before the boot"))
}

fn offset_ticks() -> io::Result<i64> {
    let name = |link: &str| fs::read_link(Path::new("/proc/self/ns").join(link));
    let own = match name("time") {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        own => own?,
    };
    if own.as_os_str() == INITIAL {
        return Ok(0);
    }
    // The offsets are those of the namespace for children.
    if own != name("time_for_children")? {
        return Err(unknown("this process is about to enter another one"));
    }
    // SAFETY: sysconf takes no pointer.
    let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    parse(&fs::read_to_string("/proc/self/timens_offsets")?, per_second)
}

/// The line `boottime SECONDS NANOSECONDS`, in ticks. An offset that is not a whole number of ticks moves start times
/// by one tick more or less, and cannot be subtracted exactly.
fn parse(offsets: &str, ticks_per_second: i64) -> io::Result<i64> {
    let line = offsets.lines().find_map(|line| line.trim_start().strip_prefix("boottime"));
    let numbers: Option<Vec<i64>> =
        line.map(|line| line.split_whitespace().map_while(|word| word.parse().ok()).collect());
    let Some([seconds, nanoseconds]) = numbers.as_deref() else { return Err(unknown("its offset is malformed")) };
    if ticks_per_second <= 0 || nanoseconds % (NANOSECONDS / ticks_per_second) != 0 {
        return Err(unknown("its offset is no whole number of clock ticks"));
    }
    let ticks = nanoseconds / (NANOSECONDS / ticks_per_second);
    seconds
        .checked_mul(ticks_per_second)
        .and_then(|whole| whole.checked_add(ticks))
        .ok_or_else(|| unknown("its offset is malformed"))
}

fn unknown(why: &str) -> io::Error {
    io::Error::other(format!("the start times of processes are unknown in this time namespace: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_read_as_the_kernel_prints_them() {
        let print = |seconds: i64, nanoseconds: i64| {
            format!("monotonic           0         0\nboottime   {seconds:10} {nanoseconds:9}\n")
        };
        assert_eq!(parse(&print(0, 0), 100).unwrap(), 0);
        assert_eq!(parse(&print(1000, 0), 100).unwrap(), 100_000);
        assert_eq!(parse(&print(-1, 500_000_000), 100).unwrap(), -50);
        assert!(parse(&print(1, 1), 100).is_err());
        assert!(parse(&print(i64::MAX, 0), 100).is_err());
        for garbage in ["", "boottime", "boottime 1", "boottime x y", "monotonic 1 2"] {
            assert!(parse(garbage, 100).is_err());
        }
    }
}
