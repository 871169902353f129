//! Processes: an identity that survives the reuse of pids, liveness, signals, the bond to a parent.

mod boot_clock;

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// A process: its pid, and its start time in clock ticks since boot, because pids are reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Process {
    /// The process id.
    pub pid: u32,
    /// Field 22 of `/proc/PID/stat` (proc_pid_stat(5)), as the initial time namespace sees it.
    pub start_ticks: u64,
}

impl Process {
    /// The calling process.
    pub fn this() -> io::Result<Self> {
        let pid = std::process::id();
        Self::of(pid)?.ok_or_else(|| io::Error::other(format!("/proc/{pid}/stat is missing: is /proc mounted?")))
    }

    /// The process that has this pid now; `None` if there is none, or only a zombie that waits for its parent. Fails if
    /// the process cannot be read: `/proc` mounted with hidepid=2 (proc(5)) hides the processes of other users, and
    /// some time namespaces do not reveal their offset.
    pub fn of(pid: u32) -> io::Result<Option<Self>> {
        let stat = match fs::read(format!("/proc/{pid}/stat")) {
            Ok(stat) => stat,
            Err(error) if is_gone(&error) => return if exists(pid) { Err(error) } else { Ok(None) },
            Err(error) => return Err(error),
        };
        let Stat { state, threads, start_ticks } = parse_stat(&stat)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, format!("/proc/{pid}/stat is malformed")))?;
        // The first thread of a process can be a zombie while others still run, or are still exiting.
        let has_ended = matches!(state, b'Z' | b'X' | b'x') && threads <= 1;
        if has_ended {
            return Ok(None);
        }
        Ok(Some(Self { pid, start_ticks: boot_clock::unshifted(start_ticks)? }))
    }

    /// Returns whether this very process still runs. One that cannot be read counts as alive, so that nothing of it is
    /// removed.
    pub fn is_alive(&self) -> bool {
        Self::of(self.pid).map_or(true, |now| now == Some(*self))
    }

    /// Sends a signal to this very process; `false` if it has ended. A pidfd closes the gap between the check of the
    /// identity and the signal, in which the pid could be reused.
    pub fn signal(&self, signal: i32) -> io::Result<bool> {
        let Some(pidfd) = open_pidfd(self.pid)? else { return Ok(false) };
        if !self.is_alive() {
            return Ok(false);
        }
        let none = std::ptr::null::<libc::siginfo_t>();
        // SAFETY: the descriptor is open for the length of the call, and a null siginfo asks for the default one.
        let result = unsafe { libc::syscall(libc::SYS_pidfd_send_signal, pidfd.as_raw_fd(), signal, none, 0) };
        match result {
            0 => Ok(true),
            _ => match io::Error::last_os_error() {
                error if is_gone(&error) => Ok(false),
                error => Err(error),
            },
        }
    }
}

/// Sends a signal to every process of a group (kill(2)); 0 sends none. `false` if the group has no process. The caller knows that
/// the group is its own: one whose leader is its child, or was a moment ago.
pub fn kill_group(leader: u32, signal: i32) -> io::Result<bool> {
    // 0 and 1 have other meanings there: the caller's own group, and every process.
    let group = i32::try_from(leader).ok().filter(|group| *group > 1).ok_or(io::ErrorKind::InvalidInput)?;
    // SAFETY: kill takes no pointer.
    if unsafe { libc::kill(-group, signal) } == 0 {
        return Ok(true);
    }
    match io::Error::last_os_error() {
        error if is_gone(&error) => Ok(false),
        error => Err(error),
    }
}

