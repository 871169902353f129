//! Mistakes of a new user on the command line or in a settings file are named at the start, with the next step.

mod support;

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Child;
use support::{Finished, finish, run, send_signal, sidestep};
use tempfile::tempdir;

/// A running exchange and where it listens.
fn exchange(arguments: &[&str]) -> (Child, String) {
    let mut child = sidestep(&[&["fix", "exchange"], arguments].concat()).spawn().expect("the binary is built");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("it is piped")).read_line(&mut line).unwrap();
    let Some(address) = line.trim().strip_prefix("listening on ").map(str::to_owned) else {
        panic!("{}", finish(child).stderr);
    };
    (child, address)
}

fn stop(child: Child) -> Finished {
    send_signal(child.id(), "TERM");
    finish(child)
}

/// It ends with `code` and says all of `words`, each on one line only.
fn refuses(arguments: &[&str], code: i32, words: &[&str]) -> String {
    let told = run(arguments);
    assert_eq!(told.code, code, "{arguments:?}: {}", told.stderr);
    for word in words {
        let lines = told.stderr.lines().filter(|line| line.contains(word)).count();
        assert_eq!(lines, 1, "{arguments:?} says {word:?} on {lines} lines: {}", told.stderr);
    }
    told.stderr
}

fn text(path: &Path) -> &str {
    path.to_str().expect("tests have plain names")
}

#[test]
fn a_store_that_cannot_be_written_is_found_at_the_start() {
    let folder = tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let inside = file.join("store");
    let listen = ["fix", "exchange", "--listen", "127.0.0.1:0", "--store", "page-cache", "--store-path"];
    for store in [&file, &inside] {
        let why = format!("cannot keep sessions in {}", store.display());
        let told = refuses(&[&listen[..], &[text(store)]].concat(), 1, &[&why, "(--store-path)"]);
        assert!(!told.contains("FileStorePath"), "{told}");
        let send = ["fix", "send", "--to", "127.0.0.1:1", "--store-path", text(store)];
        assert!(!refuses(&send, 1, &[&why, "(--store-path)"]).contains("FileStorePath"));
        for key in ["AcceptorTemplate=Y", "BeginString=FIX.4.4\nSenderCompID=A\nTargetCompID=B"] {
            let cfg = folder.path().join("x.cfg");
            let settings = format!(
                "[DEFAULT]\nConnectionType=acceptor\nSocketAcceptPort=0\nFileStorePath={}\n[SESSION]\n{key}\n",
                store.display()
            );
            std::fs::write(&cfg, settings).unwrap();
            refuses(&["fix", "exchange", "--cfg", text(&cfg)], 1, &[&why, "(FileStorePath)"]);
        }
    }
}

#[test]
fn files_that_cannot_be_read_have_a_next_step() {
    let folder = tempdir().unwrap();
    let missing = folder.path().join("missing.cfg");
    let next = "next: name a file of settings that this user may read";
    refuses(&["fix", "exchange", "--cfg", text(&missing)], 1, &["missing.cfg", next]);
    refuses(&["fix", "send", "--cfg", text(&missing)], 1, &["missing.cfg", next]);
    let log = folder.path().join("log");
    std::fs::write(&log, "8=FIX.4.4|9=5|35=0|10=163|\n").unwrap();
    let bad = folder.path().join("bad.xml");
    std::fs::write(&bad, "<nonsense").unwrap();
    for dictionary in [&bad, &missing] {
        let next = "next: name a dictionary in QuickFIX's XML";
        refuses(&["fix", "decode", "--dictionary", text(dictionary), text(&log)], 1, &[next]);
    }
}

#[test]
fn a_damaged_begin_string_is_damage() {
    let folder = tempdir().unwrap();
    let log = folder.path().join("log");
    std::fs::write(&log, "8=FIX.4.4|9=5|35=0|10=163|\n10:00:00 8=FIZ.4.4|9=5|35=0|10=163|\nnoise\n").unwrap();
    let told = run(&["fix", "decode", text(&log)]);
    assert_eq!(told.code, 1, "{told:?}");
    assert!(told.stdout.contains("  ! BeginString (8) is FIZ.4.4, no version of FIX\n"), "{}", told.stdout);
    assert!(told.stderr.contains("1 line without") && told.stderr.contains("1 damaged message"), "{}", told.stderr);
    std::fs::write(&log, "8=FIZ.4.4|9=5|35=0|10=163|\n").unwrap();
    assert_eq!(run(&["fix", "decode", text(&log)]).code, 1);
}

#[test]
fn orders_that_cannot_be_filled_are_rejected_without_a_dictionary() {
    let folder = tempdir().unwrap();
    let orders = folder.path().join("orders");
    let (running, address) = exchange(&["--listen", "127.0.0.1:0"]);
    let good = "35=D|11=1|55=X|54=1|38=100|40=2|44=10.25|60=20261122-10:00:00";
    for (is, becomes, answer) in [
        ("38=100", "38=abc", "|35=3|.*|371=38|.*|373=6|"),
        ("38=100", "38=0", "|35=3|.*|371=38|.*|373=5|"),
        ("38=100", "38=-5", "|35=3|.*|371=38|.*|373=5|"),
        ("44=10.25", "44=1,5", "|35=3|.*|371=44|.*|373=6|"),
        ("|44=10.25", "", "|35=j|.*|380=5|"),
        ("54=1", "54=12", "|35=3|.*|371=54|.*|373=6|"),
        ("54=1", "54=!", "|35=3|.*|371=54|.*|373=5|"),
        ("40=2", "40=!", "|35=3|.*|371=40|.*|373=5|"),
    ] {
        std::fs::write(&orders, good.replace(is, becomes)).unwrap();
        let told = run(&["fix", "send", "--to", &address, "--file", text(&orders), "--wait", "500ms"]);
        assert_eq!(told.code, 1, "{becomes}: {told:?}");
        let has_all = |line: &str| answer.split(".*").all(|part| line.contains(part));
        assert!(told.stdout.lines().any(has_all), "{becomes} is not answered by {answer}: {}", told.stdout);
        assert!(!told.stdout.contains("|35=8|"), "{becomes}: {}", told.stdout);
    }
    std::fs::write(&orders, format!("{good}\n{}\n", good.replace("|44=10.25", "").replace("40=2", "40=1"))).unwrap();
    let told = run(&["fix", "send", "--to", &address, "--file", text(&orders), "--wait", "500ms"]);
    assert_eq!(told.stdout.matches("|35=8|").count(), 4, "{told:?}");
    assert!(stop(running).stderr.contains("2 orders, 0 of them unanswered"));
}

