//! `sidestep market` between the two hosts of a lab: the exchange on one, and on the other what watches, records, replays and keeps books.

mod support;

use sidestep::error::Problem;
use sidestep::market::book::{self, Books, Suspect};
use sidestep::market::feed::Action;
use sidestep::market::feed_handler::{Application, FeedHandler, Line, Options as FeedOptions, SnapshotServer};
use sidestep::market::mold64::Session;
use sidestep::market::{Locate, Side};
use sidestep::stream::Endpoint;
use sidestep_lab::wire::{Directions, Impairment};
use sidestep_lab::{Host, Lab, Options, Side as End};
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use support::exchange::{Process, exchange, lab};
use support::{Finished, WATCHDOG, finish, is_root, my_turn, run, send_signal, sidestep};

const GROUPS: [&str; 2] = ["239.192.0.1:26400", "239.192.0.2:26400"];
const REREQUEST: &str = "198.18.0.1:26401";
const GLIMPSE: &str = "198.18.0.1:26402";

fn on_b(lab: &Lab, arguments: &[&str]) -> Child {
    lab.host(End::B).spawn(&mut sidestep(arguments)).unwrap()
}

/// `--line` for A and B.
fn lines() -> [String; 4] {
    let line = |group: &str| ["--line".to_owned(), format!("lab0:{group}")];
    let [[a, b], [c, d]] = GROUPS.map(line);
    [a, b, c, d]
}

fn with_lines<'a>(before: &[&'a str], lines: &'a [String; 4], after: &[&'a str]) -> Vec<&'a str> {
    before.iter().copied().chain(lines.iter().map(String::as_str)).chain(after.iter().copied()).collect()
}

#[test]
fn a_feed_is_watched_from_another_host_though_both_lines_lose() {
    let _turn = my_turn();
    let Some(lab) = lab() else { return };
    let _exchange = exchange(&lab, &["--rate", "1k", "--loss-a", "5%", "--loss-b", "5%"]);
    let lines = lines();
    let sources = ["--rerequest", REREQUEST, "--glimpse", GLIMPSE, "--interval", "500ms", "--wait", "30s"];
    let look =
        |form: &[&str]| finish(on_b(&lab, &with_lines(&["market", "watch"], &lines, &[&sources[..], form].concat())));
    let once = look(&["--once"]);
    assert!(once.stdout.contains(" session S") && once.stdout.contains("\nSYMBOL "), "{}{}", once.stdout, once.stderr);
    assert!(once.stdout.contains("\nA  ") && once.stdout.contains("lab0:239.192.0.2:26400"), "{}", once.stdout);
    let json = look(&["--json", "-", "--symbol", "AAAB"]).json();
    assert!(json["instruments"].as_array().unwrap().len() > 10, "{json}");
    assert_eq!((&json["book"]["symbol"], &json["gaps"]["lost_messages"]), (&"AAAB".into(), &0.into()), "{json}");
    assert!(json["lines"][0]["lost"].as_u64() > Some(0) && json["lines"][1]["lost"].as_u64() > Some(0), "{json}");
}

#[test]
fn a_feed_that_ends_without_a_word_is_told_as_stale() {
    let _turn = my_turn();
    let Some(lab) = lab() else { return };
    let lines = lines();
    let nobody = finish(on_b(&lab, &with_lines(&["market", "watch"], &lines, &["--json", "-", "--wait", "0s"])));
    assert_eq!((nobody.code, &nobody.json()["state"]), (3, &"waiting".into()), "{}", nobody.stderr);
    let exchange = exchange(&lab, &["--rate", "1k"]);
    let watch = on_b(
        &lab,
        &with_lines(&["market", "watch"], &lines, &["--json", "-", "--interval", "9s", "--glimpse", GLIMPSE]),
    );
    std::thread::sleep(Duration::from_secs(2));
    send_signal(exchange.0.id(), "KILL");
    let ended = finish(watch);
    let json = ended.json();
    assert_eq!((ended.code, &json["state"]), (3, &"stale".into()), "{json}");
    assert_eq!(json["reason"], "no line brings anything new", "{json}");
}

#[test]
fn books_that_were_joined_in_the_middle_are_told_as_incomplete() {
    let _turn = my_turn();
    let Some(lab) = lab() else { return };
    let exchange = exchange(&lab, &["--rate", "2k"]);
    std::thread::sleep(Duration::from_secs(2));
    let ended = finish(on_b(&lab, &with_lines(&["market", "watch"], &lines(), &["--json", "-", "--wait", "20s"])));
    let json = ended.json();
    assert_eq!((ended.code, &json["state"]), (3, &"live".into()), "{json}");
    assert!(json["incomplete_books"].as_u64() > Some(0), "{json}");
    assert!(json["reason"].as_str().is_some_and(|reason| reason.contains("--glimpse")), "{json}");
    drop(exchange);
}

