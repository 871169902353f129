use super::super::{AcceptorId, Endpoint, KEPT_MAX_DEFAULT, SocketOptions, StorePlan, session_folder};
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

fn server(folder: Option<&Path>) -> (Engine<Exchange>, AcceptorId) {
    server_that_keeps(folder, KEPT_MAX_DEFAULT)
}

fn server_that_keeps(folder: Option<&Path>, kept_max: usize) -> (Engine<Exchange>, AcceptorId) {
    let mut engine = Engine::new(Exchange::default());
    let endpoint = Endpoint::parse("127.0.0.1:0").unwrap();
    let acceptor = engine.listen(&endpoint, None, &SocketOptions::default()).unwrap();
    let mut template = SessionPlan::new(SessionSettings::new(Role::Acceptor, anyone()));
    template.kept_max = kept_max;
    if let Some(folder) = folder {
        let options = Options { segment_bytes: SEGMENT_BYTES_MIN, ..Options::default() };
        template.store = StorePlan::Journal { folder: folder.to_owned(), options };
    }
    engine.add_template(acceptor, template);
    (engine, acceptor)
}

fn until(engine: &mut Engine<Exchange>, mut done: impl FnMut(&mut Engine<Exchange>) -> bool) {
    let end = Instant::now() + PATIENCE;
    while !done(engine) {
        engine.poll();
        assert!(Instant::now() < end, "it takes too long");
    }
}

/// Logs on by this name and number; the connection, if the answer is a Logon.
fn log_on(engine: &mut Engine<Exchange>, acceptor: AcceptorId, name: &str, number: u64) -> Option<TcpStream> {
    let (stream, answer) = knock(engine, acceptor, name, number);
    answer.contains("|35=A|").then_some(stream)
}

/// Sends a Logon by this name and number; the connection, and what is answered.
fn knock(engine: &mut Engine<Exchange>, acceptor: AcceptorId, name: &str, number: u64) -> (TcpStream, String) {
    let mut stream = TcpStream::connect(engine.endpoint(acceptor).to_string()).unwrap();
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
    let answer = String::from_utf8_lossy(&bytes[..answer.unwrap_or(0)]).replace('\u{1}', "|");
    (stream, answer)
}

fn come_and_go(engine: &mut Engine<Exchange>, acceptor: AcceptorId, name: &str, number: u64) -> Handle {
    let stream = log_on(engine, acceptor, name, number);
    assert!(stream.is_some(), "{name} has no Logon");
    let handle = engine.find(&id(name)).unwrap();
    drop(stream);
    until(engine, |engine| !engine.slot(handle).is_connected());
    handle
}

#[test]
fn a_thousand_names_that_are_gone_keep_nobody_out() {
    let (mut engine, acceptor) = server(None);
    let _connected = log_on(&mut engine, acceptor, "FIRST", 1).unwrap();
    let second = come_and_go(&mut engine, acceptor, "SECOND", 1);
    for number in 2..DYNAMIC_MAX {
        come_and_go(&mut engine, acceptor, &format!("STRANGER{number}"), 1);
    }
    assert_eq!((engine.handles().count(), engine.has(second)), (DYNAMIC_MAX, true));
    let new = come_and_go(&mut engine, acceptor, "NEW", 1);
    assert_eq!(engine.handles().count(), DYNAMIC_MAX);
    assert!(!engine.has(second) && engine.find(&id("SECOND")).is_none(), "it has been gone for longest");
    assert_eq!(engine.session(new).id(), &id("NEW"));
    let first = engine.find(&id("FIRST")).unwrap();
    assert!(engine.session(first).is_logged_on(), "who is connected is not let go");
    // The number of a session that was removed is not given to another one; it gets a new number when it comes back.
    let again = come_and_go(&mut engine, acceptor, "SECOND", 1);
    assert!(!engine.has(second) && engine.has(again) && again != second);
}