/// Returns the state of a process as proc_pid_stat(5) names it: `R` running, `S` sleeping, `T` stopped, `Z` a zombie; `None` if
/// there is no such process.
pub fn state_of(pid: u32) -> io::Result<Option<char>> {
    match fs::read(format!("/proc/{pid}/stat")) {
        Ok(stat) => Ok(parse_stat(&stat).map(|stat| char::from(stat.state))),
        Err(error) if is_gone(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns whether some process has this pid, visible in /proc or not.
fn exists(pid: u32) -> bool {
    open_pidfd(pid).map_or(true, |found| found.is_some())
}

/// A watch on one process: a pidfd, which becomes readable for poll(2) and epoll(7) as soon as the process ends.
#[derive(Debug)]
pub struct Watch(pub(crate) OwnedFd);

impl Watch {
    /// Watches this very process; `None` if it has ended.
    pub fn new(process: Process) -> io::Result<Option<Self>> {
        let pidfd = open_pidfd(process.pid)?;
        // The pid may have been reused before it was opened, but not after.
        Ok(pidfd.filter(|_| process.is_alive()).map(Self))
    }

    /// Returns whether the process has ended, by one system call, without /proc.
    pub fn has_ended(&self) -> bool {
        let mut poll = libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: `poll` is one valid pollfd; a timeout of zero returns at once.
        unsafe { libc::poll(&mut poll, 1, 0) > 0 }
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The calling thread's number (gettid(2)), as its pid namespace sees it.
pub fn thread_id() -> u32 {
    // SAFETY: the call takes nothing and always succeeds.
    unsafe { libc::gettid() }.cast_unsigned()
}

/// Returns whether thread numbers here are those that tracepoints tell: outside of containers with a pid namespace of their own.
/// The first namespace has a fixed number (PROC_PID_INIT_INO of linux/proc_ns.h).
pub fn is_in_first_pid_namespace() -> bool {
    fs::metadata("/proc/self/ns/pid").is_ok_and(|namespace| namespace.ino() == 0xEFFF_FFFC)
}

/// The effective user.
pub fn effective_uid() -> u32 {
    // SAFETY: geteuid takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

/// Returns whether the effective user is root.
pub fn is_root() -> bool {
    effective_uid() == 0
}

/// Makes the program receive SIGKILL when the *thread* that spawns it ends (prctl(2), PR_SET_PDEATHSIG). Spawn it from
/// a thread that lives as long as the program is needed.
pub fn die_with_parent(command: &mut Command) {
    let parent = std::process::id();
    let bind = move || {
        // SAFETY: prctl with PR_SET_PDEATHSIG takes no pointer.
        if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // The parent may have died between fork and prctl: the signal would then never come.
        // SAFETY: getppid takes nothing and cannot fail.
        if unsafe { libc::getppid() }.cast_unsigned() == parent { Ok(()) } else { Err(libc_error(libc::ESRCH)) }
    };
    // SAFETY: between fork and exec the closure makes only the system calls prctl and getppid; it neither allocates nor
    // takes a lock.
    unsafe { command.pre_exec(bind) };
}

/// Makes the program the leader of a new session, so that it outlives the terminal and its Ctrl-C.
pub fn detach(command: &mut Command) {
    let lead = || {
        // SAFETY: setsid takes nothing; a child between fork and exec is no group leader, so it may call it.
        if unsafe { libc::setsid() } == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
    };
    // SAFETY: between fork and exec the closure makes only the system call setsid.
    unsafe { command.pre_exec(lead) };
}

/// Makes timed waits of the calling thread end when they are due, not up to 50 us later (prctl(2), PR_SET_TIMERSLACK).
pub fn minimize_timer_slack() -> io::Result<()> {
    // SAFETY: prctl with PR_SET_TIMERSLACK takes no pointer; 1 ns is the least, as 0 means the default.
    if unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

pub(crate) fn open_pidfd(pid: u32) -> io::Result<Option<OwnedFd>> {
    // SAFETY: pidfd_open takes no pointer.
    let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    if descriptor < 0 {
        let error = io::Error::last_os_error();
        return if is_gone(&error) { Ok(None) } else { Err(error) };
    }
    let descriptor = i32::try_from(descriptor).map_err(|_| libc_error(libc::EBADF))?;
    // SAFETY: the kernel has just returned this descriptor and nobody else owns it.
    Ok(Some(unsafe { OwnedFd::from_raw_fd(descriptor) }))
}

/// The fields of `/proc/PID/stat` that are used here.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    state: u8,
    threads: u64,
    start_ticks: u64,
}

/// The command name (field 2) may contain blanks and parentheses: fields are counted from its last parenthesis.
fn parse_stat(stat: &[u8]) -> Option<Stat> {
    let name_end = stat.iter().rposition(|&byte| byte == b')')?;
    let mut fields = stat[name_end + 1..].split(u8::is_ascii_whitespace).filter(|field| !field.is_empty());
    let number = |field: &[u8]| std::str::from_utf8(field).ok()?.parse().ok();
    let state = *fields.next()?.first()?;
    // `state` is field 3 of the line; these are 20 and 22.
    let threads = number(fields.nth(16)?)?;
    let start_ticks = number(fields.nth(1)?)?;
    Some(Stat { state, threads, start_ticks })
}

/// A process that ends while its entry is read gives ESRCH instead of ENOENT.
fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH))
}

fn libc_error(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}

/// Gives the calling thread its own table of descriptors, a copy of the shared one. A system call on a descriptor of an
/// unshared table takes no reference to the file, which saves two atomic operations. A C loop with a second, sleeping
/// thread was slower by up to 1 % in most rounds, which is near the noise of the machine.
///
/// Descriptors opened or closed afterwards on one side are not seen by the other.
pub fn unshare_descriptors() -> io::Result<()> {
    // SAFETY: CLONE_FILES alone changes nothing but whose table the thread's descriptors are in; the numbers stay valid.
    let result = unsafe { libc::unshare(libc::CLONE_FILES) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_alive_and_its_twin_is_not() {
        let this = Process::this().unwrap();
        assert!(this.is_alive());
        let reused = Process { start_ticks: this.start_ticks + 1, ..this };
        assert!(!reused.is_alive());
        assert!(!reused.signal(libc::SIGKILL).unwrap());
    }

    #[test]
    fn a_child_ends_by_signal_and_a_zombie_is_dead() {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let process = Process::of(child.id()).unwrap().unwrap();
        let watch = Watch::new(process).unwrap().unwrap();
        assert!(!watch.has_ended());
        assert!(process.signal(libc::SIGKILL).unwrap());
        while process.is_alive() {
            std::thread::yield_now();
        }
        assert_eq!(Process::of(child.id()).unwrap(), None);
        assert!(watch.has_ended());
        child.wait().unwrap();
        assert!(Watch::new(process).unwrap().is_none());
        assert!(!process.signal(libc::SIGKILL).unwrap());
    }

    #[test]
    fn a_group_ends_as_a_whole_and_the_callers_own_is_not_meant() {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 1000 & exec sleep 1000"]).process_group(0);
        let mut child = command.spawn().unwrap();
        let leader = child.id();
        assert!(kill_group(leader, 0).unwrap());
        assert!(kill_group(leader, libc::SIGKILL).unwrap());
        child.wait().unwrap();
        while kill_group(leader, 0).unwrap() {
            std::thread::yield_now();
        }
        for other in [0, 1, u32::MAX] {
            assert_eq!(kill_group(other, 0).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
    }

    /// Runs this test alone, as a user to whom /proc does not show the processes of others; the environment names one.
    #[test]
    fn a_process_that_proc_does_not_show_is_alive() {
        if let Ok(pid) = std::env::var("SIDESTEP_HIDDEN") {
            let hidden = Process { pid: pid.parse().unwrap(), start_ticks: 1 };
            assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists(), "it is hidden");
            assert!(hidden.is_alive() && Process::of(hidden.pid).is_err());
            return;
        }
        if !is_root() {
            return eprintln!("skipped: needs root");
        }
        let folder = tempfile::tempdir().unwrap();
        let copy = folder.path().join("test");
        // Copied by another process: a child that another test forks meanwhile would hold the copy open (ETXTBSY).
        assert!(Command::new("cp").arg(std::env::current_exe().unwrap()).arg(&copy).status().unwrap().success());
        for path in [folder.path(), &copy] {
            fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        }
        let script = "mount -t proc -o hidepid=2 proc /proc && exec setpriv --reuid=65534 --regid=65534 --clear-groups \
                      \"$0\" --exact process::tests::a_process_that_proc_does_not_show_is_alive";
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", script]).arg(&copy);
        let done = command.env("SIDESTEP_HIDDEN", std::process::id().to_string()).output().unwrap();
        assert!(
            done.status.success(),
            "{}{}",
            String::from_utf8_lossy(&done.stdout),
            String::from_utf8_lossy(&done.stderr)
        );
    }

    /// Runs this test alone in a time namespace whose boot clock is shifted (unshare --boottime).
    #[test]
    fn a_process_is_the_same_in_another_time_namespace() {
        if let Ok(names) = std::env::var("SIDESTEP_SHIFTED") {
            let (pid, start) = names.split_once(' ').unwrap();
            let outside = Process { pid: pid.parse().unwrap(), start_ticks: start.parse().unwrap() };
            assert!(outside.is_alive(), "{:?} from in here", Process::of(outside.pid));
            assert!(Process::this().unwrap().is_alive());
            return;
        }
        if !is_root() {
            return eprintln!("skipped: needs root");
        }
        if !std::path::Path::new("/proc/self/timens_offsets").exists() {
            return eprintln!("skipped: this kernel has no time namespaces");
        }
        let this = Process::this().unwrap();
        for shift in ["1000", "86400"] {
            let mut command = Command::new("unshare");
            command.args(["--time", "--boottime", shift, "--fork"]).arg(std::env::current_exe().unwrap());
            command.args(["--exact", "process::tests::a_process_is_the_same_in_another_time_namespace"]);
            let done = command.env("SIDESTEP_SHIFTED", format!("{} {}", this.pid, this.start_ticks)).output().unwrap();
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
        }
    }

    #[test]
    fn a_child_bound_to_its_parent_dies_with_the_spawning_thread() {
        let spawn = || {
            let mut command = Command::new("sleep");
            die_with_parent(command.arg("1000"));
            command.spawn().unwrap()
        };
        let mut child = std::thread::spawn(spawn).join().unwrap();
        assert!(!child.wait().unwrap().success());
    }

    #[test]
    fn a_detached_child_leads_its_session() {
        let mut command = Command::new("sleep");
        detach(command.arg("1000"));
        let mut child = command.spawn().unwrap();
        let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
        let session = stat.rsplit(')').next().unwrap().split_whitespace().nth(3).unwrap().to_owned();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(session, child.id().to_string());
    }

    #[test]
    fn the_name_may_hold_parentheses_and_blanks() {
        let stat = b"7 (a) b) (c) S 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 4711 23";
        assert_eq!(parse_stat(stat), Some(Stat { state: b'S', threads: 20, start_ticks: 4711 }));
        assert_eq!(parse_stat(b"7 (a) S 1"), None);
        assert_eq!(parse_stat(b""), None);
    }
}
