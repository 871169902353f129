//! Every program that code, tests and scripts start is part of every Debian system, is asked for by scripts/bootstrap, or may be
//! absent: a machine where it happens to be installed says nothing about the next one.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Programs of Debian's essential packages: bash, bsdutils, coreutils, dash, dpkg, findutils, grep, libc-bin, mawk, sed, tar, util-linux.
const ESSENTIAL: &[&str] = &[
    "env",
    "script",
    "apt-cache",
    "apt-get",
    "awk",
    "bash",
    "cat",
    "chmod",
    "cp",
    "cut",
    "dirname",
    "dpkg-deb",
    "find",
    "grep",
    "head",
    "id",
    "install",
    "ldd",
    "ln",
    "ls",
    "mkdir",
    "mkfifo",
    "mktemp",
    "mount",
    "mv",
    "nsenter",
    "od",
    "prlimit",
    "pwd",
    "realpath",
    "rm",
    "sed",
    "setpriv",
    "sh",
    "sleep",
    "sort",
    "tac",
    "tail",
    "tar",
    "tee",
    "timeout",
    "touch",
    "tr",
    "true",
    "unshare",
];

/// What comes with the Rust toolchain, which the README asks for.
const TOOLCHAIN: &[&str] = &["cargo", "rustc", "rustfmt"];

/// Programs that may be absent, and who says so then.
const MAY_BE_ABSENT: &[(&str, &str)] = &[
    ("tshark", "crates/frame/tests/frames.rs prints that the capture was not read by anybody else"),
    ("editcap", "crates/market/tests/oracle.rs prints that it is not installed"),
    ("sidestep-parquet", "sidestep market replay --parquet says how it is built"),
];

/// What stands before the name of a program in Rust.
const STARTS: &[&str] =
    &["Command::new(\"", ".command(\"", "exec(\"a\", &[\"", "exec(\"b\", &[\"", "Side::A, \"", "Side::B, \""];

/// What may stand before a command in a shell's line.
const SEPARATORS: &[&str] =
    &["||", "&&", "|", ";", "\n", "`", "{", "&", "$(", "then ", "do ", "else ", "if ", "while ", "until ", "! ", ") "];

/// Words that the shell itself knows, and programs have, too.
const BUILT_IN: &[&str] = &["command", "echo", "false", "kill", "printf", "read", "test", "wait"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All files below `folder` that were not built.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        match path.file_name().and_then(|name| name.to_str()) {
            Some("target" | "node_modules") => {}
            _ if path.is_dir() => found.extend(files(&path)),
            _ => found.push(path),
        }
    }
    found
}

/// Texts below these folders whose name ends so; without an ending those that have none.
fn texts(folders: &[&str], ending: Option<&str>) -> Vec<(PathBuf, String)> {
    let paths = folders.iter().flat_map(|folder| files(&root().join(folder)));
    paths
        .filter(|path| path.extension().and_then(|ending| ending.to_str()) == ending)
        .filter_map(|path| Some((path.clone(), fs::read_to_string(path).ok()?)))
        .collect()
}

/// Programs that scripts/bootstrap installs, by its lines `need PROGRAM PACKAGE ...` and `wish PROGRAM PACKAGE ...`.
fn in_bootstrap() -> Vec<String> {
    let script = fs::read_to_string(root().join("scripts/bootstrap")).unwrap();
    let named = |line: &str| {
        let mut words = line.split_whitespace();
        let is_line = matches!(words.next()?, "need" | "wish");
        words.next().filter(|_| is_line).map(str::to_owned)
    };
    script.lines().filter_map(named).collect()
}

/// Names of programs that Rust code starts: the literals behind what starts one.
fn started_by_rust(text: &str) -> Vec<&str> {
    let after = |start: &'static str| text.split(start).skip(1).filter_map(|rest| rest.split('"').next());
    STARTS.iter().flat_map(|start| after(start)).collect()
}