#[test]
fn sessions_that_are_gone_hold_a_share_of_the_descriptors_and_their_numbers_go_on() {
    let folder = tempdir().unwrap();
    let (mut engine, acceptor) = server(Some(folder.path()));
    engine.store_descriptors_max = 5 * DESCRIPTORS;
    let _connected = log_on(&mut engine, acceptor, "FIRST", 1).unwrap();
    for round in 1..=3 {
        for number in 0..12 {
            let handle = come_and_go(&mut engine, acceptor, &format!("N{number}"), round);
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
    let (mut engine, acceptor) = server(Some(folder.path()));
    engine.store_descriptors_max = 2 * DESCRIPTORS;
    let connected: Vec<TcpStream> =
        (0..4).map(|number| log_on(&mut engine, acceptor, &format!("N{number}"), 1).unwrap()).collect();
    assert_eq!(engine.handles().filter(|handle| engine.session(*handle).is_logged_on()).count(), 4);
    drop(connected);
}

/// The constant is what the kernel says.
#[test]
fn a_journal_holds_as_many_descriptors_as_are_counted() {
    let folder = tempdir().unwrap();
    let (mut engine, acceptor) = server(Some(folder.path()));
    come_and_go(&mut engine, acceptor, "N", 1);
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

#[test]
fn ten_thousand_made_up_names_fill_neither_disk_nor_memory_and_who_is_known_gets_in() {
    const KNOWN: usize = 5;
    let folder = tempdir().unwrap();
    // Those of an earlier process count, too.
    for number in 0..KNOWN {
        let (mut engine, acceptor) = server_that_keeps(Some(folder.path()), KNOWN);
        come_and_go(&mut engine, acceptor, &format!("KNOWN{number}"), 1);
    }
    let (mut engine, acceptor) = server_that_keeps(Some(folder.path()), KNOWN);
    let entries = || std::fs::read_dir(folder.path()).unwrap().count();
    for number in 0..10_000 {
        let (stream, answer) = knock(&mut engine, acceptor, &format!("MADEUP{number}"), 1);
        assert!(answer.contains("|35=5|34=1|") && answer.contains("|58=Too many sessions|"), "{answer}");
        // Else ten thousand of them would wait in the kernel.
        socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
        if number % 2000 == 1 {
            let round = u64::try_from(number / 2000).unwrap() + 2;
            (0..KNOWN).for_each(|known| _ = come_and_go(&mut engine, acceptor, &format!("KNOWN{known}"), round));
        }
    }
    assert_eq!((entries(), engine.slots.len(), engine.pending()), (KNOWN, KNOWN, 0));
    assert_eq!(engine.refusals().sessions, 10_000);
    assert!(engine.metrics().contains("connections_refused_total{reason=\"sessions\"} 10000\n"));
    // Room for one, made by hand.
    std::fs::remove_dir_all(session_folder(folder.path(), &id("KNOWN0"))).unwrap();
    until(&mut engine, |engine| log_on(engine, acceptor, "NEW", 1).is_some());
    assert_eq!(entries(), KNOWN);
}

#[test]
fn sessions_with_a_name_of_their_own_in_the_settings_do_not_count() {
    let folder = tempdir().unwrap();
    let (mut engine, acceptor) = server_that_keeps(Some(folder.path()), 1);
    let mut named = SessionPlan::new(SessionSettings::new(Role::Acceptor, id("NAMED")));
    named.store = StorePlan::Journal { folder: folder.path().to_owned(), options: Options::default() };
    engine.add_acceptor(acceptor, named).unwrap();
    come_and_go(&mut engine, acceptor, "FIRST", 1);
    assert!(log_on(&mut engine, acceptor, "SECOND", 1).is_none());
    assert!(log_on(&mut engine, acceptor, "NAMED", 1).is_some());
}

/// A connection with a new name makes the trading thread count the folder, only as far as is needed to refuse it.
#[test]
fn a_full_folder_is_counted_as_far_as_is_needed_by_each_limit() {
    const FOLDERS: usize = 50;
    let folder = tempdir().unwrap();
    (0..FOLDERS).for_each(|number| std::fs::create_dir(folder.path().join(number.to_string())).unwrap());
    let (mut engine, _) = server_that_keeps(Some(folder.path()), 5);
    assert_eq!([5, 60].map(|most| engine.kept_in(folder.path(), most)), [5, FOLDERS]);
    let template = engine.acceptors[0].templates[0].clone();
    let [few, many] = [5, FOLDERS + 2].map(|kept_max| SessionPlan { kept_max, ..template.clone() });
    for _ in 0..2 {
        assert!(!engine.may_keep_one_more(&few, 0) && engine.may_keep_one_more(&many, 0));
        engine.note_kept(&many);
    }
    assert!(!engine.may_keep_one_more(&many, 0));
}
