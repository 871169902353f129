//! A lab with control on its first host, and users there.

use crate::agent::VARIABLE;
use sidestep_control::permit::Permit;
use sidestep_control::{Options, run};
use sidestep_control_api::client::Client;
use sidestep_lab::{Host, Lab, Side};
use sidestep_sys::process::is_root;
pub(crate) use sidestep_testkit::{WATCHDOG, wait};
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;

/// Two permitted users, without relation to each other.
pub(crate) const MALLORY: u32 = 61_001;
pub(crate) const VICTIM: u32 = 61_002;

/// A permitted group.
pub(crate) const GROUP: u32 = 61_003;

pub(crate) struct Place {
    stop: Arc<AtomicBool>,
    control: Option<JoinHandle<()>>,
    pub(crate) lab: Lab,
    folder: tempfile::TempDir,
}

impl Place {
    /// `None`, with a message, without root.
    pub(crate) fn new() -> Option<Self> {
        if !is_root() {
            eprintln!("skipped: needs root");
            return None;
        }
        let lab = Lab::up(&sidestep_lab::Options::default()).expect("root can make a lab");
        Some(Self::on(lab))
    }

    /// A lab over a device with several queues.
    pub(crate) fn with_queues(count: u32) -> Option<Self> {
        let place = Self::new()?;
        let (a, b) = (place.host(), place.peer());
        ip(a, "link del lab0");
        let queues = format!("numrxqueues {count} numtxqueues {count}");
        ip(a, &format!("link add lab0 {queues} type veth peer name lab0 {queues} netns {}", b.namespace));
        for host in [a, b] {
            ip(host, "link set lab0 up");
            ip(host, &format!("address add {}/24 dev lab0", host.ipv4));
        }
        Some(place)
    }

    /// Ends the control plane, in order.
    pub(crate) fn end_control(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.control.take().into_iter().for_each(|control| control.join().expect("it ends well"));
    }

    /// Starts one in a process of its own, which dies when it is dropped.
    pub(crate) fn mortal_control(&self) -> User {
        let mut keeper = self.start(&mut Command::new(self.program()));
        keeper.tell("control");
        wait("a control plane", || self.root().ok());
        keeper
    }

    /// Starts one again, which takes over what is there.
    pub(crate) fn start_control(&mut self) {
        self.stop.store(false, Ordering::Relaxed);
        let (seen, there) = (self.stop.clone(), self.lab.host(Side::A).clone());
        self.control = Some(std::thread::spawn(move || {
            there.enter().expect("root can enter");
            run(&options(), &seen).expect("root can run a control plane");
        }));
        wait("a control plane", || self.root().ok());
    }

    fn on(lab: Lab) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("it is ours");
        // Other users may not enter cargo's build folder. Copied by another process: a file that a child of another
        // test holds open for writing cannot be executed.
        let program = std::env::current_exe().expect("a program knows its file");
        let copied = Command::new("cp").arg(program).arg(folder.path().join("agent")).status().expect("cp is there");
        assert!(copied.success());
        let stop = Arc::new(AtomicBool::new(false));
        let mut place = Self { stop, control: None, lab, folder };
        place.start_control();
        place
    }

    pub(crate) fn host(&self) -> &Host {
        self.lab.host(Side::A)
    }

    pub(crate) fn peer(&self) -> &Host {
        self.lab.host(Side::B)
    }

    /// An address of the host that is served.
    pub(crate) fn at(&self, port: u16) -> SocketAddr {
        (self.host().ipv4, port).into()
    }

    pub(crate) fn address(&self, is_v6: bool) -> IpAddr {
        if is_v6 { self.host().ipv6.expect("this kernel has IPv6").into() } else { self.host().ipv4.into() }
    }

    /// A client of root.
    pub(crate) fn root(&self) -> Result<Client, sidestep_control_api::client::Error> {
        self.host().within(|| Ok(Client::connect("root"))).expect("root can enter")
    }

    pub(crate) fn program(&self) -> PathBuf {
        self.folder.path().join("agent")
    }

    /// A process of a user on the first host.
    pub(crate) fn user(&self, uid: u32) -> User {
        self.user_with(uid, Stdio::null())
    }

    /// A process that inherits a socket, as a service of inetd does.
    pub(crate) fn heir(&self, uid: u32, socket: OwnedFd) -> User {
        self.user_with(uid, Stdio::from(socket))
    }

    fn user_with(&self, uid: u32, stdin: Stdio) -> User {
        let mut command = Command::new(self.program());
        command.uid(uid).gid(uid).stdin(stdin);
        self.start(&mut command)
    }

    /// Starts an agent by this command.
    pub(crate) fn start(&self, command: &mut Command) -> User {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let path = self.folder.path().join(format!("agent-{}", NUMBER.fetch_add(1, Ordering::Relaxed)));
        let listener = UnixListener::bind(&path).expect("the folder is ours");
        fs::set_permissions(&path, Permissions::from_mode(0o666)).expect("it is ours");
        command.args(["--ignored", "--exact", "agent"]).env(VARIABLE, &path).stdout(Stdio::null());
        let mut process = self.host().within(|| Ok(command.spawn().expect("it starts"))).expect("root can enter");
        listener.set_nonblocking(true).expect("it can");
        let stream = wait("an agent", || {
            assert!(process.try_wait().expect("it is ours").is_none(), "it has ended");
            listener.accept().ok()
        });
        stream.0.set_nonblocking(false).expect("it can");
        stream.0.set_read_timeout(Some(WATCHDOG)).expect("it can");
        User { process, stream: BufReader::new(stream.0) }
    }
}

/// The control plane of these tests.
pub(crate) fn options() -> Options {
    let permit = Permit::new(&[MALLORY, VICTIM], &[GROUP]);
    Options { interfaces: Vec::new(), permit, socket: None, detaches_unused: false }
}

fn ip(host: &Host, words: &str) {
    let mut command = Command::new("ip");
    let done = host.spawn(command.args(words.split_whitespace())).expect("ip is there").wait().expect("it ends");
    assert!(done.success(), "ip {words}");
}

impl Drop for Place {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.control.take().map(JoinHandle::join);
        assert!(ended.is_none_or(|ended| ended.is_ok()) || std::thread::panicking(), "the control plane has panicked");
    }
}

/// A process of some user; it ends with this value.
pub(crate) struct User {
    process: Child,
    stream: BufReader<UnixStream>,
}

impl User {
    /// Executes a command; returns the outcome.
    pub(crate) fn ask(&mut self, order: &str) -> String {
        writeln!(self.stream.get_mut(), "{order}").expect("it listens");
        let mut line = String::new();
        let count = self.stream.read_line(&mut line).expect("it answers");
        assert_ne!(count, 0, "{order}: the agent has ended");
        line.trim().to_owned()
    }

    /// Has it execute a command, and does not wait for the outcome.
    pub(crate) fn tell(&mut self, order: &str) {
        writeln!(self.stream.get_mut(), "{order}").expect("it listens");
    }

    /// Executes a command that must succeed.
    pub(crate) fn must(&mut self, order: &str) {
        assert_eq!(self.ask(order), "ok", "{order}");
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }
}

impl Drop for User {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
