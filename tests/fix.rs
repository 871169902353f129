//! The commands of FIX: an exchange as a process, a client, an operator, a full disk, a kill.

mod support;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use support::{Finished, finish, is_root, run, send_signal, sidestep};
use tempfile::tempdir;

/// A running exchange, ended when the test ends.
struct Exchange {
    child: Option<Child>,
    address: String,
}

impl Exchange {
    fn start(arguments: &[&str]) -> Self {
        let mut all = vec!["fix", "exchange"];
        all.extend(arguments);
        Self::of(sidestep(&all))
    }

    fn of(mut command: Command) -> Self {
        let mut child = command.spawn().expect("the binary is built");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("it is piped")).read_line(&mut line).unwrap();
        let Some(address) = line.trim().strip_prefix("listening on ").map(str::to_owned) else {
            panic!("{}", finish(child).stderr);
        };
        Self { child: Some(child), address }
    }

    fn pid(&self) -> u32 {
        self.child.as_ref().expect("it runs").id()
    }

    fn stop(mut self, signal: &str) -> Finished {
        let child = self.child.take().expect("it runs");
        send_signal(child.id(), signal);
        finish(child)
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn send(to: &str, more: &[&str]) -> Finished {
    let mut all = vec!["fix", "send", "--to", to, "--wait", "20s"];
    all.extend(more);
    run(&all)
}

#[test]
fn orders_are_filled_and_the_operator_sees_and_resets_the_numbers() {
    let folder = tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (admin, metrics, store) = (path("admin.sock"), path("metrics.prom"), path("store"));
    let exchange = Exchange::start(&[
        "--listen",
        "127.0.0.1:0",
        "--store",
        "page-cache",
        "--store-path",
        &store,
        "--admin",
        &admin,
        "--metrics",
        &metrics,
    ]);
    let sent = send(&exchange.address, &["--count", "3"]);
    assert_eq!(sent.code, 0, "{}", sent.stderr);
    assert_eq!(sent.stdout.lines().filter(|line| line.contains("|35=8|")).count(), 6, "{}", sent.stdout);
    assert!(sent.stderr.contains("3 sent, 6 received, 0 rejected"), "{}", sent.stderr);
    let listed = run(&["fix", "sessions", "--admin", &admin, "--json"]);
    let row: serde_json::Value = serde_json::from_str(listed.stdout.trim()).unwrap();
    assert_eq!((row["session"].as_str(), row["next_outbound"].as_u64()), (Some("FIX.4.4:EXCHANGE->CLIENT"), Some(9)));
    let reset = run(&["fix", "reset", "FIX.4.4:EXCHANGE->CLIENT", "--admin", &admin]);
    assert_eq!(reset.code, 0, "{}", reset.stderr);
    assert!(run(&["fix", "sessions", "--admin", &admin]).stdout.contains("disconnected"));
    assert_eq!(run(&["fix", "reset", "NOBODY", "--admin", &admin]).code, 1);
    let end = Instant::now() + Duration::from_secs(10);
    while !std::fs::read_to_string(&metrics).is_ok_and(|text| text.contains("sidestep_fix_logons_total")) {
        assert!(Instant::now() < end, "the file of metrics is not written");
        std::thread::sleep(Duration::from_millis(20));
    }
    let stopped = exchange.stop("TERM");
    assert_eq!(stopped.code, 0, "{}", stopped.stderr);
    assert!(stopped.stderr.contains("3 orders"), "{}", stopped.stderr);
}

#[test]
fn settings_of_quickfix_are_taken_and_their_notes_are_said() {
    let folder = tempdir().unwrap();
    let file = folder.path().join("exchange.cfg");
    let socket = folder.path().join("fix.sock");
    let text = format!(
        "[DEFAULT]\nConnectionType=acceptor\nTransport=unix\nSocketAcceptPath={}\nFileLogPath=log\n[SESSION]\n\
         BeginString=FIX.4.2\nSenderCompID=EXCHANGE\nTargetCompID=CLIENT\n",
        socket.display()
    );
    std::fs::write(&file, text).unwrap();
    let exchange = Exchange::start(&["--cfg", file.to_str().unwrap()]);
    let sent = send(&exchange.address, &["--begin", "FIX.4.2"]);
    assert_eq!(sent.code, 0, "{}", sent.stderr);
    assert!(sent.stdout.contains("|20=0|"), "FIX 4.2 has ExecTransType: {}", sent.stdout);
    assert!(exchange.stop("INT").stderr.contains("line 5: FileLogPath has no effect"));
}

#[test]
fn thousands_of_orders_are_all_answered_and_a_missing_answer_is_a_failure() {
    let exchange = Exchange::start(&["--listen", "127.0.0.1:0"]);
    let sent = send(&exchange.address, &["--count", "5000"]);
    assert_eq!(sent.code, 0, "{}", sent.stderr);
    assert!(sent.stderr.contains("5000 sent, 10000 received, 0 rejected"), "{}", sent.stderr);
    let orders = |tag: &str| -> std::collections::HashSet<String> {
        let field = |line: &str| line.split(tag).nth(1).and_then(|rest| rest.split('|').next()).map(str::to_owned);
        sent.stdout.lines().filter_map(field).collect()
    };
    assert_eq!((orders("|37=").len(), orders("|17=").len()), (5_000, 10_000), "OrderID, ExecID");
    let asked = ["fix", "send", "--to", &exchange.address, "--wait", "500ms", "--answers", "3"];
    let wanting = run(&asked);
    assert_eq!(wanting.code, 1, "{}", wanting.stderr);
    assert!(wanting.stderr.contains("1 of 3 answers are missing"), "{}", wanting.stderr);
    let stopped = exchange.stop("TERM");
    assert_eq!(stopped.code, 0, "{}", stopped.stderr);
    assert!(stopped.stderr.contains("5001 orders, 0 of them unanswered"), "{}", stopped.stderr);
}

#[test]
fn nobody_to_talk_to_is_said_with_the_reason() {
    let sent = run(&["fix", "send", "--to", "127.0.0.1:1", "--wait", "300ms"]);
    assert_eq!(sent.code, 1);
    assert!(sent.stderr.contains("cannot log on") && sent.stderr.contains("refused"), "{}", sent.stderr);
    assert_eq!(run(&["fix", "send", "--to", "nonsense"]).code, 2);
    assert_eq!(run(&["fix", "exchange"]).code, 2);
}

/// What the client has got acknowledged is in the exchange's journal, whenever that is killed.
#[test]
fn an_exchange_that_is_killed_goes_on_with_its_numbers() {
    let folder = tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (ours, theirs) = (path("exchange"), path("client"));
    for store in ["page-cache", "group-commit"] {
        let mut orders = 0;
        for _ in 0..3 {
            let exchange = Exchange::start(&[
                "--listen",
                "127.0.0.1:0",
                "--store",
                store,
                "--store-path",
                &format!("{ours}-{store}"),
            ]);
            let client = format!("{theirs}-{store}");
            let sent = send(&exchange.address, &["--count", "20", "--store-path", &client]);
            assert_eq!(sent.code, 0, "{store}: {}", sent.stderr);
            orders += 20;
            let reports = sent.stdout.lines().filter(|line| line.contains("|35=8|")).count();
            assert_eq!(reports, 40, "{store} after {orders} orders: {}\n{}", sent.stdout, sent.stderr);
            assert!(!sent.stdout.contains("|43=Y|"), "{store}: nothing is sent twice: {}", sent.stdout);
            exchange.stop("KILL");
        }
    }
}

/// An exchange in a mount namespace of its own, its store on a tmpfs of this kind.
fn on_tmpfs(folder: &Path, options: &str) -> Command {
    let script = format!(
        "mount -t tmpfs -o {options} none {0} && exec {1} fix exchange --listen unix:{0}.sock --store page-cache \
         --store-path {0}/store",
        folder.display(),
        env!("CARGO_BIN_EXE_sidestep")
    );
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", &script]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn a_full_disk_ends_the_session_in_order() {
    if !is_root() {
        return;
    }
    let folder = tempdir().unwrap();
    let store = folder.path().join("disk");
    std::fs::create_dir(&store).unwrap();
    // Room for one segment, not for the next one.
    let exchange = Exchange::of(on_tmpfs(&store, "size=6m"));
    let sent =
        send(&exchange.address, &["--count", "30000", "--store-path", folder.path().join("client").to_str().unwrap()]);
    let logout = sent.stdout.lines().find(|line| line.contains("|35=5|"));
    assert!(logout.is_some_and(|line| line.contains("store is full")), "{}: {logout:?}", sent.stderr);
    assert!(exchange.pid() > 0);
    let stopped = exchange.stop("TERM");
    // An order whose answer found the disk full has none, and the exit code says so; the Logout may have found it first.
    let is_answered = stopped.stderr.contains(" 0 of them unanswered");
    assert_eq!(stopped.code, i32::from(!is_answered), "{}", stopped.stderr);
    assert!(stopped.stderr.contains("No space left"), "{}", stopped.stderr);
}

#[test]
fn a_disk_that_cannot_be_written_is_found_at_the_start() {
    if !is_root() {
        return;
    }
    let folder = tempdir().unwrap();
    let store = folder.path().join("disk");
    std::fs::create_dir(&store).unwrap();
    let refused = finish(on_tmpfs(&store, "ro").spawn().unwrap());
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("Read-only file system"), "{}", refused.stderr);
}

