//! The rules of this repository that a test can check: layers, size, unsafe, licences, documented dependencies.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Crates from the lowest layer up; each may import those below it and the ones named beside it, nothing else of ours.
/// ARCHITECTURE.md explains the order.
const LAYERS: &[(&str, &[&str])] = &[
    ("sys", &[]),
    ("ring", &["sys"]),
    ("wire", &[]),
    ("frame", &["sys"]),
    ("stack", &["wire"]),
    ("control_api", &["sys", "wire", "stack"]),
    ("unmodified", &["sys", "control_api"]),
    ("kernel_ring", &["sys", "ring"]),
    ("xdp_steering", &["sys", "ring", "kernel_ring"]),
    ("socket", &["sys", "wire", "ring", "frame", "stack", "control_api"]),
    ("preload", &["sys", "stack", "control_api", "socket", "unmodified"]),
    ("metrics", &["sys"]),
    ("fix", &["sys", "socket", "metrics"]),
    ("venue", &["sys", "socket", "fix"]),
    ("market", &["sys", "ring", "wire"]),
    ("feed_handler", &["sys", "ring", "socket", "market"]),
    ("sbe_generator", &["sys"]),
    ("control", &["sys", "wire", "control_api", "kernel_ring", "xdp_steering"]),
    ("capi", &["sys", "ring", "control_api", "socket", "fix", "market", "feed_handler"]),
    ("report", &["sys"]),
    ("lab", &["sys"]),
    ("tune", &["sys"]),
    (
        "bench",
        &[
            "sys",
            "wire",
            "ring",
            "kernel_ring",
            "control_api",
            "frame",
            "stack",
            "socket",
            "control",
            "report",
            "lab",
            "tune",
            "unmodified",
            "fix",
            "market",
            "venue",
        ],
    ),
    ("doctor", &["sys", "frame", "control_api", "xdp_steering", "control", "tune", "unmodified"]),
    ("watch", &["sys", "control_api", "metrics", "tune", "bench"]),
    (
        "cli",
        &[
            "sys",
            "ring",
            "control_api",
            "socket",
            "fix",
            "market",
            "sbe_generator",
            "feed_handler",
            "control",
            "bench",
            "report",
            "lab",
            "tune",
            "unmodified",
            "doctor",
            "watch",
            "venue",
        ],
    ),
    ("testkit", &["sys", "lab"]),
];

/// Crates that may contain unsafe code; all others forbid it.
const UNSAFE: &[&str] = &["sys", "ring", "frame", "preload", "capi"];

/// Lines after which a file has more than one subject.
const FILE_LINES_MAX: usize = 500;

/// Licences that can be shipped under MIT OR Apache-2.0 (deny.toml has the same list for cargo-deny).
const LICENCES: &[&str] = &[
    "MIT",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
    "0BSD",
    "BSL-1.0",
    "CC0-1.0",
];

/// Crates of ours that contain a BPF program in C, which is GPL-2.0.
const GPL: &[&str] = &["sidestep-kernel-ring", "sidestep-xdp-steering"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// All files below `folder` that end in one of `endings`.
fn files(folder: &Path, endings: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && !path.ends_with("target") {
            found.extend(files(&path, endings));
        } else if path.extension().is_some_and(|ending| endings.iter().any(|known| ending == *known)) {
            found.push(path);
        }
    }
    found
}

fn sources() -> Vec<PathBuf> {
    ["crates", "bpf", "kernel", "src", "include", "tests", "examples", "fuzz", "parquet", "peers"]
        .iter()
        .flat_map(|folder| files(&root().join(folder), &["rs", "c", "h"]))
        .collect()
}

fn metadata() -> Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--filter-platform", &platform()])
        .current_dir(root())
        .output()
        .expect("cargo can be run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("cargo writes JSON")
}

/// The host's target triple: what is built for others is not downloaded here.
fn platform() -> String {
    let output = Command::new("rustc").arg("-vV").output().expect("rustc can be run");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix("host: "));
    line.expect("rustc names its host").to_owned()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// The folder in `crates/` of a package of ours.
fn layer(package: &Value) -> Option<String> {
    text(package, "name").strip_prefix("sidestep-").map(|name| name.replace('-', "_"))
}

#[test]
fn no_crate_imports_upward() {
    let metadata = metadata();
    let ours = list(&metadata, "packages").iter().filter(|package| package["source"].is_null());
    for package in ours {
        let Some(name) = layer(package) else { continue };
        let allowed =
            LAYERS.iter().find(|(layer, _)| *layer == name.as_str()).unwrap_or_else(|| panic!("{name} has no layer")).1;
        let imports = list(package, "dependencies").iter().filter(|dependency| dependency["kind"] != "dev");
        for import in imports.filter_map(layer) {
            assert!(allowed.contains(&import.as_str()), "{name} may not import {import}");
        }
    }
}