#[test]
fn what_was_recorded_is_decoded_and_replayed_twice_alike() {
    let _turn = my_turn();
    let Some(lab) = lab() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (file, lines) = (path("day.pcapng"), lines());
    // It joins before the first message.
    let mut recorder = Process(on_b(&lab, &with_lines(&["market", "record", &file], &lines, &["--sync", "second"])));
    await_file(&file);
    let exchange = exchange(&lab, &["--rate", "2k", "--loss-a", "3%", "--duration", "3s"]);
    std::thread::sleep(Duration::from_secs(2));
    // It can be read while it is written.
    let partial = run(&["market", "decode", "--summary", "--json", &file]);
    assert!(partial.json()["streams"].as_array().unwrap().len() == 2, "{}", partial.stderr);
    assert_eq!(finish_process(exchange), 0);
    send_signal(recorder.0.id(), "INT");
    let told = end_of(&mut recorder);
    assert!(told.contains("datagrams: A ") && !told.contains("lost"), "{told}");

    let summary = run(&["market", "decode", "--summary", "--json", &file]);
    assert_eq!(summary.code, 0, "{}", summary.stderr);
    let streams = summary.json()["streams"].clone();
    assert_eq!((&streams[0]["first"], &streams[0]["ended"]), (&1.into(), &true.into()), "{streams}");
    let json = run(&["market", "decode", "--json", "--type", "R", "--symbol", "AAAC", "--port", "26400", &file]);
    let first: serde_json::Value = serde_json::from_str(json.stdout.lines().next().unwrap()).unwrap();
    assert_eq!((&first["name"], &first["fields"]["stock"]), (&"StockDirectory".into(), &"AAAC".into()));

    for onto_itself in [["decode", "--binaryfile"], ["replay", "--log"], ["replay", "--parquet"]] {
        let refused = run(&["market", onto_itself[0], &file, onto_itself[1], &file]);
        assert_eq!(refused.code, 2, "{}", refused.stderr);
        assert!(refused.stderr.contains("it is the file that is read"), "{}", refused.stderr);
    }
    // On a machine that is busy one line is sent long after the other.
    let replay =
        |log: &str, speed: &str| run(&["market", "replay", &file, "--log", log, "--speed", speed, "--gap-wait", "1s"]);
    let (first, second) = (replay(&path("one"), "max"), replay(&path("two"), "20"));
    assert_eq!((first.code, &first.stdout), (0, &second.stdout), "{}{}", first.stderr, first.stdout);
    assert!(!first.stdout.contains("incomplete") && !first.stdout.contains("refused"), "{}", first.stdout);
    assert!(first.stdout.contains("messages lost 0\n") && first.stdout.contains("\nlog "), "{}", first.stdout);
    assert!(
        std::fs::read(path("one")).unwrap() == std::fs::read(path("two")).unwrap(),
        "the logs are equal, byte by byte"
    );
    again_on_the_wire(&lab, &file, &path("again.pcapng"));
}

/// The recorded datagrams, sent again and recorded again, are the same messages.
fn again_on_the_wire(lab: &Lab, file: &str, again: &str) {
    let lines = lines();
    let mut recorder = Process(on_b(lab, &with_lines(&["market", "record", again], &lines, &[])));
    await_file(again);
    let to = GROUPS.map(|group| format!("lab0:{group}"));
    let mut replay = sidestep(&["market", "replay", file, "--speed", "10", "--to", &to[0], "--to", &to[1]]);
    let sent = finish(lab.host(End::A).spawn(&mut replay).unwrap());
    assert!(sent.code == 0 && sent.stdout.contains(" datagrams sent, 0 of lines"), "{}{}", sent.stdout, sent.stderr);
    std::thread::sleep(Duration::from_millis(300));
    send_signal(recorder.0.id(), "INT");
    end_of(&mut recorder);
    let summary = |file: &str| run(&["market", "decode", "--summary", "--json", file]).json();
    let (before, after) = (summary(file), summary(again));
    assert_eq!(before["types"], after["types"], "{}", sent.stdout);
}

fn await_file(path: &str) {
    let begin = Instant::now();
    while !Path::new(path).exists() {
        assert!(begin.elapsed() < WATCHDOG, "{path} does not appear");
        std::thread::sleep(Duration::from_millis(20));
    }
    // The lines were joined before the file was made.
}

