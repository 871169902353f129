//! What other users can do to control: nothing that root, or a running program, would feel.

use super::*;
use crate::support::copy_program;
use sidestep_control_api::client::Error;
use sidestep_control_api::message::{Channel, HandOver, Numbered, Request, VERSION};
use sidestep_testkit::lingering;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// Connections of the attack: as many as filled the descriptors of a control that kept what it refused.
const CONNECTIONS: usize = 20_000;

/// Said by a child that has done what it was started for.
const SAID: &str = "ready";

/// Starts a test of this file as another user, in a process of its own that gets the path of control.
fn as_nobody(place: &Place, test: &str) -> Child {
    let program = place.folder.path().join("attacker");
    if !program.exists() {
        copy_program(&std::env::current_exe().unwrap(), &program);
    }
    let mut command = Command::new(program);
    command.args(["--ignored", "--nocapture", "--exact", &format!("strangers::{test}")]).env(CHILD, place.socket());
    command.uid(NOBODY).gid(NOBODY).stdin(Stdio::piped()).stdout(Stdio::piped());
    command.spawn().unwrap()
}

fn socket() -> PathBuf {
    std::env::var_os(CHILD).expect("the parent sets it").into()
}

fn descriptors(process: u32) -> usize {
    fs::read_dir(format!("/proc/{process}/fd")).unwrap().count()
}

/// An application that goes on, and another one that comes, while a child does its worst.
fn assert_root_is_served(place: &Place, running: &mut Application) {
    let id = running.facts.id;
    running.client.unsteer(id, running.entry).unwrap();
    running.steer();
    assert!(running.comes_by_the_stack(true));
    let mut other = place.client();
    let stack = other.open_stack(OpenStack::on("other0")).unwrap();
    other.close_stack(stack.facts.id).unwrap();
    other.bye().unwrap();
}

/// Attacks control, whose folder is in a file system that has access control lists or not, from a user that may come in or not.
fn attack(flags: &[&str], prepare: impl FnOnce(&Place)) {
    let Some(mut place) = Place::new(&[]) else { return };
    place.stop("TERM");
    place.start(flags);
    prepare(&place);
    let mut running = Application::new(&place);
    running.steer();
    let control = place.control.as_ref().unwrap().id();
    let before = descriptors(control);
    let mut attacker = as_nobody(&place, "attacker");
    let mut rounds = 0;
    while attacker.try_wait().unwrap().is_none() {
        assert_root_is_served(&place, &mut running);
        let now = descriptors(control);
        // What its 64 clients may have at most, and what is on its way.
        assert!(now < before + 1500, "{now} descriptors, {before} before the attack");
        rounds += 1;
    }
    assert!(attacker.wait().unwrap().success());
    assert!(rounds > 0);
    assert_root_is_served(&place, &mut running);
    running.client.bye().unwrap();
    // Ends in order, whatever is still queued.
    place.stop("TERM");
}

#[test]
fn who_is_not_on_the_list_cannot_disable_control() {
    attack(&[], |_| ());
}

/// As on a file system without access control lists, where every user may connect and is refused with a reason.
#[test]
fn who_is_not_on_the_list_and_may_knock_cannot_disable_control() {
    attack(&[], |place| {
        fs::set_permissions(place.socket(), Permissions::from_mode(0o666)).unwrap();
    });
}

#[test]
fn who_is_on_the_list_cannot_disable_control() {
    attack(&["--allow-uid", &NOBODY.to_string()], |_| ());
}

/// Not a test of its own: connects over and over, leaves descriptors that do not close in unread messages, and ends.
#[test]
#[ignore = "started by the others"]
fn attacker() {
    let path = socket();
    let mut peers = Vec::new();
    for round in 0..CONNECTIONS {
        // Not all find room; that is what is tried.
        let Ok(channel) = Channel::connect(&path) else { continue };
        let hello = Request::Hello { version: VERSION, name: "x".into() };
        if round % 100 == 0 {
            let (peer, socket) = lingering(Duration::from_secs(600));
            let _ = channel.send(&Numbered { number: 1, body: &hello }, &[socket.as_fd()]);
            peers.push(peer);
            // Whoever lets go last waits.
            std::thread::spawn(move || drop(socket));
        }
        let _ = channel.send(&Numbered { number: 2, body: &hello }, &[]);
    }
    // The threads that wait end with the process.
    std::process::exit(0);
}

