//! The public acceptance suite of the QuickFIX family, run against our acceptor session in virtual time.
//!
//! The scripts are not in this repository. `make conformance` obtains them as the Go module of quickfixgo and names the folder
//! in `FIX_ACCEPTANCE`; without it the test says so and is skipped. With `FIX_ACCEPTANCE_OVER=tcp` it runs against the engine at
//! the other end of a socket, which takes a minute.

use super::scripting::compare::Mode;
use super::scripting::socket::SocketHost;
use super::scripting::{parse, run, world};
use sidestep_fix::dictionary::Dictionary;
use sidestep_fix::engine::SessionPlan;
use sidestep_fix::session::{Role, Rules, Session, SessionId, SessionSettings};
use sidestep_fix::store::MemoryStore;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Scripts of the suite: fewer mean that something is missing. quickfixgo 0.9.10 has 467 of the original suite and 38 more.
const SCRIPTS_MIN: usize = 505;

#[test]
fn the_public_suite_passes() {
    let Some(root) = std::env::var_os("FIX_ACCEPTANCE").map(PathBuf::from) else {
        println!("skipped: FIX_ACCEPTANCE names no copy of the public suite (make conformance obtains one)");
        return;
    };
    let filter = std::env::var("FIX_SCRIPT").unwrap_or_default();
    let scripts = scripts_below(&root.join("_test/definitions"));
    assert!(scripts.len() >= SCRIPTS_MIN, "{}: {} scripts, not {SCRIPTS_MIN}", root.display(), scripts.len());
    let mut places: BTreeMap<(String, String), Vec<PathBuf>> = BTreeMap::new();
    for path in scripts.into_iter().filter(|path| path.to_string_lossy().contains(&filter)) {
        places.entry(place(&path)).or_default().push(path);
    }
    let (passed, failures) = run_all(&places, &root);
    for ((suite, version), (good, all)) in &passed {
        println!("{suite:24} {version:9} {good:3} of {all:3}");
    }
    let (good, all) = passed.values().fold((0, 0), |sum, count| (sum.0 + count.0, sum.1 + count.1));
    println!("{:34} {good:3} of {all:3}", "all");
    assert!(failures.is_empty(), "{} scripts failed:\n{}", failures.len(), failures.join("\n"));
}

type Passed = BTreeMap<(String, String), (usize, usize)>;

/// One thread for each suite and version: over sockets most of the time is waiting for heartbeats.
fn run_all(places: &BTreeMap<(String, String), Vec<PathBuf>>, root: &Path) -> (Passed, Vec<String>) {
    let (mut passed, mut failures) = (Passed::new(), Vec::new());
    std::thread::scope(|scope| {
        let mut running = Vec::new();
        for (place, paths) in places {
            running.push((place, scope.spawn(move || run_place(place, paths, root))));
        }
        for (place, thread) in running {
            let failed = thread.join().expect("it does not panic");
            let all = places[place].len();
            passed.insert(place.clone(), (all - failed.len(), all));
            failures.extend(failed);
        }
    });
    (passed, failures)
}

fn run_place((suite, version): &(String, String), paths: &[PathBuf], root: &Path) -> Vec<String> {
    let rules = rules(version, root);
    let one = |path: &PathBuf| {
        let result = run_one(path, suite, version, rules.clone());
        result.err().map(|reason| format!("{}: {reason}", path.display()))
    };
    paths.iter().filter_map(one).collect()
}

fn scripts_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(scripts_below(&path));
        } else if path.extension().is_some_and(|ending| ending == "def") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// `server/fix44/x.def`: suite and version.
fn place(path: &Path) -> (String, String) {
    let mut parts = path.iter().rev().skip(1).map(|part| part.to_string_lossy().into_owned());
    let version = parts.next().expect("a folder of a version");
    (parts.next().expect("a folder of a suite"), version)
}

fn run_one(path: &Path, suite: &str, version: &str, rules: Rules) -> Result<(), String> {
    let bytes = std::fs::read(path).map_err(|error| error.to_string())?;
    let steps = parse::script(&bytes).map_err(|bad| bad.to_string())?;
    let settings = settings(suite, version);
    if over_sockets() {
        let mut plan = SessionPlan::new(settings);
        plan.validator = Some(Arc::new(rules));
        return run::run(&steps, &mut SocketHost::new(plan), Mode::Strict);
    }
    let now = world::start();
    let store = MemoryStore::with_bytes(now.utc_ns, 1 << 20);
    let session = Session::new(settings, store, Some(Arc::new(rules)), now).expect("the settings are good");
    run::run(&steps, &mut world::World::new(vec![session]), Mode::Strict)
}

/// `FIX_ACCEPTANCE_OVER=tcp`: against an engine at the other end of a socket, in real time.
fn over_sockets() -> bool {
    std::env::var_os("FIX_ACCEPTANCE_OVER").is_some_and(|over| over == "tcp")
}

/// The acceptor that the suite expects, as its configuration files describe it.
fn settings(suite: &str, version: &str) -> SessionSettings {
    let (begin_string, appl_ver_id) = match version {
        "fix40" => ("FIX.4.0", ""),
        "fix41" => ("FIX.4.1", ""),
        "fix42" => ("FIX.4.2", ""),
        "fix43" => ("FIX.4.3", ""),
        "fix44" => ("FIX.4.4", ""),
        "fix50" => ("FIXT.1.1", "7"),
        "fix50sp1" => ("FIXT.1.1", "8"),
        "fix50sp2" => ("FIXT.1.1", "9"),
        other => panic!("a version {other}?"),
    };
    let mut settings = SessionSettings::new(Role::Acceptor, SessionId::new(begin_string, "ISLD", "TW"));
    // The suite wants QuickFIX's fields to the byte.
    settings.reject_details = false;
    settings.default_appl_ver_id = appl_ver_id.to_owned();
    settings.reset_on_logon = suite != "nextexpectedseqnum";
    settings.next_expected_msg_seq_num = suite == "nextexpectedseqnum";
    settings.last_msg_seq_num_processed = suite == "lastseqnumprocessed";
    settings.resend_request_chunk_size = if suite == "resendreqchunksize" { 5 } else { 0 };
    settings
}

/// The suite's own dictionaries, as the module brings them.
fn rules(version: &str, root: &Path) -> Rules {
    let read = |name: &str| {
        let path = root.join("spec").join(name);
        let xml = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Dictionary::from_quickfix_xml(&xml).unwrap_or_else(|problem| panic!("{}: {problem}", path.display()))
    };
    let dictionary = read(&format!("{}.xml", version.to_uppercase()));
    if !version.starts_with("fix50") {
        return Rules { dictionary: Arc::new(dictionary), transport: None, options: Default::default() };
    }
    let transport = read("FIXT11.xml");
    let dictionary = Arc::new(dictionary.with_transport(&transport));
    Rules { dictionary, transport: Some(Arc::new(transport)), options: Default::default() }
}
