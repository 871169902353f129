//! A switch that wakes a daemon of the kernel disturbs for as long as the daemon works: pauses are counted after that.
//!
//! A write to vm.compaction_proactiveness other than 0 starts kcompactd (mm/compaction.c, `proactive_compact_trigger`); every write
//! to khugepaged's scan_sleep_millisecs wakes khugepaged (mm/khugepaged.c), and so do the switches that start it.

use sidestep_sys::{Problem, file};
use std::path::Path;
use std::time::{Duration, Instant};

/// The daemons, by the beginning of their names.
const DAEMONS: [&str; 2] = ["kcompactd", "khugepaged"];
/// The checks whose switch wakes one of them.
const WAKING: [&str; 5] =
    ["mem-compaction", "mem-huge-daemon", "mem-huge-transparent", "mem-huge-sizes", "mem-huge-shmem"];
/// Time after which a daemon that has hardly worked is idle.
const QUIET: Duration = Duration::from_millis(500);
/// The work of an idle daemon in that time, at most: kcompactd looks around twice a second.
const IDLE_WORK: Duration = Duration::from_millis(5);
/// The work that a wake-up stands for where the kernel does not count time.
const WAKE_UP: Duration = Duration::from_millis(1);
/// The longest wait for that.
const PATIENCE: Duration = Duration::from_secs(20);
/// Time between two looks.
const LOOK: Duration = Duration::from_millis(50);
/// The longest line of /proc/PID/schedstat and comm, bytes.
const LINE_BYTES_MAX: u64 = 256;

/// Returns whether the switch of a check wakes a daemon.
pub(super) fn wakes(check: &str) -> bool {
    WAKING.contains(&check)
}

/// Waits until the daemons are idle, or until the user stops the run. Err if they are not in the end: what they do cannot be told from
/// the setting's effect.
pub(super) fn settle(is_stopped: impl Fn() -> bool) -> Result<(), Problem> {
    let daemons = daemons(Path::new("/proc"));
    let begin = Instant::now();
    let worked = || {
        std::thread::sleep(LOOK);
        let run = daemons.iter().map(|pid| run_time(Path::new("/proc"), *pid)).sum();
        (!is_stopped()).then(|| (begin.elapsed(), run))
    };
    match is_quiet(worked).unwrap_or(true) {
        true => Ok(()),
        false => Err(Problem::failed(
            "the effect cannot be told by switching",
            format!("{PATIENCE:?} after the switch the kernel's daemon that it wakes is still at work"),
        )
        .next("set it for good, and compare two runs of sidestep bench")),
    }
}

/// Returns whether daemons hardly run for a while, before the end of patience. Each look is the time since the beginning, and the
/// time that they have run for; none ends it.
fn is_quiet(mut look: impl FnMut() -> Option<(Duration, Duration)>) -> Option<bool> {
    let (mut since, mut known) = look()?;
    loop {
        let (now, run) = look()?;
        // It falls where a daemon has ended.
        if run.checked_sub(known).is_none_or(|worked| worked > IDLE_WORK) {
            (since, known) = (now, run);
        } else if now.saturating_sub(since) >= QUIET {
            return Some(true);
        }
        if now >= PATIENCE {
            return Some(false);
        }
    }
}

fn daemons(proc: &Path) -> Vec<u32> {
    let entries = std::fs::read_dir(proc).into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_one = |pid: &u32| {
        let name = file::read_text(&proc.join(format!("{pid}/comm")), LINE_BYTES_MAX).unwrap_or_default();
        DAEMONS.iter().any(|daemon| name.starts_with(daemon))
    };
    pids.filter(is_one).collect()
}

/// Returns the time that a process has run for; where the kernel keeps no such statistics, by the number of times that it went to
/// sleep.
fn run_time(proc: &Path, pid: u32) -> Duration {
    const STATUS_BYTES_MAX: u64 = 1 << 16;
    let schedstat = file::read_text(&proc.join(format!("{pid}/schedstat")), LINE_BYTES_MAX).unwrap_or_default();
    let run = schedstat.split_whitespace().next().and_then(|run| run.parse().ok());
    run.map(Duration::from_nanos).unwrap_or_else(|| {
        let status = file::read_text(&proc.join(format!("{pid}/status")), STATUS_BYTES_MAX).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        WAKE_UP * line.and_then(|count| count.trim().parse().ok()).unwrap_or_default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks every 100 ms at a daemon that works until a moment, and then as much in each 100 ms.
    fn quiet_after(works_until_ms: u64, then: Duration) -> (bool, u64) {
        let mut now = 0_u64;
        let is_quiet = is_quiet(|| {
            now += 100;
            let idle = then * (now.saturating_sub(works_until_ms) / 100) as u32;
            Some((Duration::from_millis(now), Duration::from_millis(now.min(works_until_ms)) + idle))
        });
        (is_quiet.expect("it is not stopped"), now)
    }

    #[test]
    fn pauses_are_counted_after_the_daemon_has_worked() {
        let looks_around = Duration::from_micros(50);
        let (is_quiet, ended_ms) = quiet_after(0, looks_around);
        assert!(is_quiet && (500..1000).contains(&ended_ms), "{ended_ms}");
        let (is_quiet, ended_ms) = quiet_after(3000, looks_around);
        assert!(is_quiet && (3500..4000).contains(&ended_ms), "{ended_ms}");
        let (is_quiet, ended_ms) = quiet_after(0, Duration::from_millis(6));
        assert!(!is_quiet && ended_ms == 20_000, "{ended_ms}");
        assert_eq!(super::is_quiet(|| None), None, "the user has stopped the run");
    }

    #[test]
    fn daemons_are_found_with_their_time() {
        let proc = tempfile::tempdir().unwrap();
        let process = |pid: u32, name: &str, files: &[(&str, &str)]| {
            let folder = proc.path().join(pid.to_string());
            std::fs::create_dir(&folder).unwrap();
            std::fs::write(folder.join("comm"), format!("{name}\n")).unwrap();
            files.iter().for_each(|(name, text)| std::fs::write(folder.join(name), text).unwrap());
        };
        process(7, "kcompactd0", &[("schedstat", "1200 5 3\n")]);
        process(8, "khugepaged", &[("status", "Name:\tkhugepaged\nvoluntary_ctxt_switches:\t9\n")]);
        process(9, "ksmd", &[]);
        let mut found = daemons(proc.path());
        found.sort_unstable();
        assert_eq!(found, [7, 8]);
        assert_eq!(
            [7, 8, 9].map(|pid| run_time(proc.path(), pid)),
            [Duration::from_nanos(1200), 9 * WAKE_UP, Duration::ZERO]
        );
    }

    #[test]
    fn every_check_named_exists() {
        for check in WAKING {
            assert!(
                sidestep_tune::table::named(check).is_ok_and(sidestep_tune::check::Check::shows_as_pauses),
                "{check}"
            );
        }
        assert!(!wakes("iso-timer-migration"));
    }
}
