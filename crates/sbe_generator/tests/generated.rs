//! What is committed is what the generator writes today, formatted, and the same on every run.

use sidestep_sbe_generator::{File, RUNTIME, generate};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A schema of crate `market`, where its code is, and the runtime's path in it.
const COMMITTED: [(&str, &str, &str); 2] =
    [("mdp.xml", "src/mdp/schema", "crate::sbe"), ("everything.xml", "tests/everything", RUNTIME)];

fn market() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../market")
}

fn files(schema: &str, runtime: &str) -> Vec<File> {
    let xml = fs::read(market().join("schemas").join(schema)).expect("the schema is there");
    generate(schema, &xml, runtime).expect("a good schema")
}

fn below(folder: &Path, found: &mut BTreeSet<PathBuf>) {
    for entry in fs::read_dir(folder).expect("it is there").flatten() {
        let path = entry.path();
        if path.is_dir() {
            below(&path, found);
        } else {
            found.insert(path);
        }
    }
}

#[test]
fn committed_code_is_what_the_generator_writes() {
    for (schema, folder, runtime) in COMMITTED {
        let folder = market().join(folder);
        let mut there = BTreeSet::new();
        below(&folder, &mut there);
        for file in files(schema, runtime) {
            let path = folder.join(&file.path);
            let committed = fs::read_to_string(&path).unwrap_or_default();
            assert!(committed == file.text, "{}: generate it again (docs/decisions/0045-sbe.md)", path.display());
            there.remove(&path);
        }
        assert!(there.is_empty(), "of no schema: {there:?}");
    }
}

#[test]
fn generated_code_is_formatted_and_the_same_on_every_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let configuration = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../rustfmt.toml");
    for (schema, _, runtime) in COMMITTED {
        let once = files(schema, runtime);
        assert_eq!(once, files(schema, runtime));
        for file in &once {
            let path = folder.path().join(schema).join(&file.path);
            fs::create_dir_all(path.parent().expect("it has one")).expect("a folder");
            fs::write(path, &file.text).expect("a file");
        }
        let root = folder.path().join(schema).join("mod.rs");
        let arguments = ["--check", "--edition", "2024", "--config-path"];
        let checked = Command::new("rustfmt").args(arguments).args([&configuration, &root]).output();
        let checked = checked.expect("rustfmt can be run");
        assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
    }
}

#[test]
fn the_program_writes_a_folder_and_tells_what_is_wrong() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = |arguments: &[&str]| {
        let program = Command::new(env!("CARGO_BIN_EXE_sidestep-sbe-generator")).args(arguments).output();
        let output = program.expect("it can be run");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let schema = market().join("schemas/mdp.xml");
    let out = folder.path().join("views");
    let out = out.to_str().expect("a name");
    assert_eq!(run(&[schema.to_str().expect("a name"), out]).0, Some(0));
    let view = fs::read_to_string(Path::new(out).join("book_update.rs")).expect("it was written");
    assert!(view.contains("use sidestep_market::sbe;\n"));
    let bad = folder.path().join("bad.xml");
    fs::write(&bad, "<messageSchema id='1'>\n <types>\n  <type primitiveType='int9'/>\n </types></messageSchema>")
        .expect("a file");
    let (code, text) = run(&[bad.to_str().expect("a name"), out]);
    assert_eq!(code, Some(2));
    assert!(text.contains("bad.xml: line 3, <type>: it has no name") && text.contains("next: "), "{text}");
    assert_eq!(run(&[]).0, Some(2));
    assert!(run(&["/none.xml", out]).1.contains("cannot read /none.xml"));
}