#[test]
fn what_a_counterparty_writes_does_not_reach_the_terminal_as_it_is() {
    let folder = tempdir().unwrap();
    let log = folder.path().join("log");
    std::fs::write(&log, "8=FIX.4.2|9=5|35=B|58=\u{1b}]0;x\u{7}|10=000|\n").unwrap();
    let told = run(&["fix", "decode", &log.display().to_string()]);
    assert!(told.stdout.contains("?]0;x?") && !told.stdout.contains('\u{1b}'), "{told:?}");
}

#[test]
fn orders_are_sent_by_an_initiators_settings() {
    let exchange = Exchange::start(&["--listen", "127.0.0.1:0"]);
    let (host, port) = exchange.address.rsplit_once(':').expect("it has a port");
    let folder = tempdir().unwrap();
    let write = |name: &str, sessions: &[&str]| {
        let file = folder.path().join(name);
        let mut text = format!(
            "[DEFAULT]\nConnectionType=initiator\nSocketConnectHost={host}\nSocketConnectPort={port}\nBeginString=FIX.4.2\n\
             TargetCompID=EXCHANGE\nHeartBtInt=30\nStartTime=00:00:00\nEndTime=00:00:00\nFileLogPath=log\n\
             FileStorePath={}\n",
            folder.path().join("store").display()
        );
        sessions.iter().for_each(|sender| text.push_str(&format!("[SESSION]\nSenderCompID={sender}\n")));
        std::fs::write(&file, text).unwrap();
        file.display().to_string()
    };
    let send = |more: &[&str]| run(&[&["fix", "send", "--wait", "20s", "--cfg"], more].concat());
    let one = write("one.cfg", &["DESK"]);
    let sent = send(&[&one]);
    assert_eq!(sent.code, 0, "{}", sent.stderr);
    assert!(sent.stdout.contains("8=FIX.4.2") && sent.stdout.contains("56=DESK"), "{}", sent.stdout);
    assert!(sent.stderr.contains("FileLogPath has no effect"), "{}", sent.stderr);
    // What is kept is gone on with, and the exchange, which has kept its numbers, too, agrees.
    let again = send(&[&one]);
    assert_eq!(again.code, 0, "{}", again.stderr);
    assert!(again.stdout.contains("34=6|"), "{}", again.stdout);
    let two = write("two.cfg", &["FIRST", "SECOND"]);
    let unclear = send(&[&two]);
    assert_eq!(unclear.code, 2);
    assert!(unclear.stderr.contains("FIX.4.2:FIRST->EXCHANGE, FIX.4.2:SECOND->EXCHANGE"), "{}", unclear.stderr);
    let second = send(&[&two, "--session", "FIX.4.2:SECOND->EXCHANGE"]);
    assert!(second.code == 0 && second.stdout.contains("56=SECOND"), "{second:?}");
    let acceptor = folder.path().join("acceptor.cfg");
    std::fs::write(
        &acceptor,
        std::fs::read_to_string(&one).unwrap().replace("=initiator", "=acceptor\nSocketAcceptPort=1"),
    )
    .unwrap();
    let none = send(&[&acceptor.display().to_string()]);
    assert!(none.code == 2 && none.stderr.contains("no initiator"), "{none:?}");
}

