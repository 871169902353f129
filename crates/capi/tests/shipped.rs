//! The libraries as `make install` ships them: their size is mostly debug information and bitcode, which are not
//! installed.

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::{C99, compile, include, library_folder, printed};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn run(script: &str, arguments: &[&Path]) {
    let output = Command::new(root().join("scripts").join(script)).args(arguments).output().expect("it is a script");
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
}

/// The names that `nm` lists with these options.
fn exported(options: &[&str], library: &Path) -> BTreeSet<String> {
    let output = Command::new("nm").args(options).arg("--defined-only").arg(library).output().expect("nm can be run");
    let listed = String::from_utf8_lossy(&output.stdout).into_owned();
    listed.lines().filter_map(|line| line.split_whitespace().nth(2)).map(str::to_owned).collect()
}

fn sections(file: &Path) -> String {
    let output = Command::new("readelf").args(["--section-headers", "--wide"]).arg(file).output();
    String::from_utf8_lossy(&output.expect("readelf can be run").stdout).into_owned()
}

#[test]
fn the_static_library_has_the_calls_and_exports_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("libsidestep_c.a");
    run("slim-archive", &[&library_folder().join("libsidestep_c.a"), &library]);
    let shared = library_folder().join("libsidestep_c.so");
    assert_eq!(exported(&["--extern-only"], &library), exported(&["--dynamic"], &shared));
    assert!(![".debug_info", ".llvmbc"].iter().any(|section| sections(&library).contains(section)));

    let (source, program) = (root().join("crates/capi/tests/calls.c"), folder.path().join("calls"));
    let include = include();
    let more = ["-I".as_ref(), include.as_os_str(), library.as_os_str()];
    let more = more.into_iter().chain(["-lpthread", "-ldl", "-lm"].map(AsRef::as_ref));
    compile(&C99, &source, &more.collect::<Vec<_>>(), &program).unwrap();
    let room = tempfile::tempdir().unwrap();
    assert_eq!(printed(&program, &[room.path().as_os_str()]), "good\n");
}

#[test]
fn the_shared_library_names_the_file_with_its_debug_information() {
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("libsidestep_c.so");
    fs::copy(library_folder().join("libsidestep_c.so"), &library).unwrap();
    let before = exported(&["--dynamic"], &library);
    // The second run finds nothing to do: the debug information stays in its file.
    let debug = [0; 2].map(|_| {
        run("split-debug", &[&library]);
        fs::read(folder.path().join("libsidestep_c.so.debug")).unwrap()
    });
    assert_eq!(debug[0], debug[1]);
    assert_eq!(exported(&["--dynamic"], &library), before);
    let left = sections(&library);
    assert!(left.contains(".gnu_debuglink") && left.contains(".symtab") && !left.contains(".debug_"), "{left}");
}