#[test]
fn addresses_that_are_wrong_or_taken_have_a_next_step_and_make_no_file() {
    let folder = tempdir().unwrap();
    let start = ["fix", "exchange", "--listen", "127.0.0.1:0"];
    let with = |more: &[&'static str]| [&start[..], more].concat();
    for wrong in [&["--metrics", "localhost:notaport"], &["--metrics", "127.0.0.1:99999"]] {
        refuses(&with(wrong), 2, &["next: write ADDRESS:PORT, or a file as ./FILE"]);
        assert!(!Path::new(wrong[1]).exists());
    }
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    refuses(&[&start[..], &["--metrics", &address]].concat(), 1, &["next: choose an address of this host"]);
    let socket = folder.path().join("admin");
    let _taken = UnixListener::bind(&socket).unwrap();
    refuses(&[&start[..], &["--admin", text(&socket)]].concat(), 1, &["next: end the engine that listens there"]);
    let nowhere = folder.path().join("missing/admin");
    refuses(&[&start[..], &["--admin", text(&nowhere)]].concat(), 1, &["next: choose a path in a folder"]);
}

#[test]
fn the_operators_socket_goes_with_the_engine_and_a_strangers_stays() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("admin");
    let (first, _) = exchange(&["--listen", "127.0.0.1:0", "--admin", text(&path)]);
    let unknown = ["fix", "reset", "NOBODY", "--admin", text(&path)];
    refuses(&unknown, 1, &["there is no session NOBODY", "next: name it as `sidestep fix sessions` lists it"]);
    assert_eq!(stop(first).code, 0);
    assert!(!path.exists(), "its socket is gone with it");
    let (second, _) = exchange(&["--listen", "127.0.0.1:0", "--admin", text(&path)]);
    std::fs::remove_file(&path).unwrap();
    let _other = UnixListener::bind(&path).unwrap();
    assert_eq!(stop(second).code, 0);
    assert!(std::fs::metadata(&path).is_ok_and(|facts| facts.file_type().is_socket()), "it is another one's by now");
}

#[test]
fn a_door_past_the_kernel_that_goes_by_the_kernel_says_so() {
    let folder = tempdir().unwrap();
    let metrics = folder.path().join("metrics.prom");
    let metrics = format!("./{}", metrics.strip_prefix("/").unwrap().display());
    let mut command = sidestep(&["fix", "exchange", "--listen", "xdp:lo:127.0.0.1:0", "--metrics", &metrics]);
    let mut child = command.current_dir("/").spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let Some(port) = line.trim().rsplit_once(':').map(|(_, port)| port.to_owned()) else {
        panic!("{}", finish(child).stderr);
    };
    let sent = run(&["fix", "send", "--to", &format!("127.0.0.1:{port}"), "--wait", "20s"]);
    assert_eq!(sent.code, 0, "{}", sent.stderr);
    let told = stop(child).stderr;
    let at_start = told.lines().find(|line| line.contains("xdp:lo:127.0.0.1:")).unwrap_or_default();
    assert!(at_start.contains(": kernel: ") && !at_start.ends_with("kernel: "), "{told}");
    assert!(told.contains("FIX.4.4:EXCHANGE->CLIENT goes by the kernel, 127.0.0.1: "), "{told}");
    let text = std::fs::read_to_string(Path::new("/").join(&metrics)).unwrap();
    assert!(text.is_empty() || text.contains("# TYPE sidestep_fix_accelerated gauge"), "{text}");
}

#[test]
fn usage_names_every_way_to_call() {
    for (command, first) in [("exchange", "--listen <ADDRESS>"), ("send", "--to <ADDRESS>")] {
        let told = run(&["fix", command]);
        assert_eq!(told.code, 2);
        for way in [first, "--cfg <FILE>"] {
            assert!(told.stderr.contains(&format!("sidestep fix {command} {way}")), "{}", told.stderr);
        }
        let help = run(&["fix", command, "--help"]);
        assert!(help.code == 0 && help.stdout.contains(&format!("sidestep fix {command} --cfg <FILE>")), "{help:?}");
    }
}

#[test]
fn measurements_of_nothing_have_a_next_step() {
    let bench = |more: &[&'static str]| [&["bench", "fix"][..], more].concat();
    refuses(&bench(&["--sessions", "0"]), 2, &["cannot open 0 sessions", "next: choose --sessions"]);
    refuses(&bench(&["--own", "none"]), 2, &["nothing to measure", "next: give --acceptor NAME=ADDRESS"]);
    refuses(&bench(&["--own", "none", "--pid", "nobody=1"]), 2, &["next: add --acceptor nobody=ADDRESS"]);
}