/// The script without comments and quoted text, as far as that is possible line by line and without a shell.
fn commands_alone(script: &str) -> String {
    let mut bare = String::new();
    let mut quote = None;
    for line in script.lines() {
        let line = if quote.is_none() && line.trim_start().starts_with('#') { "" } else { line };
        for letter in line.chars() {
            match (quote, letter) {
                (None, '\'' | '"') => quote = Some(letter),
                (Some(open), _) if open == letter => {
                    quote = None;
                    bare.push('Q');
                }
                (Some(_), _) => {}
                (None, _) => bare.push(letter),
            }
        }
        bare.push('\n');
    }
    bare.replace("\\\n", " ")
}

/// Words at the place of a command.
fn started_by_shell(script: &str) -> Vec<String> {
    let bare = SEPARATORS.iter().fold(commands_alone(script), |text, separator| text.replace(separator, "\u{0}"));
    let is_name = |word: &&str| {
        word.starts_with(|first: char| first.is_ascii_lowercase())
            && word.chars().all(|letter| letter.is_ascii_alphanumeric() || "+-_.".contains(letter))
    };
    let first = |part: &str| {
        let mut words = part.split_whitespace().map(|word| word.trim_start_matches('@'));
        words.find(|word| !word.contains('=')).filter(is_name).map(str::to_owned)
    };
    bare.split('\u{0}').filter_map(first).collect()
}

/// Whether this machine has such a program: a word of a script that no machine has is none.
fn is_here(name: &str) -> bool {
    let is_program = |folder: PathBuf| {
        fs::metadata(folder.join(name)).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    };
    env::var_os("PATH").is_some_and(|path| env::split_paths(&path).any(is_program))
}

#[test]
fn every_program_that_is_started_can_be_had() {
    let wished = in_bootstrap();
    let is_had = |name: &str| {
        let may_be_absent = MAY_BE_ABSENT.iter().any(|(known, _)| *known == name);
        may_be_absent || ESSENTIAL.contains(&name) || TOOLCHAIN.contains(&name) || wished.iter().any(|had| had == name)
    };
    let mut missing: BTreeMap<String, PathBuf> = BTreeMap::new();
    for (path, text) in texts(&["crates", "src", "tests", "examples", "peers", "fuzz"], Some("rs")) {
        let names = started_by_rust(&text).into_iter().filter(|name| !name.is_empty() && !name.contains('/'));
        names.filter(|name| !is_had(name)).for_each(|name| _ = missing.insert(name.to_owned(), path.clone()));
    }
    let scripts = texts(&["scripts", ".ci", "peers"], None);
    let is_defined = |name: &str| scripts.iter().any(|(_, text)| text.contains(&format!("\n{name}() {{")));
    for (path, text) in &scripts {
        let names = started_by_shell(text).into_iter().filter(|name| !BUILT_IN.contains(&name.as_str()));
        let unknown = names.filter(|name| !is_had(name) && !is_defined(name) && is_here(name));
        unknown.for_each(|name| _ = missing.insert(name, path.clone()));
    }
    assert!(missing.is_empty(), "a fresh machine may lack these; name them in scripts/bootstrap: {missing:#?}");
}

#[test]
fn what_may_be_absent_is_started_somewhere() {
    let rust = texts(&["crates", "tests"], Some("rs"));
    for (name, _) in MAY_BE_ABSENT {
        assert!(rust.iter().any(|(_, text)| started_by_rust(text).contains(name)), "{name} is not started any more");
    }
}

#[test]
fn commands_are_found_where_they_stand() {
    let script = "# ping in a comment\nif ! ping -c 1 \"$host\"; then\n  X=1 jq . <<<\"ss -t\" | sort\nfi\nname=$(basename \"$1\")\n";
    let found = started_by_shell(script);
    for name in ["ping", "jq", "sort", "basename"] {
        assert!(found.iter().any(|word| word == name), "{name}: {found:?}");
    }
    assert!(!found.iter().any(|word| word == "ss"));
    let rust = ["Command::", "new(\"ping\")"].concat();
    assert_eq!(started_by_rust(&rust), ["ping"]);
}
