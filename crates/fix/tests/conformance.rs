//! The public acceptance suite of the QuickFIX family, run against our acceptor session in virtual time.
//!
//! The scripts are not in this repository. `make conformance` obtains them as the Go module of quickfixgo and names the folder
//! in `FIX_ACCEPTANCE`; without it the test says so and is skipped.

mod scripting;

use scripting::compare::Mode;
use scripting::{parse, run, world};
use sidestep_fix::session::{Role, Session, SessionId, SessionSettings};
use sidestep_fix::store::MemoryStore;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

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
    let mut passed: BTreeMap<(String, String), (usize, usize)> = BTreeMap::new();
    let mut failures = Vec::new();
    for path in scripts.iter().filter(|path| path.to_string_lossy().contains(&filter)) {
        let (suite, version) = place(path);
        let result = run_one(path, &suite, &version, &root);
        let count = passed.entry((suite, version)).or_default();
        count.1 += 1;
        match result {
            Ok(()) => count.0 += 1,
            Err(reason) => failures.push(format!("{}: {reason}", path.display())),
        }
    }
    for ((suite, version), (good, all)) in &passed {
        println!("{suite:24} {version:9} {good:3} of {all:3}");
    }
    let (good, all) = passed.values().fold((0, 0), |sum, count| (sum.0 + count.0, sum.1 + count.1));
    println!("{:34} {good:3} of {all:3}", "all");
    assert!(failures.is_empty(), "{} scripts failed:\n{}", failures.len(), failures.join("\n"));
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

fn run_one(path: &Path, suite: &str, version: &str, root: &Path) -> Result<(), String> {
    let bytes = std::fs::read(path).map_err(|error| error.to_string())?;
    let steps = parse::script(&bytes).map_err(|bad| bad.to_string())?;
    let session = session(suite, version, root);
    let mut world = world::World::new(vec![session]);
    run::run(&steps, &mut world, Mode::Strict)
}

/// The acceptor that the suite expects, as its configuration files describe it.
fn session(suite: &str, version: &str, _root: &Path) -> Session<MemoryStore> {
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
    settings.default_appl_ver_id = appl_ver_id.to_owned();
    settings.reset_on_logon = suite != "nextexpectedseqnum";
    settings.next_expected_msg_seq_num = suite == "nextexpectedseqnum";
    settings.last_msg_seq_num_processed = suite == "lastseqnumprocessed";
    settings.resend_request_chunk_size = if suite == "resendreqchunksize" { 5 } else { 0 };
    let now = world::start();
    let store = MemoryStore::with_bytes(now.utc_ns, 1 << 20);
    Session::new(settings, store, None, now).expect("the settings are good")
}
