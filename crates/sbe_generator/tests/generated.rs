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

/// Names that Rust, the runtime or other generated names have already. None of them may stand for two things.
#[test]
fn names_of_a_schema_do_not_meet_those_of_the_code() {
    let names = ["Option", "Result", "Self", "Ok", "Some", "None"];
    let enums = names.map(|name| format!("<enum name='{name}' encodingType='uint8'/>")).concat();
    let composites = ["Comp", "CompFields"]
        .map(|name| format!("<composite name='{name}'><type name='a' primitiveType='uint8'/></composite>"));
    let header = ["blockLength", "templateId", "schemaId", "version"]
        .map(|name| format!("<type name='{name}' primitiveType='uint16'/>"))
        .concat();
    let kinds = [&names[..], &["Comp", "CompFields"]].concat();
    let fields: String = kinds.iter().map(|kind| format!("<field name='f{kind}' id='1' type='{kind}'/>")).collect();
    let more = ["Sbe", "sidestep_market", "Foo", "FooEncoder", "Foo_Encoder", "types", "mod"];
    let messages: String = [&names[..], &more]
        .concat()
        .iter()
        .enumerate()
        .map(|(id, name)| format!("<message name='{name}' id='{id}'>{fields}</message>"))
        .collect();
    let xml = format!(
        "<messageSchema id='1' description='\u{202e}not so\u{2066}'><types><composite name='messageHeader'>{header}</composite>\
         {enums}{}</types>{messages}</messageSchema>",
        composites.concat()
    );
    let made = generate("names", xml.as_bytes(), RUNTIME).expect("a good schema");
    let mut paths = BTreeSet::new();
    for File { path, text } in &made {
        assert!(paths.insert(path), "{path} is there once");
        assert!(!text.contains(['\u{202e}', '\u{2066}']), "{path}");
        let mut seen = BTreeSet::new();
        for line in text.lines().filter_map(|line| line.strip_prefix("pub ")) {
            let words: Vec<&str> = line.split(|letter: char| !letter.is_alphanumeric() && letter != '_').collect();
            let name = match words[..] {
                ["struct" | "enum" | "mod" | "type", name, ..] => name,
                ["use", .., name, ""] if !name.is_empty() => name,
                _ => continue,
            };
            assert!(seen.insert(name.to_owned()), "{path}: {name} is defined twice");
            assert!(!names.contains(&name) && !["sbe", "sidestep_market"].contains(&name), "{path}: {name}");
        }
    }
    assert!(paths.len() > 2 * messages.matches("<message ").count());
}
