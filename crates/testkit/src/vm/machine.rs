//! QEMU: an emulated machine with two CPUs and two serial ports, one for the kernel's log, one for the tests' output.

use super::cable::Laid;
use super::kernel::Files;
use super::transcript::Transcript;
use super::{INSIDE, LONG, Plan, image, libraries};
use sidestep_sys::{Problem, process};
use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The kernel's log, in the machine's folder.
const LOG: &str = "kernel.log";
const QEMU: &str = "qemu-system-x86_64";
/// Memory of the machine: the image twice (as archive and unpacked), and space for the tests.
const MEMORY: &str = "1024M";
/// The time limit of a machine. A boot takes 3 to 10 s, a test some 60 s at most (init stops it).
const LIMIT: Duration = Duration::from_secs(900);
/// The same where the long form of tests was asked for.
const LONG_LIMIT: Duration = Duration::from_secs(3600);
/// The kernel's message, once a minute, about a CPU that makes no progress; after this many it never will.
const STALL: &str = "rcu_preempt detected stalls";
const STALLS: usize = 3;
/// The kernel's message where an emulated CPU has trapped on an instruction that the kernel was just patching (jump labels), and the
/// trap came too late to be recognised: with QEMU's TCG alone.
const PATCHED: &str = "Oops: int3";
/// What the kernel says before it ends the machine.
const COMPLAINTS: [&str; 4] = ["Kernel panic", "Oops", "BUG:", "WARNING:"];
/// The most boots of a machine that its emulation has ended.
const BOOTS_MAX: u32 = 3;
/// The interval between two checks of the log for it.
const LOOK: Duration = Duration::from_secs(5);
/// The limit of the output; more is read and discarded.
const OUTPUT_BYTES_MAX: usize = 8 << 20;
/// The number of log lines shown if a machine has ended too early.
const LOG_LINES: usize = 60;

/// Options that shorten the boot of an emulated CPU: no self-tests, no mitigations, no calibration; and a kernel that
/// ends the machine when it panics.
const COMMAND_LINE: &str = "console=ttyS0 loglevel=5 panic=-1 mitigations=off nokaslr no_timer_check tsc=reliable \
                            cryptomgr.notests initcall_blacklist=jent_mod_init random.trust_cpu=on";

/// The end of a machine.
#[derive(Debug)]
pub(super) struct Ended {
    /// The output on the port of the tests.
    pub(super) output: String,
    /// The end of the kernel's log.
    pub(super) log: String,
    /// True if it had to be stopped.
    pub(super) is_late: bool,
}

/// The reason why no machine can run here; `None` if QEMU is installed.
pub(super) fn unavailable() -> Option<Problem> {
    let missing = libraries::find(QEMU).err()?;
    Some(missing.next("install it with: apt-get install --no-install-recommends qemu-system-x86"))
}

/// A machine to boot.
pub(super) struct Machine<'a> {
    /// The folder of its log.
    pub(super) folder: &'a Path,
    pub(super) kernel: &'a Files,
    pub(super) plan: &'a Plan,
    pub(super) cable: Option<&'a Laid>,
    pub(super) image: &'a Path,
    /// The argument for pid 1: any of the tests.
    pub(super) first_test: &'a str,
}

impl Machine<'_> {
    /// Boots the kernel with the image and waits for the end. Rarely, an emulated CPU stops for good in a timer
    /// interrupt, traps on an instruction that is being patched, or resets the machine; it is then booted again, with a message.
    pub(super) fn run(&self) -> Result<Ended, Problem> {
        let mut boots_left = BOOTS_MAX;
        loop {
            let ended = self.boot()?;
            boots_left -= 1;
            match self.fault(&ended) {
                Some(fault) if boots_left > 0 => eprintln!("{fault}: the emulated machine is booted once more"),
                _ => return Ok(ended),
            }
        }
    }

    /// What an emulated CPU has done wrong, if it has.
    fn fault(&self, ended: &Ended) -> Option<String> {
        let log = self.log();
        if ended.is_late {
            return has_stalled(&log).then(|| format!("its CPUs stopped ({STALL})"));
        }
        if says(&log, PATCHED) > 0 {
            return Some(format!("a CPU met an instruction that was being patched ({PATCHED})"));
        }
        has_vanished(&ended.output, &log)
            .then(|| "it ended, and neither its tests nor its kernel have said why".to_owned())
    }

    fn boot(&self) -> Result<Ended, Problem> {
        let log = self.log();
        let mut command = Command::new(libraries::find(QEMU)?);
        command.args(arguments(self.kernel, self.plan, self.image, &log));
        command.arg("-append").arg(command_line(self.first_test, self.plan.arguments)?);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(cable) = self.cable {
            cable.apply_to(&mut command)?;
        }
        process::die_with_parent(&mut command);
        let mut child = command.spawn().map_err(|error| Problem::failed(format!("cannot run {QEMU}"), error))?;
        let streams = (child.stdout.take(), child.stderr.take());
        let output = streams.0.map(|stream| thread::spawn(|| read_all(stream)));
        let complaints = streams.1.map(|stream| thread::spawn(|| read_all(stream)));
        let limit = if std::env::var_os(LONG).is_some() { LONG_LIMIT } else { LIMIT };
        let is_late = !ends_by(&mut child, Instant::now() + limit, || has_stalled(&log));
        let text =
            |reader: Option<thread::JoinHandle<String>>| reader.and_then(|one| one.join().ok()).unwrap_or_default();
        let output = text(output);
        let log = fs::read(&log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
        Ok(Ended { output, log: last_lines(&log) + &text(complaints), is_late })
    }

    fn log(&self) -> PathBuf {
        self.folder.join(LOG)
    }
}

