//! CPUs: which exist, which this thread may use, pinning.

use crate::Problem;
use std::io;
use std::sync::OnceLock;

/// The kernel's limit on what `cpu_set_t` can name.
const CPUS_MAX: usize = libc::CPU_SETSIZE as usize;

/// The answer of [`allowed`] before the first [`restrict`] of this process.
static BEGAN_WITH: OnceLock<Vec<u32>> = OnceLock::new();

/// The CPUs that the calling thread may run on, in order.
pub fn allowed() -> Vec<u32> {
    let mut set = empty();
    // SAFETY: `set` is a cpu_set_t of the size given; pid 0 is the calling thread.
    let result = unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) };
    if result != 0 {
        return Vec::new();
    }
    // SAFETY: the index is below CPU_SETSIZE.
    (0..CPUS_MAX).filter(|cpu| unsafe { libc::CPU_ISSET(*cpu, &set) }).map(|cpu| cpu as u32).collect()
}

/// Restricts the calling thread to `cpus`.
pub fn restrict(cpus: &[u32]) -> Result<(), Problem> {
    BEGAN_WITH.get_or_init(allowed);
    let mut set = empty();
    for &cpu in cpus {
        if cpu as usize >= CPUS_MAX {
            return Err(no_such_cpu(cpu));
        }
        // SAFETY: the index is below CPU_SETSIZE.
        unsafe { libc::CPU_SET(cpu as usize, &mut set) };
    }
    // SAFETY: `set` is a cpu_set_t of the size given; pid 0 is the calling thread.
    let result = unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) };
    match result {
        0 => Ok(()),
        _ if io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL) => {
            Err(no_such_cpu(cpus.first().copied().unwrap_or_default()))
        }
        _ => Err(Problem::failed(format!("cannot run on CPU {cpus:?}"), io::Error::last_os_error())),
    }
}

/// The CPUs for a helper thread: those that the process had before its first [`restrict`] and that are not its maker's.
/// A helper of a thread that is pinned to one CPU would inherit that CPU, and would wait whenever its maker spins.
/// `maker` is the answer of [`allowed`] in the thread that starts the helper. Returns `None` if the maker may use
/// several CPUs, if no other CPU exists, or if threads were restricted by other means than [`restrict`].
pub fn helper_cpus(maker: &[u32]) -> Option<Vec<u32>> {
    let (&[pinned], Some(began_with)) = (maker, BEGAN_WITH.get()) else { return None };
    let others: Vec<u32> = began_with.iter().copied().filter(|cpu| *cpu != pinned).collect();
    if others.is_empty() { None } else { Some(others) }
}

/// Moves the calling thread to the [`helper_cpus`] of the thread that started it, if there are any. Returns the CPUs
/// that it may now use.
pub fn move_to_helper_cpus(maker: &[u32]) -> Vec<u32> {
    if let Some(others) = helper_cpus(maker) {
        // A CPU may have gone offline meanwhile: the thread then stays where its maker is.
        let _ = restrict(&others);
    }
    allowed()
}

/// The highest real-time priority (sched(7)).
const PRIORITY_MAX: u8 = 99;

/// Gives the calling thread, its future threads and programs that it executes a real-time priority (SCHED_FIFO,
/// 1..=99): they run before every thread without one, until they sleep. Needs CAP_SYS_NICE or RLIMIT_RTPRIO.
///
/// By default (kernel.sched_rt_runtime_us), the kernel takes a spinning real-time thread off its CPU for 50 ms in every
/// second.
pub fn run_fifo(priority: u8) -> Result<(), Problem> {
    let what = || format!("cannot run with real-time priority {priority}");
    if !(1..=PRIORITY_MAX).contains(&priority) {
        return Err(Problem::usage(what(), format!("priorities are 1 to {PRIORITY_MAX}")));
    }
    let parameters = libc::sched_param { sched_priority: priority.into() };
    // SAFETY: the parameters live until after the call; pid 0 is the calling thread.
    if unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &parameters) } == 0 {
        return Ok(());
    }
    Err(Problem::failed(what(), io::Error::last_os_error())
        .next("run as root, or raise the limit: ulimit -r, LimitRTPRIO= of systemd"))
}

/// Lets the calling thread run only while no other thread wants its CPU (SCHED_IDLE): a thread that keeps a CPU awake.
pub fn run_idle() -> Result<(), Problem> {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: the parameters live until after the call; pid 0 is the calling thread.
    if unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &parameters) } == 0 {
        return Ok(());
    }
    Err(Problem::failed("cannot run with the lowest priority (SCHED_IDLE)", io::Error::last_os_error()))
}

/// Checks that a helper of the calling thread, which may be pinned, can have `cpu`: one of those that the process
/// started with.
pub fn check_helper_cpu(cpu: u32) -> Result<(), Problem> {
    if BEGAN_WITH.get().is_some_and(|began_with| began_with.contains(&cpu)) { Ok(()) } else { check(cpu) }
}