#[test]
fn a_client_that_is_interrupted_says_how_far_it_came() {
    let exchange = Exchange::start(&["--listen", "127.0.0.1:0"]);
    let mut client = sidestep(&["fix", "send", "--to", &exchange.address, "--count", "100000000"]);
    let mut client = client.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // It is at work when the first answer is there.
    let mut first = [0];
    std::io::Read::read_exact(client.stdout.as_mut().unwrap(), &mut first).unwrap();
    let mut answers = client.stdout.take().unwrap();
    let reading = std::thread::spawn(move || std::io::copy(&mut answers, &mut std::io::sink()));
    send_signal(client.id(), "INT");
    let ended = client.wait_with_output().unwrap();
    reading.join().unwrap().unwrap();
    let told = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(130), "{told}");
    assert!(told.contains(" sent, ") && told.contains(" received, "), "{told}");
}

/// The first segment of the only journal below.
fn first_segment(folder: &Path) -> PathBuf {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let deeper = paths.iter().find(|path| path.is_dir()).map(|folder| first_segment(folder));
    deeper.unwrap_or_else(|| paths.into_iter().find(|path| path.extension() == Some("journal".as_ref())).unwrap())
}

#[test]
fn messages_are_explained_wherever_they_stand() {
    let folder = tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (client, log) = (path("client"), path("messages.log"));
    let exchange = Exchange::start(&["--listen", "127.0.0.1:0"]);
    assert_eq!(send(&exchange.address, &["--store-path", &client]).code, 0);
    exchange.stop("TERM");
    let journal = run(&["fix", "decode", &client]);
    assert_eq!(journal.code, 0, "{}", journal.stderr);
    assert!(journal.stdout.contains("sent NewOrderSingle (D) CLIENT -> EXCHANGE, 2"), "{}", journal.stdout);
    assert!(journal.stdout.contains("-- next inbound 5"), "{}", journal.stdout);
    // A segment that the journal counts on and that is emptied, zeroed or gone is not one that was never used.
    let segment = first_segment(Path::new(&client));
    let sound = std::fs::read(&segment).unwrap();
    let zeroed: Vec<u8> = sound.iter().enumerate().map(|(at, byte)| if at < 4096 { 0 } else { *byte }).collect();
    for damaged in [Some(zeroed), Some(Vec::new()), None] {
        match damaged {
            Some(bytes) => std::fs::write(&segment, bytes).unwrap(),
            None => std::fs::remove_file(&segment).unwrap(),
        }
        let told = run(&["fix", "decode", &client]);
        assert!(told.code == 1 && told.stdout.contains("  ! "), "{} {}", told.stdout, told.stderr);
    }
    std::fs::write(&log, "20261121-10:00:00.000 : 8=FIX.4.2|9=49|35=8|34=2|49=A|56=B|150=2|55=IBM|10=000|\nnoise\n")
        .unwrap();
    let explained = run(&["fix", "decode", &log]).stdout;
    assert!(explained.starts_with("20261121-10:00:00.000 ExecutionReport (8) A -> B, 2\n"), "{explained}");
    assert!(explained.contains("   55 Symbol                   IBM\n"), "{explained}");
    let line: serde_json::Value = serde_json::from_str(run(&["fix", "decode", "--json", &log]).stdout.trim()).unwrap();
    assert_eq!(
        (line["name"].as_str(), line["fields"][6]["name"].as_str()),
        (Some("ExecutionReport"), Some("ExecType"))
    );
    assert!(explained.contains("  150 ExecType                 2 (Fill)\n"), "{explained}");
    assert!(explained.contains("  ! CheckSum (10) is 000, and the bytes give "), "{explained}");
    assert!(line["errors"].as_array().is_some_and(|errors| errors.len() == 2), "{line}");
    let told = run(&["fix", "decode", &log]);
    assert_eq!(told.code, 1, "damage was seen");
    assert!(told.stderr.contains("1 line without a message skipped"), "{}", told.stderr);
    std::fs::write(&log, "8=FIX.4.4|9=5|35=0|10=163|\n8=FIX.4.4|9=5|35=0|\n").unwrap();
    let cut = run(&["fix", "decode", &log]);
    assert!(cut.code == 1 && cut.stderr.contains("1 message without an end skipped"), "{cut:?}");
    std::fs::write(&log, "8=FIX.4.4|9=5|35=0|10=163|\n").unwrap();
    assert_eq!(run(&["fix", "decode", &log]).code, 0);
    std::fs::write(&log, "nothing of the kind").unwrap();
    assert_eq!(run(&["fix", "decode", &log]).code, 1);
}