/// Waits for a process whose output is read elsewhere.
fn finish_process(mut process: Process) -> i32 {
    let begin = Instant::now();
    loop {
        if let Some(status) = process.0.try_wait().unwrap() {
            return status.code().unwrap_or(-1);
        }
        assert!(begin.elapsed() < WATCHDOG);
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Standard error of a process that ends.
fn end_of(process: &mut Process) -> String {
    let mut told = String::new();
    process.0.stderr.take().unwrap().read_to_string(&mut told).unwrap();
    process.0.wait().unwrap();
    told
}

/// What a handler had when the session was over.
#[derive(Debug, Default, PartialEq)]
struct Ending {
    next: u64,
    /// Of each instrument and side: price, shares, orders.
    levels: Vec<(u16, bool, i64, u64, u32)>,
    lost: u64,
    suspects: usize,
}

#[derive(Default)]
struct Day {
    is_over: bool,
    lost: u64,
}

impl Application for Day {
    fn notice(&mut self, action: &Action<Session>, _: &Books) {
        match action {
            Action::SessionEnded { .. } => self.is_over = true,
            Action::Skipped { count, .. } => self.lost += count,
            _ => {}
        }
    }
}

/// Follows the feed on a host until its session is over.
fn follow(host: &Host, rerequest: &[&str], has_snapshots: bool) -> Ending {
    let followed = host.within(|| {
        let lines = GROUPS.map(|group| Line::new("lab0", group.parse::<SocketAddr>().unwrap()));
        let mut options = FeedOptions::of(lines);
        options.line.accelerate = false;
        options.channel.books = book::Limits { instruments: 100, orders: 100_000, levels: 50_000, side_levels: 8_192 };
        options.rerequest = rerequest.iter().map(|server| server.parse().unwrap()).collect();
        if has_snapshots {
            options.snapshot = Some(SnapshotServer::at(Endpoint::parse(GLIMPSE)?));
        }
        let mut handler = FeedHandler::open(&options)?;
        let (mut day, begin) = (Day::default(), Instant::now());
        while !day.is_over {
            assert!(
                begin.elapsed() < WATCHDOG,
                "{:?} at {:?}",
                handler.channel().feed().state(),
                handler.channel().feed().next()
            );
            if handler.poll(&mut day)? == 0 {
                handler.sleep(Duration::from_millis(5))?;
            }
        }
        Ok::<_, Problem>(ending(&handler, &day))
    });
    followed.unwrap()
}

fn ending(handler: &FeedHandler, day: &Day) -> Ending {
    let books = handler.channel().books();
    let mut levels = Vec::new();
    for book in books.all() {
        for side in [Side::Buy, Side::Sell] {
            let of = |level: book::PriceLevel| {
                (book.locate().0, side == Side::Buy, level.price.0, level.shares, level.orders)
            };
            levels.extend(book.levels(side).map(of));
        }
    }
    let is_suspect =
        |locate: &u16| books.suspect(Locate(*locate)).is_some_and(|why: Suspect| !why.to_string().is_empty());
    let suspects = (1..=20).filter(is_suspect).count();
    Ending { next: handler.channel().feed().next().0, levels, lost: day.lost, suspects }
}

/// Books of a host behind a wire are those of the exchange's own host, which loses nothing; or it is told that messages are lost.
fn books_are_equal(impair: Option<&str>, flags: &[&str], rerequest: &[&str], has_snapshots: bool) -> [Ending; 2] {
    let a_to_b = impair.map(|spec| spec.parse::<Impairment>().unwrap());
    let impairment = a_to_b.map(|a_to_b| Directions { a_to_b, b_to_a: Impairment::default() });
    let options = Options { impairment, ..Options::default() };
    let lab = Lab::up(&options).unwrap();
    std::thread::scope(|scope| {
        let near = scope.spawn(|| follow(lab.host(End::A), &[REREQUEST], true));
        let far = scope.spawn(|| follow(lab.host(End::B), rerequest, has_snapshots));
        std::thread::sleep(Duration::from_millis(200));
        let exchange = exchange(&lab, &[&["--rate", "3k", "--duration", "3s"][..], flags].concat());
        let both = [near.join().unwrap(), far.join().unwrap()];
        drop(exchange);
        both
    })
}

#[test]
fn books_are_those_of_the_exchange_whichever_line_loses() {
    let _turn = my_turn();
    if !is_root() {
        return;
    }
    for flags in [
        ["--loss-a", "10%", "--loss-b", "0%"],
        ["--loss-a", "0%", "--loss-b", "10%"],
        ["--loss-a", "10%", "--loss-b", "10%"],
    ] {
        let [near, far] = books_are_equal(None, &flags, &[REREQUEST], true);
        assert!(near.next > 3_000 && near.levels.len() > 100, "{near:?}");
        assert_eq!((near.next, &near.levels, near.suspects), (far.next, &far.levels, far.suspects), "{flags:?}");
    }
}

#[test]
fn books_are_those_of_the_exchange_behind_a_wire_that_loses_and_reorders() {
    let _turn = my_turn();
    if !is_root() {
        return;
    }
    let [near, far] =
        books_are_equal(Some("loss=3%,reorder=5%,gap=2ms,duplicate=2%,delay=1ms,jitter=1ms"), &[], &[REREQUEST], true);
    assert_eq!((near.next, &near.levels, far.suspects), (far.next, &far.levels, 0));
}

#[test]
fn a_re_request_server_that_is_gone_is_replaced_by_snapshots_or_the_loss_is_told() {
    let _turn = my_turn();
    if !is_root() {
        return;
    }
    // Nobody listens at this port: the kernel of the other host says so, or nothing answers.
    let gone = ["198.18.0.1:9"];
    let [near, far] = books_are_equal(Some("loss=2%"), &[], &gone, true);
    // A gap in the last second has no time for a snapshot: the session ends first.
    let is_told = far.lost > 0 && far.suspects == 20;
    let is_repaired = near.levels == far.levels && far.suspects == 0;
    assert!(near.next == far.next && (is_told || is_repaired), "{} lost, {} suspect", far.lost, far.suspects);
    let [_, far] = books_are_equal(Some("loss=5%"), &[], &gone, false);
    assert!(far.lost > 0 && far.suspects > 0, "what was never brought is told: {far:?}");
}

fn decode(arguments: &[&str], input: &[u8]) -> Finished {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("input");
    std::fs::write(&file, input).unwrap();
    run(&[&["market", "decode", file.to_str().unwrap()], arguments].concat())
}

/// A BinaryFILE: a system event and a delete.
const MESSAGES: &[u8] = b"\0\x0cS\0\0\0\0\0\0\0\0\0\0O\0\x13D\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x07\0\0";

#[test]
fn files_that_are_broken_say_where_and_what_stands_before_is_printed() {
    let whole = decode(&[], MESSAGES);
    assert_eq!((whole.code, whole.stdout.lines().count()), (0, 2), "{}", whole.stderr);
    assert!(whole.stdout.contains("OrderDelete") && whole.stdout.contains("order_reference=7"), "{}", whole.stdout);
    let cut = decode(&[], &MESSAGES[..20]);
    assert_eq!((cut.code, cut.stdout.lines().count()), (1, 1), "{}", cut.stderr);
    assert!(cut.stderr.contains("at byte 14") && cut.stderr.contains("next:"), "{}", cut.stderr);
    let short = decode(&[], b"\0\x05D1234\0\0");
    assert!(short.code == 1 && short.stderr.contains("message type 'D' has 19 bytes, 5 are there"), "{}", short.stderr);
    for (input, words) in [(&b""[..], "it is empty"), (b"#!/bin/sh", "neither a capture"), (b"\x1f\x8b\x08\0", "zcat")]
    {
        let refused = decode(&[], input);
        assert!(refused.code == 1 && refused.stderr.contains(words), "{}", refused.stderr);
    }
    let missing = run(&["market", "decode", "/no/such/file"]);
    assert!(missing.code == 1 && missing.stderr.contains("/no/such/file"), "{}", missing.stderr);
}

#[test]
fn a_reader_that_goes_away_ends_decode_quietly() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("day");
    std::fs::write(&file, MESSAGES[..MESSAGES.len() - 2].repeat(50_000)).unwrap();
    let script = format!(
        "{} market decode {} | head -1; echo ${{PIPESTATUS[0]}}",
        env!("CARGO_BIN_EXE_sidestep"),
        file.display()
    );
    let output = Command::new("bash").args(["-c", &script]).stdin(Stdio::null()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert!(String::from_utf8_lossy(&output.stdout).ends_with("event_code=O\n0\n"), "{output:?}");
}

#[test]
fn the_views_of_the_program_outside_are_what_generate_writes() {
    let outside = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/outside");
    let folder = tempfile::tempdir().unwrap();
    let generated =
        run(&["market", "generate", outside.join("quotes.xml").to_str().unwrap(), folder.path().to_str().unwrap()]);
    assert_eq!(generated.code, 0, "{}", generated.stderr);
    for file in ["mod.rs", "quotes.rs", "quotes_encoder.rs", "types/mod.rs", "types/enums.rs", "types/frames.rs"] {
        let read = |path: &Path| std::fs::read_to_string(path.join(file)).unwrap();
        assert_eq!(read(folder.path()), read(&outside.join("src/quotes")), "{file}");
    }
    let wrong = run(&["market", "generate", "/no/such/schema", folder.path().to_str().unwrap()]);
    assert!(wrong.code == 2 && wrong.stderr.contains("next:"), "{}", wrong.stderr);
}

/// Where cargo puts an example. `cargo test` builds them all; `cargo test --test market` alone does not.
fn example(name: &str) -> std::path::PathBuf {
    let test = std::env::current_exe().expect("a program knows its file");
    let path = test.parent().and_then(Path::parent).expect("deps is in a folder").join("examples").join(name);
    assert!(path.exists(), "{} is not built: cargo build --example {name}", path.display());
    path
}

fn caught(command: &mut Command) -> &mut Command {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped())
}

#[test]
fn the_example_of_a_feed_handler_prints_bids_and_offers() {
    let _turn = my_turn();
    let Some(lab) = lab() else { return };
    let _exchange = exchange(&lab, &["--rate", "1k", "--loss-a", "2%"]);
    let lines = GROUPS.map(|group| format!("lab0:{group}"));
    let mut command = Command::new(example("feed_handler"));
    caught(command.args(["AAAA", GLIMPSE, REREQUEST]).args(&lines));
    let mut process = Process(lab.host(End::B).spawn(&mut command).unwrap());
    let mut output = BufReader::new(process.0.stdout.take().unwrap()).lines();
    let has_both = |line: &String| line.contains(" x ") && !line.contains("none");
    assert!(output.by_ref().map(Result::unwrap).take(10_000).any(|line| has_both(&line)));
}

#[test]
fn the_example_of_a_market_maker_is_filled_and_ends_flat() {
    let _turn = my_turn();
    let Some(lab) = lab() else { return };
    let _exchange = exchange(&lab, &["--rate", "4k", "--loss-a", "1%", "--loss-b", "1%"]);
    let lines = GROUPS.map(|group| format!("lab0:{group}"));
    let mut command = Command::new(example("market_maker"));
    caught(command.args(["AAAA", "4", "198.18.0.1:26403", GLIMPSE]).args(&lines));
    let ended = finish(lab.host(End::B).spawn(&mut command).unwrap());
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let quoted = ended.stdout.split(", ").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok());
    assert!(quoted > Some(0_u64) && ended.stdout.ends_with("\nflat\n"), "{}", ended.stdout);
}