/// Checks that the calling thread may run on `cpu`.
pub fn check(cpu: u32) -> Result<(), Problem> {
    if allowed().contains(&cpu) { Ok(()) } else { Err(no_such_cpu(cpu)) }
}

fn no_such_cpu(cpu: u32) -> Problem {
    let allowed: Vec<String> = allowed().iter().map(u32::to_string).collect();
    Problem::usage(format!("cannot use CPU {cpu}"), "it does not exist or this process may not run on it")
        .next(format!("choose from: {}", allowed.join(",")))
}

/// The hypervisor's name, if this is a virtual machine and says so (CPUID 40000000H).
pub fn hypervisor() -> Option<String> {
    #[cfg(target_arch = "x86_64")]
    return raw_cpuid::CpuId::new().get_hypervisor_info().map(|info| format!("{:?}", info.identify()));
    #[cfg(not(target_arch = "x86_64"))]
    return None;
}

fn empty() -> libc::cpu_set_t {
    // SAFETY: cpu_set_t is a plain bit array; all zeroes is the empty set.
    unsafe { std::mem::zeroed() }
}

/// The number of involuntary context switches of the calling thread (`ru_nivcsw`).
pub fn involuntary_switches() -> u64 {
    // SAFETY: rusage is plain data; all zeroes is valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is a valid rusage to write to.
    let result = unsafe { libc::getrusage(libc::RUSAGE_THREAD, &mut usage) };
    if result == 0 { usage.ru_nivcsw as u64 } else { 0 }
}

/// CPU time of the calling thread, user and system, nanoseconds (CLOCK_THREAD_CPUTIME_ID); 0 if it cannot be read. What
/// interrupts and softirqs do on its CPU in its time is in it, unless the kernel accounts for that apart
/// (CONFIG_IRQ_TIME_ACCOUNTING).
pub fn thread_time_ns() -> u64 {
    // SAFETY: timespec is plain data; all zeroes is valid.
    let mut time: libc::timespec = unsafe { std::mem::zeroed() };
    // SAFETY: `time` is a valid timespec to write to.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    if result == 0 { time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64 } else { 0 }
}

/// The CPU that the calling thread runs on (getcpu(2)); none if the kernel does not say. An unpinned thread may have left it already.
pub fn current() -> Option<u32> {
    // SAFETY: the call takes no arguments and touches no memory of ours.
    u32::try_from(unsafe { libc::sched_getcpu() }).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_spends_time_of_its_own() {
        let before = thread_time_ns();
        assert!(before > 0);
        while thread_time_ns() - before < 1_000_000 {}
        let other = std::thread::spawn(thread_time_ns).join().unwrap();
        assert!(other < thread_time_ns());
    }

    #[test]
    fn pins_and_reads_back() {
        let before = allowed();
        let last = *before.last().expect("a thread runs somewhere");
        std::thread::spawn(move || {
            restrict(&[last]).expect("an allowed CPU can be pinned to");
            assert_eq!(allowed(), [last]);
            assert_eq!(current(), Some(last));
        })
        .join()
        .expect("the pinned thread ends well");
        assert_eq!(allowed(), before, "only the pinned thread changed");
    }

    #[test]
    fn helpers_of_a_pinned_thread_go_elsewhere_if_there_is_elsewhere() {
        let before = allowed();
        let helper =
            |maker: Vec<u32>| std::thread::spawn(move || move_to_helper_cpus(&maker)).join().expect("it ends well");
        let work = move || {
            let free = helper(before.clone());
            let last = *before.last().expect("a thread runs somewhere");
            restrict(&[last]).expect("it was allowed");
            assert!(
                before.iter().all(|cpu| check_helper_cpu(*cpu).is_ok()),
                "a helper can have what the process began with"
            );
            (free, helper(allowed()), before, last)
        };
        let (free, beside, before, last) = std::thread::spawn(work).join().expect("it ends well");
        assert_eq!(free, before, "who is not restricted is in nobody's way");
        let others: Vec<u32> = before.iter().copied().filter(|cpu| *cpu != last).collect();
        if !others.is_empty() {
            assert!(!beside.contains(&last) && !beside.is_empty(), "{beside:?}");
        }
    }

    #[test]
    fn a_priority_is_taken_or_refused() {
        assert!(run_fifo(0).is_err() && run_fifo(100).is_err());
        if !crate::process::is_root() {
            eprintln!("skipped: needs root");
            return;
        }
        let stat = std::thread::spawn(|| {
            run_fifo(7).unwrap();
            std::fs::read_to_string("/proc/thread-self/stat").unwrap()
        });
        let stat = stat.join().unwrap();
        // Fields 40 and 41 of proc_pid_stat(5): priority, and class, of which SCHED_FIFO is 1.
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        assert_eq!(fields[37..39], ["7", "1"]);
    }

    #[test]
    fn a_missing_cpu_is_named() {
        for cpu in [1023, 100_000] {
            let problem = restrict(&[cpu]).expect_err("no such CPU here");
            assert!(problem.to_string().contains(&format!("CPU {cpu}")), "{problem}");
            assert!(check(cpu).is_err());
        }
    }
}