#[test]
fn files_have_one_subject() {
    for path in sources() {
        let lines = read(&path).lines().count();
        assert!(lines <= FILE_LINES_MAX, "{} has {lines} lines: split it by subject", path.display());
    }
}

#[test]
fn unsafe_is_fenced() {
    for (name, _) in LAYERS {
        let library = read(&root().join("crates").join(name).join("src/lib.rs"));
        let forbids = library.contains("#![forbid(unsafe_code)]");
        assert_eq!(forbids, !UNSAFE.contains(name), "{name}: forbid(unsafe_code) or stand in the list of this test");
    }
}

#[test]
fn licences_can_be_shipped() {
    let metadata = metadata();
    for package in list(&metadata, "packages") {
        let licence = text(package, "license").replace('/', " OR ");
        let any_of = |all_of: &str| all_of.split(" OR ").any(|one| LICENCES.contains(&one.trim()));
        let is_bpf = |licence: &str| licence == "GPL-2.0-only" && GPL.contains(&text(package, "name"));
        let allowed = licence.replace(['(', ')'], "").split(" AND ").all(|part| any_of(part) || is_bpf(part));
        assert!(allowed, "{} {}: licence {licence:?}", text(package, "name"), text(package, "version"));
    }
}

#[test]
fn every_dependency_has_its_reason() {
    let reasons = read(&root().join("docs/dependencies.md"));
    let metadata = metadata();
    let ours = list(&metadata, "packages").iter().filter(|package| package["source"].is_null());
    for dependency in ours.flat_map(|package| list(package, "dependencies")) {
        let name = text(dependency, "name");
        let known = name.starts_with("sidestep") || reasons.contains(&format!("`{name}`"));
        assert!(known, "docs/dependencies.md gives no reason for {name}");
    }
}

/// What `cargo package` and a registry ask of a crate: words about it, its licences, and nothing outside of its folder.
#[test]
fn every_crate_can_be_packaged() {
    let metadata = metadata();
    for package in list(&metadata, "packages").iter().filter(|package| package["source"].is_null()) {
        let name = text(package, "name");
        let folder = Path::new(text(package, "manifest_path")).parent().expect("a file is in a folder");
        for key in ["description", "license", "readme", "rust_version"] {
            assert!(!text(package, key).is_empty(), "{name} has no {key}");
        }
        assert!(!list(package, "keywords").is_empty() && !list(package, "categories").is_empty(), "{name}");
        let readme = read(&folder.join("README.md"));
        assert!(readme.starts_with(&format!("# {name}\n")), "README.md of {name} begins with its name");
        let licences = ["LICENSE-MIT", "LICENSE-APACHE"].map(|file| read(&folder.join(file)));
        assert_eq!(licences, ["LICENSE-MIT", "LICENSE-APACHE"].map(|file| read(&root().join(file))), "{name}");
        for dependency in list(package, "dependencies").iter().filter(|one| text(one, "name").starts_with("sidestep")) {
            // One with a version would be asked of the registry: crates whose tests use each other could not be published.
            let (is_dev, has_version) = (dependency["kind"] == "dev", text(dependency, "req") != "*");
            assert_ne!(is_dev, has_version, "{name} needs {}", text(dependency, "name"));
        }
        for file in files(&folder.join("src"), &["rs"]) {
            let code = read(&file);
            let up = "../".repeat(file.strip_prefix(folder).expect("it is there").components().count());
            assert!(!code.contains(&format!("include_str!(\"{up}")), "{}: a file outside of {name}", file.display());
        }
    }
}

/// The peers and the fuzz targets are workspaces of their own: what a crate of ours comes to need is to be locked there, too,
/// or `peers/ring/run` ends before it begins.
#[test]
fn the_other_lock_files_know_what_our_crates_need() {
    let metadata = metadata();
    for file in [
        "peers/ring/Cargo.lock",
        "peers/tcp/Cargo.lock",
        "peers/codec/Cargo.lock",
        "peers/itch/Cargo.lock",
        "peers/sbe/Cargo.lock",
        "peers/book/Cargo.lock",
        "fuzz/Cargo.lock",
        "parquet/Cargo.lock",
        "tests/outside/Cargo.lock",
    ] {
        let locked = read(&root().join(file));
        let entries = locked.split("[[package]]").filter_map(locked_names);
        for (name, has) in entries {
            let Some(package) = list(&metadata, "packages").iter().find(|package| text(package, "name") == name) else {
                continue;
            };
            let is_ours = package["source"].is_null();
            let needs =
                list(package, "dependencies").iter().filter(|one| one["kind"] != "dev" && one["optional"] == false);
            for need in needs.map(|one| text(one, "name")).filter(|_| is_ours) {
                assert!(has.contains(&need), "{file} lacks {need} of {name}: run `cargo tree` beside it");
            }
        }
    }
}

