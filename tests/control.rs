//! `sidestep control` as root and its clients as other users: traffic handed over and given back, deaths on both sides.

#[path = "control/service.rs"]
mod service;
#[path = "control/strangers.rs"]
mod strangers;
mod support;

use sidestep_control_api::client::{Client, Notice, Stack};
use sidestep_control_api::counters::Counters;
use sidestep_control_api::heartbeat::Heartbeat;
use sidestep_control_api::message::{Code, Entry, OpenStack, Protocol, Queues, StackFacts};
use sidestep_frame::FrameLink;
use sidestep_frame::xdp::{Kick, XdpLink, XdpOptions, XdpQueue};
use sidestep_lab::{Host, Lab, Options, Side};
use sidestep_sys::xdp::program::{Filter, Program};
use sidestep_sys::xdp::{Mode, device};
use sidestep_testkit::wait;
use std::fs::{self, Permissions};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use support::{Finished, WATCHDOG, finish, is_root, send_signal, sidestep};

/// The variable that gives the helper below the path of control.
const CHILD: &str = "SIDESTEP_TEST_SOCKET";
const NOBODY: u32 = 65_534;

/// A lab whose first host has a control plane, with a state directory of its own.
struct Place {
    control: Option<Child>,
    lab: Lab,
    folder: tempfile::TempDir,
}