fn arguments(kernel: &Files, plan: &Plan, image: &Path, log: &Path) -> Vec<OsString> {
    let fixed =
        "-accel tcg -cpu max -machine q35 -smp 2 -nodefaults -no-user-config -no-reboot -display none -monitor none";
    let mut arguments: Vec<OsString> = fixed.split(' ').map(OsString::from).collect();
    let mut log_port = OsString::from("file:");
    log_port.push(log);
    arguments.extend(["-m", MEMORY, "-serial"].map(OsString::from));
    arguments.extend([log_port, "-serial".into(), "stdio".into()]);
    arguments.extend(["-kernel".into(), kernel.vmlinux.clone().into(), "-initrd".into(), image.into()]);
    arguments.extend(plan.devices.iter().flat_map(|device| ["-device".into(), device.into()]));
    arguments.extend(plan.cable.iter().flat_map(|cable| cable.arguments()).map(OsString::from));
    arguments
}

/// The kernel passes words after `--` to init, and unknown words as its environment.
fn command_line(first_test: &str, arguments: &str) -> Result<String, Problem> {
    let binary = image::this_binary()?;
    let plain = |text: &str| !text.contains([' ', '"']);
    let path = binary.to_str().filter(|path| plain(path) && plain(first_test)).ok_or_else(|| {
        let why = "a kernel's command line cannot name a path that is not text, or has a blank in it";
        Problem::failed(format!("cannot boot {}", binary.display()), why)
    })?;
    let long = if std::env::var_os(LONG).is_some() { format!("{LONG}=1 ") } else { String::new() };
    Ok(format!("{COMMAND_LINE} {arguments} {long}{INSIDE}=1 rdinit={path} -- --exact {first_test} --nocapture"))
}

/// Returns whether the machine has ended as if its power were cut: QEMU ends it so where the kernel's handlers of faults fault themselves.
fn has_vanished(output: &str, log: &Path) -> bool {
    !Transcript::read(output).is_whole && COMPLAINTS.iter().all(|complaint| says(log, complaint) == 0)
}

/// Returns whether the kernel has reported for minutes that a CPU makes no progress.
fn has_stalled(log: &Path) -> bool {
    says(log, STALL) >= STALLS
}

/// The number of times that a log has a text, also before its last lines: a trace can be longer than these.
fn says(log: &Path, text: &str) -> usize {
    fs::read(log).map_or(0, |bytes| String::from_utf8_lossy(&bytes).matches(text).count())
}

/// Waits for the end of the child, and kills it at the deadline or when it has stalled; returns whether it ended by
/// itself.
fn ends_by(child: &mut Child, deadline: Instant, has_stalled: impl Fn() -> bool) -> bool {
    let mut look_at = Instant::now() + LOOK;
    while Instant::now() < deadline {
        if Instant::now() >= look_at {
            if has_stalled() {
                break;
            }
            look_at += LOOK;
        }
        match child.try_wait() {
            Ok(None) => thread::sleep(Duration::from_millis(20)),
            Ok(Some(_)) | Err(_) => return true,
        }
    }
    let _ = child.kill();
    let _ = child.wait();
    false
}

/// Reads everything up to the limit, as text; the rest is drained, so that the writer does not block.
fn read_all(mut stream: impl Read) -> String {
    let (mut bytes, mut chunk) = (Vec::new(), [0; 4096]);
    while let Ok(length @ 1..) = stream.read(&mut chunk) {
        let room = OUTPUT_BYTES_MAX - bytes.len();
        bytes.extend_from_slice(&chunk[..length.min(room)]);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn last_lines(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES)..].iter().map(|line| format!("{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_bounded() {
        let long = std::io::repeat(b'x').take(OUTPUT_BYTES_MAX as u64 + 5000);
        assert_eq!(read_all(long).len(), OUTPUT_BYTES_MAX);
        let log: String = (0..100).map(|line| format!("{line}\n")).collect();
        assert!(last_lines(&log).starts_with("40\n") && last_lines(&log).ends_with("99\n"));
        assert_eq!(last_lines("a"), "a\n");
    }

    #[test]
    fn a_command_that_hangs_is_stopped() {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        assert!(!ends_by(&mut child, Instant::now() + Duration::from_millis(30), || false));
        let mut child = Command::new("true").spawn().unwrap();
        assert!(ends_by(&mut child, Instant::now() + LIMIT, || false));
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join(LOG);
        assert!(!has_stalled(&log), "there is none yet");
        fs::write(&log, format!("rcu: INFO: {STALL} on CPUs/tasks:\n").repeat(STALLS)).unwrap();
        assert!(has_stalled(&log));
        fs::write(&log, format!("{PATCHED}: 0000\n{}", "of a trace\n".repeat(2 * LOG_LINES))).unwrap();
        assert_eq!((says(&log, PATCHED), has_stalled(&log)), (1, false));
        assert!(!has_vanished("", &log), "the kernel has complained");
        fs::write(&log, "booting\n").unwrap();
        assert!(has_vanished("\x1ebegin a\n", &log) && !has_vanished("\x1edone\n", &log));
    }

    #[test]
    fn a_test_that_a_command_line_cannot_name_is_refused() {
        let line = command_line("linux_6_1::a", "page_poison=1").unwrap();
        assert!(line.ends_with("-- --exact linux_6_1::a --nocapture") && line.contains(" page_poison=1 "));
        assert!(command_line("a b", "").is_err());
    }
}
