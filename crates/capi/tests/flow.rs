//! Every call of `ring_flow.h`, from C, over kernel sockets; and the example.

mod support;

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use support::{C99, compile, include, library_folder, printed};

fn compiled(folder: &Path, source: &str) -> PathBuf {
    let library = library_folder().join("libsidestep_c.so");
    symlink(&library, folder.join("libsidestep_c.so.1")).unwrap();
    let (rpath, include) = (format!("-Wl,-rpath,{}", folder.display()), include());
    let more = ["-I".as_ref(), include.as_os_str(), library.as_os_str(), rpath.as_ref()];
    let (source, program) = (Path::new(env!("CARGO_MANIFEST_DIR")).join(source), folder.join("program"));
    compile(&C99, &source, &more, &program).unwrap();
    program
}

#[test]
fn every_call_does_what_the_header_says() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(printed(&compiled(folder.path(), "tests/flow.c"), &[]), "good\n");
}

#[test]
fn the_example_is_standard_c() {
    let folder = tempfile::tempdir().unwrap();
    let program = compiled(folder.path(), "../../examples/ring_flow.c");
    let output = std::process::Command::new(program).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "it tells its usage");
}
