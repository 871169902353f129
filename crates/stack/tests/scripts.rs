//! Every packet script under `scripts/`. `SIDESTEP_SCRIPT=part-of-a-name` runs those alone.

mod scripting;

use std::fs;
use std::path::{Path, PathBuf};

/// What issue and COMPLIANCE.md promise.
const SCRIPTS_MIN: usize = 120;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts")
}

fn scripts(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in fs::read_dir(folder).expect("there are scripts").flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            found.extend(scripts(&path));
        } else if path.extension().is_some_and(|ending| ending == "pkt") {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn common(name: &str) -> Option<String> {
    fs::read_to_string(folder().join("common").join(name).with_extension("txt")).ok()
}

#[test]
fn every_script_holds() {
    let chosen = std::env::var("SIDESTEP_SCRIPT").unwrap_or_default();
    let (mut run, mut checks, mut faults) = (0, 0, Vec::new());
    for path in scripts(&folder()) {
        let name = path.strip_prefix(folder()).expect("it is in the folder").display().to_string();
        if !name.contains(&chosen) {
            continue;
        }
        run += 1;
        let text = fs::read_to_string(&path).expect("a script can be read");
        let head = text.lines().next().unwrap_or_default();
        if !head.starts_with("# RFC") && !head.starts_with("# Linux") {
            faults.push(format!("{name}: the first line names no clause"));
        }
        match scripting::run(&text, &common) {
            Ok(0) => faults.push(format!("{name}: it checks nothing")),
            Ok(number) => checks += number,
            Err(fault) => faults.push(format!("{name}: {fault}")),
        }
    }
    println!("{run} scripts, {checks} checks");
    assert!(faults.is_empty(), "{} of {run} scripts:\n{}", faults.len(), faults.join("\n"));
    assert!(run >= SCRIPTS_MIN || !chosen.is_empty(), "{run} scripts");
}

/// What must fail does: else the scripts would prove nothing.
#[test]
fn a_wrong_script_fails() {
    let good = "use established\nsend 10\n> P. 1:11 ack 1\n+5ms < . 1 ack 11\n";
    assert!(scripting::run(good, &common).is_ok());
    for (right, wrong) in [
        ("1:11 ack 1", "1:12 ack 1"),
        ("1:11 ack 1", "1:11 ack 2"),
        ("> P.", "> ."),
        ("> P.", "+1us > P."),
        ("> P. 1:11 ack 1", "quiet"),
        ("> P. 1:11 ack 1\n", "> P. 1:11 ack 1\n> . 11 ack 1\n"),
        ("ack 1\n", "ack 1 win 5\n"),
        ("ack 1\n", "ack 1 <sack 1:2>\n"),
        ("send 10", "send 10 = WouldBlock"),
        ("ack 11\n", "ack 11\n+1s > . 1 ack 1\n"),
        ("ack 11\n", ""),
    ] {
        let script = good.replacen(right, wrong, 1);
        let mut script = if wrong.is_empty() { format!("{script}0\n+10s quiet\n") } else { script };
        if wrong.is_empty() {
            script = "use established\nsend 10\n> P. 1:11 ack 1\n+10s quiet\n".into();
        }
        assert!(scripting::run(&script, &common).is_err(), "{script}");
    }
}

#[test]
fn mistakes_are_told_with_their_line() {
    for (text, line) in [
        ("listen\n< X 0", 2),
        ("< S", 1),
        ("< . 1", 1),
        ("< S 5:2", 1),
        ("+5 quiet", 1),
        ("+99999999999s quiet", 1),
        ("set no_such 1", 1),
        ("< S 0 <mss>", 1),
        ("< S 0 <sack 1>", 1),
        ("< S 0 win 65536", 1),
        ("+1s", 1),
    ] {
        assert_eq!(scripting::parse::parse(text).map_err(|(number, _)| number), Err(line), "{text}");
    }
    assert!(scripting::run("frobnicate", &common).is_err());
    assert!(scripting::parse::parse(&"quiet\n".repeat(1001)).is_err());
}
