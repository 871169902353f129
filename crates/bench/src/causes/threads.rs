//! The threads of the ends: their numbers, and which of the peer's carries the messages.

use std::path::Path;

/// Threads of a process that are looked at; a peer has a handful.
const THREADS_MAX: usize = 64;
/// A line of /proc is shorter.
const LINE_BYTES_MAX: u64 = 4096;

/// The threads of a process with the time each has run for, nanoseconds (/proc/PID/task/TID/schedstat).
pub(super) fn run_times(pid: u32) -> Vec<(u32, u64)> {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let time = |task: &Path| {
        let text = sidestep_sys::file::read_text(&task.join("schedstat"), LINE_BYTES_MAX).ok()?;
        text.split_whitespace().next()?.parse().ok()
    };
    let tasks = tasks.flatten().take(THREADS_MAX);
    tasks.filter_map(|task| Some((task.file_name().to_str()?.parse().ok()?, time(&task.path()).unwrap_or(0)))).collect()
}

/// The thread that ran longest between two readings, `not` this one.
pub(super) fn busiest(before: &[(u32, u64)], after: &[(u32, u64)], not: u32) -> Option<u32> {
    let ran = |(tid, time): &(u32, u64)| {
        let earlier = before.iter().find(|(known, _)| known == tid).map_or(0, |(_, time)| *time);
        time.saturating_sub(earlier)
    };
    after.iter().filter(|(tid, _)| *tid != not).max_by_key(|one| ran(one)).map(|(tid, _)| *tid)
}

/// The CPU that a thread of a process runs on, or ran on last (field 39 of proc_pid_stat(5)).
pub(super) fn cpu_of(pid: u32, tid: u32) -> Option<u32> {
    let stat =
        sidestep_sys::file::read_text(Path::new(&format!("/proc/{pid}/task/{tid}/stat")), LINE_BYTES_MAX).ok()?;
    // The name, in parentheses, is field 2 and may hold anything.
    stat.rsplit_once(')')?.1.split_whitespace().nth(36)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidestep_sys::process::thread_id;

    #[test]
    fn a_busy_thread_is_found() {
        let pid = std::process::id();
        let before = run_times(pid);
        let busy = std::thread::spawn(move || {
            while sidestep_sys::cpu::thread_time_ns() < 30_000_000 {}
            let after = run_times(pid);
            (thread_id(), busiest(&before, &after, 0).is_some(), cpu_of(pid, thread_id()).is_some(), after)
        });
        let (tid, is_found, has_cpu, after) = busy.join().unwrap();
        assert!(is_found && has_cpu && after.iter().any(|(known, _)| *known == tid));
        assert!(run_times(u32::MAX).is_empty() && cpu_of(u32::MAX, 1).is_none());
    }

    #[test]
    fn the_busiest_is_by_difference() {
        let (before, after) = ([(1, 100), (2, 0)], [(1, 110), (2, 50), (3, 40)]);
        assert_eq!(busiest(&before, &after, 0), Some(2));
        assert_eq!(busiest(&before, &after, 2), Some(3));
        assert_eq!(busiest(&before, &[], 0), None);
    }
}