/// Not a test of its own: has a stack, and asks for a hand-over.
#[test]
#[ignore = "started by the others"]
fn surrender() {
    let mut client = Client::connect_to(&socket(), "surrender").unwrap();
    let stack = client.open_stack(OpenStack::on("other0")).unwrap();
    let connection: HandOver = serde_json::from_value(serde_json::json!({
        "local": "198.18.0.1:7000", "remote": "198.18.0.2:7000", "send_start": 1, "unacknowledged": 0, "unsent": 0,
        "receive_end": 1, "received": 0, "segment_bytes": 1460, "send_window": 1, "send_window_max": 1, "send_update": 1,
        "receive_window": 1,
    }))
    .unwrap();
    let file = fs::File::open("/dev/null").unwrap();
    let refused = client.hand_over(stack.facts.id, connection, file.as_fd(), file.as_fd()).unwrap_err();
    println!("refused: {}", sidestep_sys::Problem::from(refused));
}

#[test]
fn who_is_not_root_gets_no_hand_over_where_that_is_roots() {
    let Some(mut place) = Place::new(&[]) else { return };
    for (flags, said) in [(&["--hand-over", "root"][..], "without --hand-over root"), (&[], "there is no such entry")] {
        place.stop("TERM");
        place.start(&[&["--allow-uid", &NOBODY.to_string()], flags].concat());
        let finished = finish(as_nobody(&place, "surrender"));
        assert!(finished.stdout.contains(said), "{}", finished.stdout);
    }
}

/// Who comes first asks for generic mode: the program runs in the driver all the same, for those who come later.
#[test]
fn generic_mode_is_nobodys_to_choose_for_others() {
    let Some(place) = Place::new(&[]) else { return };
    let mut first = place.client();
    let wish = OpenStack { mode: sidestep_control_api::message::Mode::Generic, ..OpenStack::on("other0") };
    let _stack = first.open_stack(wish).unwrap();
    let mut command = place.host().command("ip").unwrap();
    let shown = command.args(["link", "show", "other0"]).output().unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("xdp") && !shown.contains("xdpgeneric"), "{shown}");
}

/// The clients of one user take the descriptors of control: root, and who is there already, lose nothing.
#[test]
fn nobody_loses_a_connection_for_lack_of_descriptors() {
    let Some(mut place) = Place::new(&[]) else { return };
    place.stop("TERM");
    place.start(&["--allow-uid", &NOBODY.to_string()]);
    let mut running = Application::new(&place);
    running.steer();
    let control = place.control.as_ref().unwrap().id();
    let limit = descriptors(control) + 120;
    let limited =
        Command::new("prlimit").args([format!("--pid={control}"), format!("--nofile={limit}:{limit}")]).status();
    assert!(limited.unwrap().success());
    let mut guests = as_nobody(&place, "guests");
    let mut lines = BufReader::new(guests.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains(SAID)), "they are never refused");
    for _ in 0..20 {
        assert_root_is_served(&place, &mut running);
    }
    // Its standard input ends: so does it.
    drop(guests.stdin.take());
    assert!(guests.wait().unwrap().success());
}

/// Not a test of its own: connects until it is refused, and keeps what it has.
#[test]
#[ignore = "started by the others"]
fn guests() {
    let path = socket();
    let connect = |path: &Path| Client::connect_to(path, "guest");
    let mut clients = Vec::new();
    let refusal = loop {
        match connect(&path) {
            Ok(client) => clients.push(client),
            Err(error) => break error,
        }
    };
    assert!(matches!(&refusal, Error::Refused(refusal) if refusal.code == Code::Limit), "{refusal}");
    assert!(!clients.is_empty());
    println!("{SAID}");
    let _ = std::io::stdin().read(&mut [0; 1]);
}