/// The package and its dependencies in one entry of a lock file.
fn locked_names(entry: &str) -> Option<(&str, Vec<&str>)> {
    let name = entry.trim_start().strip_prefix("name = \"")?.split('"').next()?;
    let list = entry.split_once("dependencies = [").map_or("", |(_, list)| list);
    let names = list.split('"').skip(1).step_by(2).filter_map(|one| one.split(' ').next());
    Some((name, names.collect()))
}

/// Ways to read that end only where the file does. `sidestep_sys::file` reads what a user names, up to a limit.
const UNBOUNDED: &[&str] =
    &["fs::read(", "read_to_string(", "read_to_end(", "BufReader::new", ".read_line(", "pem_file", "io::copy("];

/// Files of the kernel in /proc and /sys (it bounds them), and what only tests and our own tools read, with the reason.
const READ_WHOLE: &[(&str, &str)] = &[
    ("crates/sys/src/proc.rs", "/proc and /sys"),
    ("crates/sys/src/clock.rs", "/sys"),
    ("crates/tune/src/isolate.rs", "a cgroup's files, which are the kernel's"),
    ("crates/tune/src/host/tree.rs", "a made-up /proc and /sys of tests"),
    ("crates/control/src/netlink/sockets.rs", "/proc/net, line by line"),
    ("crates/testkit/src/vm/init.rs", "the image that the test has made"),
    ("crates/testkit/src/vm/image.rs", "programs and modules for a virtual machine of the tests"),
    ("crates/testkit/src/vm/kernel.rs", "packages of the distribution, for tests"),
    ("crates/testkit/src/vm/machine.rs", "the console of a virtual machine of the tests"),
    ("crates/testkit/src/vm/modules.rs", "packages of the distribution, for tests"),
];

#[test]
fn what_is_read_has_a_limit() {
    let mut used = Vec::new();
    let folders = files(&root().join("crates"), &["rs"]).into_iter().chain(files(&root().join("src"), &["rs"]));
    for path in folders {
        let name = path.strip_prefix(root()).expect("it is ours").to_string_lossy().into_owned();
        if ["/tests/", "_tests", "/examples/", "/tests.rs"].iter().any(|part| name.contains(part)) {
            continue;
        }
        let text = read(&path);
        let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        let lines: Vec<&str> = code.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            let statement = lines[at.saturating_sub(2)..=at].join(" ").replace("take()", "");
            let is_bounded = statement.contains("take(") || line.contains("\"/proc/") || line.contains("\"/sys/");
            let is_comment = line.trim_start().starts_with("//");
            if is_bounded || is_comment || !UNBOUNDED.iter().any(|way| line.contains(way)) {
                continue;
            }
            let known = READ_WHOLE.iter().find(|(file, _)| *file == name);
            let (file, _) = known.unwrap_or_else(|| panic!("{name}, line {}: read it by sidestep_sys::file", at + 1));
            used.push(*file);
        }
    }
    for (file, reason) in READ_WHOLE {
        assert!(used.contains(file), "{file} ({reason}) reads nothing whole any more: take it off the list");
    }
}

/// Crates whose errors end on a user's screen, and the kinds of [`Problem`](sidestep_sys::Problem) that need a next step there.
const TELLS_NEXT: &[(&str, &[&str])] = &[
    ("cli", &["usage", "failed"]),
    ("bench", &["usage"]),
    ("report", &["usage"]),
    ("lab", &["usage"]),
    ("testkit", &["usage"]),
    ("tune", &["usage"]),
    ("sbe_generator", &["usage", "failed"]),
];

#[test]
fn errors_have_a_next_step() {
    for (name, kinds) in TELLS_NEXT {
        for path in files(&root().join("crates").join(name).join("src"), &["rs"]) {
            // The engine's own commands have rules of their own.
            if path.to_string_lossy().contains("/commands/fix/") {
                continue;
            }
            let text = read(&path);
            let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
            for kind in *kinds {
                for (at, call) in code.match_indices(&format!("Problem::{kind}(")) {
                    let after = after_call(&code[at + call.len()..]).trim_start();
                    let line = code[..at].lines().count();
                    assert!(
                        after.starts_with(".next("),
                        "{}, line {line}: an error without a next step",
                        path.display()
                    );
                }
            }
        }
    }
}