#[test]
fn values_are_explained_by_the_dictionary_that_is_given() {
    let folder = tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (xml, log) = (path("own.xml"), path("log"));
    let fields = "<field number='54' name='Side' type='CHAR'><value enum='1' description='BID'/></field>\
                  <field number='18' name='ExecInst' type='MULTIPLESTRINGVALUE'><value enum='1' description='NOT_HELD'/>\
                  <value enum='2' description='WORK'/></field>";
    let text =
        format!("<fix major='4' minor='4'><header/><trailer/><messages/><components/><fields>{fields}</fields></fix>");
    std::fs::write(&xml, text).unwrap();
    std::fs::write(&log, "8=FIX.4.4|9=21|35=D|54=1|18=1 2|10=000|\n").unwrap();
    let explained = run(&["fix", "decode", "--dictionary", &xml, &log]).stdout;
    assert!(explained.contains(" 1 (BID)\n") && explained.contains(" 1 2 (NOT_HELD, WORK)\n"), "{explained}");
    let standard = run(&["fix", "decode", &log]).stdout;
    assert!(standard.contains(" 1 (Buy)\n"), "{standard}");
}

#[test]
fn what_never_ends_is_not_read_as_a_file_of_settings() {
    for more in
        [&["--cfg", "/dev/zero"][..], &["--listen", "127.0.0.1:0", "--tls-cert", "/dev/zero", "--tls-key", "/dev/zero"]]
    {
        let refused = run(&[&["fix", "exchange"], more].concat());
        assert_eq!(refused.code, 1, "{refused:?}");
        assert!(refused.stderr.contains("it is a device"), "{refused:?}");
    }
}

#[test]
fn a_damaged_journal_is_refused_until_its_loss_is_accepted() {
    let folder = tempdir().unwrap();
    let store = folder.path().join("store").display().to_string();
    let exchange = ["--listen", "127.0.0.1:0", "--store", "page-cache", "--store-path", &store];
    let first = Exchange::start(&exchange);
    let client = folder.path().join("client").display().to_string();
    assert_eq!(send(&first.address, &["--store-path", &client]).code, 0);
    let session = std::fs::read_dir(&client).unwrap().next().unwrap().unwrap().path();
    let segment = session.join("0000000000000000.journal");
    std::fs::write(&segment, vec![0; std::fs::metadata(&segment).unwrap().len() as usize]).unwrap();
    let refused = send(&first.address, &["--store-path", &client]);
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("--accept-loss"), "{}", refused.stderr);
    let accepted = send(&first.address, &["--store-path", &client, "--accept-loss", "--reset"]);
    assert_eq!(accepted.code, 0, "{}", accepted.stderr);
    assert!(accepted.stderr.contains("loss accepted"), "{}", accepted.stderr);
    assert_eq!(send(&first.address, &["--store-path", &client]).code, 0);
    first.stop("TERM");
}
