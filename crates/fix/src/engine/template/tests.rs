use super::super::{DoorId, Endpoint, SocketOptions, StorePlan};
use super::*;
use crate::exchange::{Exchange, anyone};
use crate::session::{Role, SessionSettings};
use crate::store::Store;
use crate::store::journal::{DESCRIPTORS, Options, SEGMENT_BYTES_MIN};
use crate::value::Precision;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};
use tempfile::tempdir;

const PATIENCE: Duration = Duration::from_secs(20);

fn id(name: &str) -> SessionId {
    SessionId::new("FIX.4.4", "X", name)
}

fn server(folder: Option<&Path>) -> (Engine<Exchange>, DoorId) {
    let mut engine = Engine::new(Exchange::default());
    let endpoint = Endpoint::parse("127.0.0.1:0").unwrap();
    let door = engine.listen(&endpoint, None, &SocketOptions::default()).unwrap();
    let mut template = SessionPlan::new(SessionSettings::new(Role::Acceptor, anyone()));
    if let Some(folder) = folder {
        let options = Options { segment_bytes: SEGMENT_BYTES_MIN, ..Options::default() };
        template.store = StorePlan::Journal { folder: folder.to_owned(), options };
    }
    engine.add_template(door, template);
    (engine, door)
}

fn until(engine: &mut Engine<Exchange>, mut done: impl FnMut(&mut Engine<Exchange>) -> bool) {
    let end = Instant::now() + PATIENCE;
    while !done(engine) {
        engine.poll();
        assert!(Instant::now() < end, "it takes too long");
    }
}

/// Logs on by this name and number; whether the answer is a Logon.
fn log_on(engine: &mut Engine<Exchange>, door: DoorId, name: &str, number: u64) -> Option<TcpStream> {
    let mut stream = TcpStream::connect(engine.endpoint(door).to_string()).unwrap();
    let mut time = [0; 27];
    let length = crate::Now::system().utc().write(Precision::Seconds, &mut time);
    let time = String::from_utf8_lossy(&time[..length]);
    let body = format!("35=A|34={number}|49={name}|56=X|52={time}|98=0|108=30|").replace('|', "\u{1}");
    let text = format!("8=FIX.4.4\u{1}9={}\u{1}{body}", body.len());
    let sum = text.bytes().fold(0u8, u8::wrapping_add);
    stream.write_all(format!("{text}10={sum:03}\u{1}").as_bytes()).unwrap();
    stream.set_nonblocking(true).unwrap();
    let (mut answer, mut bytes) = (None, [0; 1000]);
    until(engine, |_| {
        answer = stream.read(&mut bytes).ok();
        answer.is_some()
    });
    let answer = String::from_utf8_lossy(&bytes[..answer?]).into_owned();
    answer.contains("\u{1}35=A\u{1}").then_some(stream)
}

fn come_and_go(engine: &mut Engine<Exchange>, door: DoorId, name: &str, number: u64) -> Handle {
    let stream = log_on(engine, door, name, number);
    assert!(stream.is_some(), "{name} has no Logon");
    let handle = engine.find(&id(name)).unwrap();
    drop(stream);
    until(engine, |engine| !engine.slot(handle).is_connected());
    handle
}

#[test]
fn a_thousand_names_that_are_gone_keep_nobody_out() {
    let (mut engine, door) = server(None);
    let _connected = log_on(&mut engine, door, "FIRST", 1).unwrap();
    let second = come_and_go(&mut engine, door, "SECOND", 1);
    for number in 2..DYNAMIC_MAX {
        come_and_go(&mut engine, door, &format!("STRANGER{number}"), 1);
    }
    assert_eq!((engine.handles().count(), engine.has(second)), (DYNAMIC_MAX, true));
    let new = come_and_go(&mut engine, door, "NEW", 1);
    assert_eq!(engine.handles().count(), DYNAMIC_MAX);
    assert!(!engine.has(second) && engine.find(&id("SECOND")).is_none(), "it has been gone for longest");
    assert_eq!(engine.session(new).id(), &id("NEW"));
    let first = engine.find(&id("FIRST")).unwrap();
    assert!(engine.session(first).is_logged_on(), "who is connected is not let go");
    // The number of one that was let go is nobody else's, and it gets another one when it comes back.
    let again = come_and_go(&mut engine, door, "SECOND", 1);
    assert!(!engine.has(second) && engine.has(again) && again != second);
}

#[test]
fn sessions_that_are_gone_hold_a_share_of_the_descriptors_and_their_numbers_go_on() {
    let folder = tempdir().unwrap();
    let (mut engine, door) = server(Some(folder.path()));
    engine.store_descriptors_max = 5 * DESCRIPTORS;
    let _connected = log_on(&mut engine, door, "FIRST", 1).unwrap();
    for round in 1..=3 {
        for number in 0..12 {
            let handle = come_and_go(&mut engine, door, &format!("N{number}"), round);
            let store = engine.session(handle).store();
            assert_eq!((store.next_outbound(), store.next_inbound()), (round + 1, round + 1), "N{number}");
            assert!(engine.handles().count() <= 5);
        }
    }
    assert!(engine.find(&id("FIRST")).is_some_and(|first| engine.session(first).is_logged_on()));
}

#[test]
fn while_all_are_connected_more_come_than_the_share() {
    let folder = tempdir().unwrap();
    let (mut engine, door) = server(Some(folder.path()));
    engine.store_descriptors_max = 2 * DESCRIPTORS;
    let connected: Vec<TcpStream> =
        (0..4).map(|number| log_on(&mut engine, door, &format!("N{number}"), 1).unwrap()).collect();
    assert_eq!(engine.handles().filter(|handle| engine.session(*handle).is_logged_on()).count(), 4);
    drop(connected);
}

/// The constant is what the kernel says.
#[test]
fn a_journal_holds_as_many_descriptors_as_are_counted() {
    let folder = tempdir().unwrap();
    let (mut engine, door) = server(Some(folder.path()));
    come_and_go(&mut engine, door, "N", 1);
    let root = folder.path().canonicalize().unwrap();
    let held = || {
        let links = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        links.filter(|link| std::fs::read_link(link.path()).is_ok_and(|to| to.starts_with(&root))).count()
    };
    let end = Instant::now() + PATIENCE;
    // The next segment is made by a thread of its own.
    while held() < DESCRIPTORS {
        assert!(Instant::now() < end, "it holds {}", held());
    }
    assert_eq!(held(), DESCRIPTORS);
}