/// What follows a call whose arguments begin here.
fn after_call(arguments: &str) -> &str {
    let (mut depth, mut quoted, mut escaped) = (1, false, false);
    for (at, character) in arguments.char_indices() {
        match character {
            '\\' if quoted && !escaped => {
                escaped = true;
                continue;
            }
            '"' if !escaped => quoted = !quoted,
            '(' if !quoted => depth += 1,
            ')' if !quoted => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return &arguments[at + 1..];
        }
        escaped = false;
    }
    ""
}

#[test]
fn every_crate_stands_in_the_architecture() {
    let architecture = read(&root().join("ARCHITECTURE.md"));
    for (name, _) in LAYERS {
        assert!(architecture.contains(&format!("`{name}`")), "ARCHITECTURE.md does not name {name}");
    }
}

/// The modules of the public face (`src/lib.rs`), in its order.
const FACE: &[&str] = &["error", "engine", "udp", "tcp", "stream", "datagram", "ring", "idle", "fix", "market"];

#[test]
fn the_face_is_an_explicit_list() {
    let face = read(&root().join("src/lib.rs"));
    let modules = face.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(" {"));
    assert_eq!(modules.collect::<Vec<_>>(), FACE);
    assert!(!face.contains("::*"), "the face names what it has");
    let exports = face.matches("pub use ").count();
    assert_eq!(exports, face.matches("#[doc(inline)]\n").count(), "the documentation of one crate reads as one");
}

/// `tests/face.rs` builds and runs it.
#[test]
fn the_program_outside_the_workspace_names_the_whole_face() {
    let program: String = files(&root().join("tests/outside/src"), &["rs"]).iter().map(|path| read(path)).collect();
    let words: Vec<&str> = program.split(|letter: char| !letter.is_alphanumeric() && letter != '_').collect();
    let face = read(&root().join("src/lib.rs"));
    for export in face.split("pub use ").skip(1).filter_map(|rest| rest.split(';').next()) {
        let (_, list) = export.split_once("::").expect("no crate is re-exported as a module");
        let names = list.split(['{', '}', ',']).filter_map(|item| item.trim().rsplit("::").next());
        for name in names.filter(|name| !name.is_empty()) {
            assert!(words.contains(&name), "tests/outside does not use {name} of {export}");
        }
    }
}

/// "Where do I change X?" names files and folders that are there. A path begins in the root or in `crates/`; a bare name stands in
/// a folder that its row has named before.
#[test]
fn the_table_of_places_points_at_what_exists() {
    let text = read(&root().join("ARCHITECTURE.md"));
    let table = text.split("## Where do I change X?").nth(1).expect("the table is there");
    for row in table.lines().filter(|line| line.starts_with('|')) {
        let mut folders = vec![root().to_owned(), root().join("crates")];
        for path in row.split('`').skip(1).step_by(2).filter(|name| is_path(name)).flat_map(expand) {
            let fixed = path.split(['<', '*']).next().unwrap_or_default();
            let found = folders
                .iter()
                .map(|folder| folder.join(fixed))
                .find(|place| place.exists() || place.with_extension("rs").exists());
            let found = found.unwrap_or_else(|| panic!("ARCHITECTURE.md: no {path} in the row {row}"));
            folders.extend(found.ancestors().take(3).map(Path::to_owned));
        }
    }
}

fn is_path(name: &str) -> bool {
    let is_file = [".rs", ".c", ".h", ".md", ".toml"].iter().any(|ending| name.ends_with(ending));
    !name.contains(' ') && (is_file || name.contains('/'))
}

/// `a/{b,c}.rs`: `a/b.rs` and `a/c.rs`.
fn expand(path: &str) -> Vec<String> {
    let Some((before, rest)) = path.split_once('{') else { return vec![path.to_owned()] };
    let (choices, after) = rest.split_once('}').expect("a brace is closed");
    choices.split(',').flat_map(|choice| expand(&format!("{before}{choice}{after}"))).collect()
}

#[test]
fn documents_point_at_what_exists() {
    for document in files(&root().join("docs"), &["md"]).into_iter().chain(top_documents()) {
        let folder = document.parent().expect("a file is in a folder").to_owned();
        for target in links(&read(&document)) {
            assert!(folder.join(&target).exists(), "{}: no {target}", document.display());
        }
    }
}

fn top_documents() -> Vec<PathBuf> {
    let entries = fs::read_dir(root()).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.filter(|path| path.extension().is_some_and(|ending| ending == "md")).collect()
}

/// Relative targets of the links of a Markdown text.
fn links(text: &str) -> Vec<String> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let relative = targets.filter(|target| !target.contains("://") && !target.starts_with('#'));
    relative.map(|target| target.split('#').next().unwrap_or_default().to_owned()).collect()
}
