//! The examples as a user without any privilege runs them: beside a control plane of root, which has that user on its list.

mod support;

use sidestep_lab::{Host, Lab, Options, Side};
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};
use support::lab::{ask, introduce, socket_on};
use support::{WATCHDOG, finish, is_root, send_signal, sidestep};

const NOBODY: u32 = 65_534;
const MESSAGES: u32 = 200;
const PORT: u16 = 7000;
/// More than a window each way.
const STREAM_BYTES: usize = 4 << 20;

/// Killed when the test ends, however it does.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A lab whose first host has a control plane, and a folder that every user may read.
struct Place {
    control: Option<Child>,
    lab: Lab,
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Option<Self> {
        if !is_root() {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        Some(Self { control: None, lab: Lab::up(&Options::default()).unwrap(), folder })
    }

    fn host(&self) -> &Host {
        self.lab.host(Side::A)
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    /// Root's control plane, in the mounts of this process, as `tests/control.rs` has it.
    fn start_control(&mut self) {
        let socket = self.socket();
        let allowed = NOBODY.to_string();
        let mut command = sidestep(&["control", "--socket", socket.to_str().unwrap(), "--allow-uid", &allowed]);
        command.env("SIDESTEP_STATE_DIR", self.folder.path()).stderr(Stdio::null());
        let control = self.host().within(|| Ok(command.spawn().unwrap())).unwrap();
        let control = self.control.insert(control);
        let begin = Instant::now();
        while !socket.exists() {
            assert!(control.try_wait().unwrap().is_none() && begin.elapsed() < WATCHDOG, "no control plane");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Runs an example on the first host as the user nobody: no capability, none that it could get, no new privileges.
    fn start(&self, name: &str, arguments: &[&str]) -> (Process, BufReader<ChildStderr>) {
        let program = self.folder.path().join(name);
        support::copy_program(&example(name), &program);
        let id = format!("{NOBODY}");
        let mut command = Command::new("setpriv");
        command.args(["--reuid", &id, "--regid", &id, "--clear-groups", "--no-new-privs"]);
        command.args(["--inh-caps=-all", "--ambient-caps=-all", "--bounding-set=-all"]).arg(&program).args(arguments);
        command.env("SIDESTEP_CONTROL", self.socket());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.host().spawn(&mut command).unwrap();
        let told = BufReader::new(child.stderr.take().unwrap());
        (Process(child), told)
    }
}

/// Control ends in order, as what it has mounted and pinned outlives it; nothing of that may stay behind.
impl Drop for Place {
    fn drop(&mut self) {
        let Some(control) = self.control.take() else { return };
        send_signal(control.id(), "TERM");
        let ended = finish(control);
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let is_left = mounts.contains(self.folder.path().to_str().unwrap());
        assert!(std::thread::panicking() || (ended.code == 0 && !is_left), "{is_left} {ended:?}");
    }
}

/// Where cargo puts an example. `cargo test` builds them all; `cargo test --test unprivileged` alone does not.
fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a program knows its file");
    let path = test.parent().and_then(Path::parent).expect("deps is in a folder").join("examples").join(name);
    assert!(path.exists(), "{} is not built: cargo build --example {name}", path.display());
    path
}

/// Neither root nor a capability, now or ever.
fn check_has_no_privilege(process: &Process) {
    let status = fs::read_to_string(format!("/proc/{}/status", process.0.id())).expect("it runs");
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("no {name}"));
        line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(field("Uid:"), vec![NOBODY.to_string(); 4]);
    for set in ["CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"] {
        assert!(u64::from_str_radix(&field(set)[0], 16).is_ok_and(|bits| bits == 0), "{set} {:?}", field(set));
    }
    assert_eq!(field("NoNewPrivs:"), ["1"]);
}

fn line(from: &mut impl BufRead) -> String {
    let mut line = String::new();
    from.read_line(&mut line).expect("it says something");
    line
}

#[test]
fn nobody_echoes_past_the_kernel() {
    let Some(mut place) = Place::new() else { return };
    introduce(place.host(), place.lab.host(Side::B));
    place.start_control();
    let at = SocketAddr::from((place.host().ipv4, PORT));
    let (echo, mut told) = place.start("udp_echo", &[&place.host().interface, &at.to_string()]);
    assert_eq!(line(&mut told), format!("{at} is accelerated (AF_XDP, copy)\n"));
    check_has_no_privilege(&echo);
    ask(place.lab.host(Side::B), at, MESSAGES);
}

#[test]
fn nobody_echoes_a_stream_past_the_kernel() {
    let Some(mut place) = Place::new() else { return };
    introduce(place.host(), place.lab.host(Side::B));
    place.start_control();
    let at = SocketAddr::from((place.host().ipv4, PORT));
    let (echo, mut told) = place.start("tcp_echo", &[&place.host().interface, &at.to_string()]);
    assert_eq!(line(&mut told), format!("{at} is accelerated (AF_XDP, copy)\n"));
    check_has_no_privilege(&echo);
    let mut peer = place.lab.host(Side::B).within(|| Ok(TcpStream::connect(at).unwrap())).unwrap();
    assert_eq!(line(&mut told), "accepted: accelerated (AF_XDP, copy)\n");
    let sent: Vec<u8> = (0..STREAM_BYTES).map(|index| (index * 31 % 251) as u8).collect();
    let mut back = Vec::new();
    std::thread::scope(|scope| {
        let mut sender = peer.try_clone().unwrap();
        let sent = &sent;
        scope.spawn(move || {
            sender.write_all(sent).unwrap();
            sender.shutdown(Shutdown::Write).unwrap();
        });
        peer.set_read_timeout(Some(WATCHDOG)).unwrap();
        peer.read_to_end(&mut back).unwrap();
    });
    assert!(back == sent, "{} bytes of {STREAM_BYTES} came back", back.len());
}

#[test]
fn nobody_hears_a_group_past_the_kernel() {
    let Some(mut place) = Place::new() else { return };
    place.start_control();
    let group = SocketAddr::from(([239, 1, 1, 1], PORT));
    let interface = place.host().interface.clone();
    let (mut receiver, mut told) = place.start("multicast_receiver", &[&interface, &group.to_string()]);
    assert_eq!(line(&mut told), format!("{group} on {interface}: accelerated (AF_XDP, copy)\n"));
    check_has_no_privilege(&receiver);
    let peer = socket_on(place.lab.host(Side::B));
    for number in 0..MESSAGES {
        peer.send_to(&number.to_le_bytes(), group).unwrap();
    }
    let mut counts = BufReader::new(receiver.0.stdout.take().unwrap());
    let mut heard = 0;
    while heard < MESSAGES {
        let text = line(&mut counts);
        let number = |at: usize| text.split(' ').nth(at).and_then(|word| word.parse::<u32>().ok());
        let (messages, bytes) = (number(0).expect("a count"), number(2).expect("bytes"));
        assert_eq!(bytes, 4 * messages, "{text}");
        heard += messages;
    }
    assert_eq!(heard, MESSAGES);
}

#[test]
fn nobody_without_a_control_plane_goes_by_the_kernel_and_is_told_why() {
    let Some(place) = Place::new() else { return };
    let at = SocketAddr::from((place.host().ipv4, PORT));
    let (echo, mut told) = place.start("udp_echo", &[&place.host().interface, &at.to_string()]);
    assert!(line(&mut told).starts_with("not past the kernel: "));
    assert_eq!(line(&mut told), format!("{at} is kernel: the control plane is not running\n"));
    check_has_no_privilege(&echo);
    let peer = socket_on(place.lab.host(Side::B));
    peer.send_to(b"hello", at).unwrap();
    let mut answer = [0; 16];
    assert_eq!(peer.recv_from(&mut answer).expect("an answer"), (5, at));
    assert!(line(&mut told).contains("came by the kernel"));
}

#[test]
fn nobody_reads_a_group_from_rings() {
    let Some(mut place) = Place::new() else { return };
    place.start_control();
    let group = SocketAddr::from(([239, 1, 1, 1], PORT));
    let interface = place.host().interface.clone();
    let (mut readers, mut told) =
        place.start("ring_flow", &[&interface, &group.to_string(), "2", &MESSAGES.to_string()]);
    let mut paths = [line(&mut told), line(&mut told)];
    paths.sort_unstable();
    let way = |reader| format!("reader {reader}: {group} on {interface}: ring (XDP, drop)\n");
    assert_eq!(paths, [way(0), way(1)]);
    check_has_no_privilege(&readers);
    let peer = socket_on(place.lab.host(Side::B));
    for number in 0..MESSAGES {
        peer.send_to(&number.to_le_bytes(), group).unwrap();
    }
    let mut output = BufReader::new(readers.0.stdout.take().unwrap());
    let whole = format!("{MESSAGES} packets, 0 lost, {} bytes\n", MESSAGES * 4);
    let mut ended = 0;
    // Before that, lines of each second.
    while ended < 2 {
        ended += u32::from(line(&mut output).ends_with(&whole));
    }
}
