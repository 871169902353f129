//! What the watch itself costs, by /proc.

use rustix::param::{clock_ticks_per_second, page_size};
use std::fs;

/// CPU time of a process and all of its threads, seconds.
pub(crate) fn cpu_seconds(pid: u32) -> Option<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    ticks(&stat).map(seconds_of)
}

/// Clock ticks of /proc in seconds.
pub(crate) fn seconds_of(ticks: u64) -> f64 {
    ticks as f64 / clock_ticks_per_second() as f64
}

/// utime and stime of proc_pid_stat(5). The name of the program, in brackets, may hold anything.
fn ticks(stat: &str) -> Option<u64> {
    let after_name = stat.rsplit_once(')')?.1;
    let mut fields = after_name.split_whitespace().skip(11);
    Some(fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?)
}

/// Resident memory of this process, bytes.
pub(crate) fn resident_bytes() -> Option<u64> {
    let pages = fs::read_to_string("/proc/self/statm").ok()?;
    Some(pages.split_whitespace().nth(1)?.parse::<u64>().ok()? * page_size() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_in_brackets_may_hold_anything() {
        assert_eq!(ticks("7 (a) b (c)) S 1 2 3 4 5 6 7 8 9 10 40 2 0 0 20"), Some(42));
        assert_eq!(ticks("7 (a"), None);
        assert_eq!(ticks("7 (a) S 1"), None);
        assert!(cpu_seconds(std::process::id()).is_some() && resident_bytes().is_some_and(|bytes| bytes > 1 << 18));
    }
}