#[test]
fn a_program_in_c_reads_what_a_watch_publishes() {
    let _turn = my_turn();
    let Some(lab) = lab() else { return };
    let folder = tempfile::tempdir().unwrap();
    let libraries = std::env::current_exe().expect("a program knows its file");
    let library = libraries.parent().expect("a file is in a folder").join("libsidestep_c.so");
    std::os::unix::fs::symlink(&library, folder.path().join("libsidestep_c.so.1")).unwrap();
    let (root, program) = (Path::new(env!("CARGO_MANIFEST_DIR")), folder.path().join("market_watch"));
    let mut cc = Command::new("cc");
    cc.args(["-std=c99", "-O2", "-Wall", "-Wextra", "-Werror", "-pedantic", "-I"]).arg(root.join("include"));
    cc.arg(root.join("examples/market_watch.c")).arg(library);
    cc.arg(format!("-Wl,-rpath,{}", folder.path().display())).arg("-o").arg(&program);
    assert!(cc.status().expect("cc can be run").success());

    let _exchange = exchange(&lab, &["--rate", "2k"]);
    let (published, lines) = (folder.path().join("feed"), lines());
    let flags = ["--glimpse", GLIMPSE, "--publish", published.to_str().unwrap()];
    let _watch = Process(on_b(&lab, &with_lines(&["market", "watch"], &lines, &flags)));
    await_file(published.join("instruments").to_str().unwrap());
    // It comes late: the present state first, then events.
    std::thread::sleep(Duration::from_secs(1));
    let read = finish(caught(Command::new(&program).arg(&published).args(["AAAB", "20"])).spawn().unwrap());
    assert_eq!((read.code, read.stdout.lines().count()), (0, 20), "{}", read.stderr);
    let is_whole = |line: &str| line.contains(" live ") && line.contains(" | ");
    assert!(read.stdout.lines().filter(|line| is_whole(line)).count() > 10, "{}", read.stdout);
}
