//! Every call, from C, with the shared and with the static library.

mod support;

use std::os::unix::fs::symlink;
use std::path::Path;
use support::{C99, compile, include, library_folder, printed};

#[test]
fn every_call_does_what_the_header_says() {
    let folder = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/calls.c");
    let [shared, archive] = ["libsidestep_c.so", "libsidestep_c.a"].map(|name| library_folder().join(name));
    symlink(&shared, folder.path().join("libsidestep_c.so.1")).unwrap();
    let rpath = format!("-Wl,-rpath,{}", folder.path().display());
    let include = include();
    for (name, library) in [("shared", &shared), ("static", &archive)] {
        let program = folder.path().join(name);
        let more = ["-I".as_ref(), include.as_os_str(), library.as_os_str(), rpath.as_ref()];
        let more = more.into_iter().chain(["-lpthread", "-ldl", "-lm"].map(AsRef::as_ref));
        compile(&C99, &source, &more.collect::<Vec<_>>(), &program).unwrap();
        let room = tempfile::tempdir().unwrap();
        assert_eq!(printed(&program, &[room.path().as_os_str()]), "good\n", "{name}");
    }
}