impl Place {
    fn new(flags: &[&str]) -> Option<Self> {
        if !is_root() {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        // Clients without privilege must find the socket.
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        let lab = Lab::up(&Options::default()).unwrap();
        let mut place = Self { control: None, lab, folder };
        // A second interface, for a second application.
        place.ip("link add other0 type veth peer name other1");
        place.ip("link set other0 up");
        place.ip("link set other1 up");
        place.start(flags);
        Some(place)
    }

    fn host(&self) -> &Host {
        self.lab.host(Side::A)
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    /// The binary on the first host, but in the mounts of this process: pins must outlive who made them.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = sidestep(arguments);
        command.env("SIDESTEP_STATE_DIR", self.folder.path());
        command
    }

    fn spawn(&self, command: &mut Command) -> Child {
        self.host().within(|| Ok(command.spawn().unwrap())).unwrap()
    }

    fn run(&self, arguments: &[&str]) -> Finished {
        finish(self.spawn(&mut self.command(arguments)))
    }

    fn start(&mut self, flags: &[&str]) {
        let socket = self.socket();
        let arguments = [&["control", "--socket", socket.to_str().unwrap()], flags].concat();
        let mut command = self.command(&arguments);
        let log = fs::File::options().create(true).append(true).open(self.folder.path().join("log")).unwrap();
        let mut child = self.spawn(command.stderr(Stdio::from(log)));
        wait("a control plane", || {
            assert!(child.try_wait().unwrap().is_none(), "{}", self.log());
            Client::connect_to(&socket, "test").ok()
        });
        self.control = Some(child);
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Ends control by a signal, and waits for its end.
    fn stop(&mut self, signal: &str) {
        let mut control = self.control.take().unwrap();
        send_signal(control.id(), signal);
        let status = control.wait().unwrap();
        assert_eq!(status.success(), signal == "TERM", "{}", self.log());
    }

    fn client(&self) -> Client {
        Client::connect_to(&self.socket(), "test").unwrap()
    }

    fn program_on(&self, interface: &str) -> Option<u32> {
        self.host().within(|| device(interface)).unwrap().xdp_program
    }

    fn program(&self) -> Option<u32> {
        self.program_on("lab0")
    }

    fn ip(&self, arguments: &str) {
        let mut command = self.host().command("ip").unwrap();
        assert!(command.args(arguments.split_whitespace()).status().unwrap().success(), "{arguments}");
    }

    fn release(&self, interface: &str) -> Finished {
        let socket = self.socket();
        self.run(&["control", "--release", interface, "--socket", socket.to_str().unwrap()])
    }

    fn ps(&self) -> serde_json::Value {
        let socket = self.socket();
        self.run(&["ps", "--json", "--socket", socket.to_str().unwrap()]).json()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(mut control) = self.control.take() {
            let _ = control.kill();
            let _ = control.wait();
        }
        let cleaned = self.run(&["control", "--cleanup"]);
        assert!(cleaned.code == 0 || std::thread::panicking(), "{}", cleaned.stderr);
    }
}

/// An application: a stack on the first host, the kernel's socket beside it, and a peer that sends to both.
struct Application {
    client: Client,
    facts: StackFacts,
    heartbeat: Heartbeat,
    _counters: Counters,
    counters_page: OwnedFd,
    link: XdpLink,
    twin: UdpSocket,
    entry: Entry,
    sender: UdpSocket,
}

impl Application {
    fn new(place: &Place) -> Self {
        let mut client = place.client();
        let stack = client.open_stack(OpenStack { queues: Queues::These(vec![0]), ..OpenStack::on("lab0") }).unwrap();
        let bind = |host: &Host| {
            let address = SocketAddr::from((host.ipv4, 0));
            let socket = host.within(|| Ok(UdpSocket::bind(address).unwrap())).unwrap();
            socket.set_nonblocking(true).unwrap();
            socket
        };
        let (twin, sender) = (bind(place.host()), bind(place.lab.host(Side::B)));
        let local = twin.local_addr().unwrap();
        let entry = Entry::Listener { protocol: Protocol::Udp, local, vlan: None };
        let Stack { facts, sockets, frames, heartbeat, counters, counters_page } = stack;
        let options = XdpOptions { kick: Kick::Caller, fill: None };
        let sockets = sockets.into_iter().zip(facts.socket_facts());
        let sockets = sockets.map(|((socket, rings), facts)| XdpQueue { socket, rings, facts }).collect();
        let link = XdpLink::open_all(sockets, frames, &options).unwrap();
        Self { client, facts, heartbeat, _counters: counters, counters_page, link, twin, entry, sender }
    }

    fn steer(&mut self) {
        self.client.steer(self.facts.id, self.entry, self.twin.as_fd()).unwrap();
    }

    /// Sends until something comes: `true` by the stack, `false` by the kernel.
    fn comes_by_the_stack(&mut self, beats: bool) -> bool {
        if beats {
            self.heartbeat.beat();
        }
        self.sender.send_to(b"tick", self.twin.local_addr().unwrap()).unwrap();
        wait("a datagram", || {
            let mut buffer = [0; 64];
            if self.twin.recv(&mut buffer).is_ok() {
                return Some(false);
            }
            self.link.poll().unwrap();
            let frame = self.link.receive()?;
            // Broadcasts of address resolution come by the kernel; whatever comes here was steered.
            assert!(self.link.bytes(&frame).ends_with(b"tick"));
            self.link.release(frame);
            Some(true)
        })
    }
}

#[test]
fn traffic_is_handed_over_and_given_back() {
    let Some(mut place) = Place::new(&["--detach-unused"]) else { return };
    assert_eq!(place.program(), None, "nothing is attached before somebody asks");
    let mut application = Application::new(&place);
    assert!(place.program().is_some());
    application.heartbeat.beat();
    assert!(!application.comes_by_the_stack(true), "not steered yet");
    application.steer();
    assert!(application.comes_by_the_stack(true));
    // The host stays reachable by the same interface.
    let listener = place.host().within(|| Ok(TcpListener::bind((place.host().ipv4, 0)).unwrap())).unwrap();
    let address = listener.local_addr().unwrap();
    let connected = place.lab.host(Side::B).within(|| Ok(TcpStream::connect_timeout(&address, WATCHDOG))).unwrap();
    assert!(connected.is_ok(), "{connected:?}");

    let ps = place.ps();
    let program = &ps["programs"][0];
    assert_eq!((program["name"].as_str(), program["pid"].as_u64()), (Some("test"), Some(std::process::id().into())));
    assert_eq!(program["details"].as_array().unwrap().iter().filter(|line| line["state"] == "accelerated").count(), 1);
    let text = place.run(&["ps", "--socket", place.socket().to_str().unwrap()]).stdout;
    assert!(text.contains("lab0 queue 0, copy") && text.contains("accelerated  udp 198.18.0.1"), "{text}");
    let refused = place.run(&["ps", "--release", "1", "--socket", place.socket().to_str().unwrap()]);
    assert!(refused.stderr.contains("cannot release process 1: it has no stack"), "{}", refused.stderr);

    let id = application.facts.id;
    application.client.unsteer(id, application.entry).unwrap();
    assert!(!application.comes_by_the_stack(true), "given back");
    application.steer();
    application.heartbeat.beat_at(1);
    assert!(!application.comes_by_the_stack(false), "a dead man's frames are the kernel's");
    assert!(application.comes_by_the_stack(true), "alive again");
    let counted = &place.ps()["programs"][0]["counters"][id.to_string()];
    assert!(counted["pass-stale"].as_u64() > Some(0), "what the steering program says of it: {counted}");

    // A socket of another namespace proves nothing here.
    let stranger = place.lab.host(Side::B).within(|| Ok(UdpSocket::bind("0.0.0.0:0").unwrap())).unwrap();
    let local = (place.host().ipv4, stranger.local_addr().unwrap().port()).into();
    let stolen = Entry::Listener { protocol: Protocol::Udp, local, vlan: None };
    let refusal = application.client.steer(id, stolen, stranger.as_fd()).unwrap_err();
    assert_eq!(refusal.code(), Code::TwinNamespace);
    let refusal =
        place.client().open_stack(OpenStack { queues: Queues::These(vec![0]), ..OpenStack::on("lab0") }).unwrap_err();
    assert_eq!(refusal.code(), Code::QueueBusy);

    application.client.bye().unwrap();
    wait("the end of the program", || place.program().is_none().then_some(()));
    place.stop("TERM");
    let left: Vec<_> = fs::read_dir(place.folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["log"], "an orderly end leaves nothing");
}

#[test]
fn killed_and_started_again_control_takes_over() {
    let Some(mut place) = Place::new(&["--detach-unused"]) else { return };
    let mut application = Application::new(&place);
    application.steer();
    assert!(application.comes_by_the_stack(true));
    let mut other = spawn_child(&place);
    let program = place.program();
    assert!(program.is_some() && place.program_on("other0").is_some());
    place.stop("KILL");
    assert_eq!(place.program(), program, "it needs no control to run");
    assert!(application.comes_by_the_stack(true));
    assert!(application.client.report("x", Code::NoRoute).is_err(), "the connection is lost");
    // An owner that dies while no control runs.
    other.kill().unwrap();
    other.wait().unwrap();

    place.start(&["--detach-unused"]);
    assert_eq!(place.program(), program, "taken over, not attached anew");
    assert!(place.log().contains("its owner has ended"), "{}", place.log());
    let mut client = place.client();
    let id = application.facts.id;
    let facts = client.resume_stack(id, application.counters_page.as_fd()).unwrap();
    assert_eq!(facts, application.facts);
    assert!(application.comes_by_the_stack(true));
    client.steer(id, application.entry, application.twin.as_fd()).unwrap();
    let clients = client.clients().unwrap();
    assert_eq!(clients.iter().map(|line| line.stacks.len()).sum::<usize>(), 1);
    assert_eq!(clients.iter().flat_map(|line| &line.stacks).map(|stack| stack.entries).sum::<u32>(), 1);
    // The other's interface is free again, and its number is not given twice.
    assert_eq!(place.program_on("other0"), None);
    let second = client.open_stack(OpenStack::on("other0")).unwrap();
    assert!(second.facts.id > id + 1);
    client.close_stack(second.facts.id).unwrap();

    place.stop("KILL");
    let cleaned = place.run(&["control", "--cleanup"]);
    assert_eq!((cleaned.code, cleaned.stdout.as_str()), (0, "detached from 1 interface\n"), "{}", cleaned.stderr);
    assert_eq!(place.program(), None);
    assert!(!application.comes_by_the_stack(true), "the kernel has it back");
    assert_eq!(place.run(&["control", "--cleanup"]).stdout, "nothing was attached\n");
}

#[test]
fn a_dead_owner_is_noticed_and_a_lost_interface_told() {
    let Some(place) = Place::new(&["--detach-unused"]) else { return };
    let mut child = spawn_child(&place);
    assert!(place.program_on("other0").is_some());
    child.kill().unwrap();
    child.wait().unwrap();
    wait("its end", || place.program_on("other0").is_none().then_some(()));
    assert!(place.log().contains("is gone"), "{}", place.log());

    let mut application = Application::new(&place);
    place.ip("link del lab0");
    let notice = wait("a notice", || application.client.notice().unwrap());
    let Notice::Revoked { stack, refusal } = notice else { panic!("{notice:?}") };
    assert_eq!((stack, refusal.code), (application.facts.id, Code::Revoked));
    let refusal = application.client.open_stack(OpenStack::on("lab0")).unwrap_err();
    assert_eq!(refusal.code(), Code::NoInterface, "and control goes on");
}

#[test]
fn there_is_one_control_and_it_knows_its_guests() {
    let Some(mut place) = Place::new(&[]) else { return };
    let second = place.run(&["control", "--socket", "/dev/null/none"]);
    assert_eq!(second.code, 1);
    let pid = place.control.as_ref().unwrap().id();
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // proc_pid_stat(5): the 19th, of which two come before the end of the name.
    let nice = stat.rsplit_once(')').unwrap().1.split_whitespace().nth(16).unwrap();
    assert_eq!(nice, "-10", "it answers in time, however busy the host is");
    assert!(second.stderr.contains(&format!("running already (process {pid})")), "{}", second.stderr);
    assert_eq!(place.run(&["control", "--cleanup"]).code, 1, "not under a running one");

    let socket = place.socket();
    let nobody = |place: &Place| {
        let mut command = place.command(&["ps", "--socket", socket.to_str().unwrap()]);
        finish(place.spawn(command.uid(NOBODY).gid(NOBODY)))
    };
    let refused = nobody(&place);
    assert_eq!(refused.code, 1);
    assert!(
        refused.stderr.contains("cannot bypass the kernel") && refused.stderr.contains("--allow-uid"),
        "{refused:?}"
    );
    place.stop("TERM");
    place.start(&["--allow-uid", &NOBODY.to_string(), "--interface", "lab0"]);
    assert_eq!(nobody(&place).code, 0);
    assert!(place.program().is_some(), "named interfaces are served from the start");
    let refusal = place.client().open_stack(OpenStack::on("lo")).unwrap_err();
    assert_eq!(refusal.code(), Code::InterfaceKind);
}

/// Attaching and detaching stops some devices for seconds, so the program stays; `--release` detaches it from an unused interface.
#[test]
fn the_program_stays_until_control_ends_or_is_told_to_let_go() {
    let Some(mut place) = Place::new(&[]) else { return };
    let wish = || OpenStack { frames: 64, ring_entries: 32, ..OpenStack::on("lab0") };
    let mut client = place.client();
    let mut programs = Vec::new();
    for _ in 0..5 {
        let stack = client.open_stack(wish()).unwrap();
        programs.push(place.program());
        let release = place.release("lab0");
        assert_eq!(release.code, 1);
        assert!(release.stderr.contains(&format!("stack {} is on it", stack.facts.id)), "{}", release.stderr);
        client.close_stack(stack.facts.id).unwrap();
    }
    assert!(programs[0].is_some() && programs.iter().all(|program| *program == programs[0]), "{programs:?}");
    assert_eq!(place.log().matches("attached to lab0").count(), 1, "{}", place.log());
    assert_eq!(place.program(), programs[0]);
    let interfaces = place.ps()["interfaces"].clone();
    assert_eq!((interfaces[0]["interface"].as_str(), interfaces[0]["stacks"].as_u64()), (Some("lab0"), Some(0)));
    let text = place.run(&["ps", "--socket", place.socket().to_str().unwrap()]).stdout;
    assert!(text.contains("sidestep control --release lab0"), "{text}");

    // What a program keeps from others: their programs. Large MTUs it does not (decision 0024).
    let try_mtu = |mtu: &str| {
        let mut command = place.lab.host(Side::B).command("ip").unwrap();
        command.args(["link", "set", "lab0", "mtu", mtu]).stderr(Stdio::null()).status().unwrap().success()
    };
    assert!(try_mtu("9000") && try_mtu("1500"));
    let own = || place.host().within(|| Program::load(Filter::UdpPort(9), 1)?.attach("lab0", Mode::Copy)).map(drop);
    assert!(own().is_err());
    assert_eq!(place.release("other0").code, 1, "nothing is there");
    assert_eq!(place.release("lab0").stdout, "detached from lab0\n");
    assert_eq!(place.program(), None);
    assert!(try_mtu("9000") && try_mtu("1500"));
    own().unwrap();
    let stack = client.open_stack(wish()).unwrap();
    client.close_stack(stack.facts.id).unwrap();
    assert!(place.program().is_some(), "attached again");

    // An interface of the same name is another one.
    place.ip("link del other0");
    place.ip("link add other0 type veth peer name other1");
    place.ip("link set other0 up");
    place.ip("link set other1 up");
    let on = |place: &Place, name: &str| {
        place.ps()["interfaces"].as_array().unwrap().iter().any(|line| line["interface"] == name)
    };
    let other = OpenStack { frames: 64, ring_entries: 32, ..OpenStack::on("other0") };
    wait("a stack", || client.open_stack(other.clone()).ok());
    assert!(on(&place, "other0") && on(&place, "lab0"));
    place.ip("link del other0");
    wait("its end", || (!on(&place, "other0")).then_some(()));
    place.ip("link add other0 type veth peer name other1");
    place.ip("link set other0 up");
    place.ip("link set other1 up");
    wait("a stack", || client.open_stack(other.clone()).ok());

    // It outlives a control that is killed, and ends with one that gets SIGTERM.
    let program = place.program();
    place.stop("KILL");
    place.start(&[]);
    assert_eq!(place.program(), program);
    place.stop("TERM");
    assert_eq!((place.program(), place.program_on("other0")), (None, None));
}

/// A process that has a stack on the second interface, and does nothing.
fn spawn_child(place: &Place) -> Child {
    let mut command = Command::new("/proc/self/exe");
    command.args(["--ignored", "--exact", "child"]).env(CHILD, place.socket()).stdout(Stdio::null());
    let child = command.spawn().unwrap();
    let has_opened = || {
        let clients = place.client().clients().unwrap();
        clients.iter().any(|line| line.name == "child" && !line.stacks.is_empty()).then_some(())
    };
    wait("a stack of the child", has_opened);
    child
}

/// Not a test of its own: others start it in a process of its own.
#[test]
#[ignore = "started by the others"]
fn child() {
    let socket = std::env::var_os(CHILD).expect("the parent sets it");
    let mut client = Client::connect_to(socket.as_ref(), "child").unwrap();
    let _stack = client.open_stack(OpenStack::on("other0")).unwrap();
    // Until it is killed, or by far long enough.
    std::thread::sleep(WATCHDOG);
}
