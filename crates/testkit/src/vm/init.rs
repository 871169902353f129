//! Pid 1 of the machine: mounts the usual file systems, loads the modules, runs the tests in turn, switches off.

use super::transcript::{MARK, PASSED};
use super::{LONG, image};
use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, mount};
use rustix::system::{RebootCommand, finit_module, reboot};
use rustix::termios::tcdrain;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The second serial port.
const PORT: &str = "/dev/ttyS1";
/// The time limit of a test, also on an emulated CPU; a slower one hangs.
const LIMIT: Duration = Duration::from_secs(180);
/// The same where the long form of tests was asked for.
const LONG_LIMIT: Duration = Duration::from_secs(1800);
/// The folders of programs.
const PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";
/// Type, mount point, and whether a kernel may lack it. Nothing is mounted over /tmp, which is in memory anyway: the
/// programs may have been built there, and keep their paths.
const MOUNTS: [(&str, &str, bool); 8] = [
    ("devtmpfs", "/dev", false),
    ("proc", "/proc", false),
    ("sysfs", "/sys", false),
    ("tmpfs", "/run", false),
    ("tmpfs", "/dev/shm", false),
    ("bpf", "/sys/fs/bpf", false),
    ("cgroup2", "/sys/fs/cgroup", false),
    ("debugfs", "/sys/kernel/debug", true),
];
/// Words in the kernel's log that fail a test.
const COMPLAINTS: [&str; 6] = ["BUG:", "BUG ", "WARNING:", "Oops", "general protection fault", "UBSAN:"];

/// Runs everything and never returns: the end of pid 1 is a kernel panic.
pub(super) fn run() -> ! {
    let mounted = mounts();
    match Port::open() {
        Ok(mut port) => {
            mounted.into_iter().for_each(|fault| port.mark(&format!("fault {fault}")));
            prepare(&mut port);
            tests(&mut port);
            port.mark("done");
            port.drain();
        }
        Err(error) => eprintln!("{PORT}: {error}"),
    }
    let _ = reboot(RebootCommand::PowerOff);
    loop {
        thread::park();
    }
}

/// Mounts the file systems; returns the failures.
fn mounts() -> Vec<String> {
    let mut faults = Vec::new();
    for (kind, place, may_fail) in MOUNTS {
        let _ = fs::create_dir(place);
        if let Err(error) = mount(kind, place, kind, MountFlags::empty(), None)
            && !may_fail
        {
            faults.push(format!("cannot mount {place}: {error}"));
        }
    }
    // The place of iproute2's names of network namespaces.
    if let Err(error) = fs::create_dir_all("/var").and_then(|()| symlink("/run", "/var/run")) {
        faults.push(format!("cannot make /var/run: {error}"));
    }
    faults
}

fn prepare(port: &mut Port) {
    let list = fs::read_to_string(image::MODULES).unwrap_or_default();
    for path in list.lines() {
        let loaded = File::open(path).and_then(|file| Ok(finit_module(&file, c"", 0)?));
        if let Err(error) = loaded {
            port.mark(&format!("fault cannot load {path}: {error}"));
        }
    }
    let up = Command::new("ip").args(["link", "set", "lo", "up"]).env("PATH", PATH).status();
    if !up.as_ref().is_ok_and(ExitStatus::success) {
        port.mark(&format!("fault cannot set lo up: {up:?}"));
    }
}

fn tests(port: &mut Port) {
    let mut log = KernelLog::open();
    let _ = log.news();
    for name in fs::read_to_string(image::TESTS).unwrap_or_default().lines() {
        port.mark(&format!("begin {name}"));
        let verdict = test(name, port).unwrap_or_else(|error| error.to_string());
        let news = log.news();
        port.say(&news);
        let complained = news.lines().any(is_complaint);
        let verdict = if complained && verdict == PASSED { "the kernel complained".to_owned() } else { verdict };
        port.mark(&format!("end {name} {verdict}"));
    }
}

/// Returns whether a line is a complaint. A soft lockup only means that a CPU was not emulated for a while.
fn is_complaint(line: &str) -> bool {
    COMPLAINTS.iter().any(|word| line.contains(word)) && !line.contains("soft lockup")
}

/// Runs one test in its own process; returns its verdict.
fn test(name: &str, port: &Port) -> io::Result<String> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--exact", name, "--nocapture", "--test-threads=1"]).env("PATH", PATH);
    command.stdin(Stdio::null()).stdout(port.0.try_clone()?).stderr(port.0.try_clone()?);
    let mut child = command.spawn()?;
    Ok(match wait(&mut child)? {
        Some(status) if status.success() => PASSED.to_owned(),
        Some(status) => {
            status.signal().map_or_else(|| status.to_string(), |signal| format!("killed by signal {signal}"))
        }
        None => format!("not done after {} s", limit().as_secs()),
    })
}

fn limit() -> Duration {
    if std::env::var_os(LONG).is_some() { LONG_LIMIT } else { LIMIT }
}

/// Waits until the limit; `None` if the child had to be killed.
fn wait(child: &mut Child) -> io::Result<Option<ExitStatus>> {
    let deadline = Instant::now() + limit();
    while Instant::now() < deadline {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        thread::sleep(Duration::from_millis(5));
    }
    child.kill()?;
    child.wait()?;
    Ok(None)
}

/// The serial port to the host.
struct Port(File);

impl Port {
    fn open() -> io::Result<Self> {
        Ok(Self(OpenOptions::new().read(true).write(true).open(PORT)?))
    }

    fn mark(&mut self, text: &str) {
        self.say(&format!("{MARK}{text}\n"));
    }

    fn say(&mut self, text: &str) {
        let _ = self.0.write_all(text.as_bytes());
    }

    /// Waits until everything is sent: the power goes off at once.
    fn drain(&self) {
        let _ = tcdrain(&self.0);
    }
}

/// /dev/kmsg: a record for each read, "LEVEL,SEQUENCE,TIME,FLAGS;TEXT".
struct KernelLog(Option<File>);

impl KernelLog {
    fn open() -> Self {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK;
        Self(rustix::fs::open("/dev/kmsg", flags, Mode::empty()).ok().map(File::from))
    }

    /// The warnings, and worse, that were logged since the last call.
    fn news(&mut self) -> String {
        let Some(file) = &mut self.0 else { return String::new() };
        let (mut news, mut record) = (String::new(), [0; 8192]);
        while let Ok(length @ 1..) = file.read(&mut record) {
            news += &warning(&String::from_utf8_lossy(&record[..length])).unwrap_or_default();
        }
        news
    }
}

/// The text of a record of level warning (4) or worse; the lowest three bits hold the level.
fn warning(record: &str) -> Option<String> {
    let (prefix, text) = record.split_once(';')?;
    let level: u32 = prefix.split(',').next()?.parse().ok()?;
    (level & 7 <= 4).then(|| format!("kernel: {}\n", text.lines().next().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_and_worse_are_told() {
        assert_eq!(warning("4,1,2,-;WARNING: CPU: 0\n SUBSYSTEM=x\n"), Some("kernel: WARNING: CPU: 0\n".into()));
        assert_eq!(warning("12,1,2,-;user.warning"), Some("kernel: user.warning\n".into()));
        assert_eq!(warning("6,1,2,-;hello"), None);
        assert_eq!(warning("x;y"), None);
        assert_eq!(warning(""), None);
    }
}
