//! Helpers that compile and run C for the tests, and read headers.
#![allow(dead_code)] // Every test file uses its own part.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Warnings are errors, in strict standard C.
pub(crate) const C99: [&str; 6] = ["cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic"];
/// C11 has static assertions.
pub(crate) const C11: [&str; 6] = ["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic"];
pub(crate) const CXX11: [&str; 8] = ["c++", "-x", "c++", "-std=c++11", "-Wall", "-Wextra", "-Werror", "-pedantic"];

/// The folder of the public headers.
pub(crate) fn include() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../include")
}

/// The folder in which cargo has put the library of this build.
pub(crate) fn library_folder() -> PathBuf {
    let program = std::env::current_exe().expect("a program knows its file");
    program.parent().expect("a file is in a folder").to_owned()
}

/// A header file, without comments.
pub(crate) fn header(include: &Path, name: &str) -> String {
    let text = fs::read_to_string(include.join("sidestep").join(name)).expect("the header is there");
    let mut rest = text.as_str();
    let mut bare = String::new();
    while let Some((before, comment)) = rest.split_once("/*") {
        bare.push_str(before);
        rest = comment.split_once("*/").expect("a comment ends").1;
    }
    bare + rest
}

/// Compiles C or C++ text; returns the program, or the compiler's message.
pub(crate) fn compile(how: &[&str], source: &Path, more: &[&OsStr], program: &Path) -> Result<(), String> {
    let output = Command::new(how[0]).args(&how[1..]).arg(source).args(more).arg("-o").arg(program).output();
    let output = output.unwrap_or_else(|error| panic!("{} cannot be run: {error}", how[0]));
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

/// Runs a program to its end and returns its output; panics with its message if it fails.
pub(crate) fn printed(program: &Path, arguments: &[&OsStr]) -> String {
    let output = Command::new(program).args(arguments).output().expect("it was just compiled");
    let [stdout, stderr] = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(output.status.success(), "{}: {stdout}{stderr}", output.status);
    stdout
}

/// Evaluates integer expressions of a header by the C compiler.
pub(crate) fn evaluate(include: &Path, name: &str, expressions: &[String]) -> Result<BTreeMap<String, u64>, String> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let lines: String = expressions
        .iter()
        .map(|expression| {
            format!("    printf(\"%s=%llu\\n\", \"{expression}\", (unsigned long long)({expression}));\n")
        })
        .collect();
    let text = format!("#include <stdio.h>\n#include <sidestep/{name}>\nint main(void) {{\n{lines}    return 0;\n}}\n");
    let (source, program) = (folder.path().join("print.c"), folder.path().join("print"));
    fs::write(&source, text).expect("a temporary file");
    compile(&C99, &source, &["-I".as_ref(), include.as_os_str()], &program)?;
    let values = printed(&program, &[]);
    let pairs = values.lines().filter_map(|line| line.rsplit_once('='));
    Ok(pairs.map(|(name, value)| (name.to_owned(), value.parse().expect("a number"))).collect())
}

/// The names of a header's constants: macros with a value and without arguments.
pub(crate) fn constants(header: &str) -> Vec<String> {
    let defines = header.lines().filter_map(|line| line.strip_prefix("#define "));
    let with_value = defines.filter_map(|rest| rest.split_once(' ').filter(|(_, value)| !value.trim().is_empty()));
    with_value.filter(|(name, _)| !name.contains('(')).map(|(name, _)| name.to_owned()).collect()
}

/// The fields of a header's structures: (structure, field).
pub(crate) fn fields(header: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for part in header.split("typedef struct ").skip(1) {
        let Some((head, rest)) = part.split_once('{') else { continue };
        if head.contains(';') {
            continue;
        }
        let body = rest.split_once('}').expect("a structure ends").0;
        let names = body.split(';').filter_map(|line| line.split_whitespace().last());
        let names = names.map(|name| name.trim_start_matches('*').split('[').next().unwrap_or(name).to_owned());
        found.extend(names.map(|name| (head.trim().to_owned(), name)));
    }
    found
}

/// The differences between the numbers in C and in Rust; each must have all of the other's.
pub(crate) fn differences(
    include: &Path,
    name: &str,
    mut expected: BTreeMap<String, u64>,
    is_checked: impl Fn(&str, &str) -> bool,
) -> Vec<String> {
    let header = header(include, name);
    let mut expressions = constants(&header);
    let fields = fields(&header).into_iter().filter(|(structure, field)| is_checked(structure, field));
    expressions.extend(fields.map(|(structure, field)| format!("offsetof({structure}, {field})")));
    expressions.extend(expected.keys().filter(|key| key.starts_with("sizeof")).cloned());
    let seen = match evaluate(include, name, &expressions) {
        Ok(seen) => seen,
        Err(words) => return vec![words],
    };
    let mut wrong = Vec::new();
    for (name, value) in seen {
        match expected.remove(&name) {
            Some(known) if known == value => {}
            Some(known) => wrong.push(format!("{name} is {value} in C and {known} in Rust")),
            None => wrong.push(format!("{name} is not compared with Rust")),
        }
    }
    wrong.extend(expected.keys().map(|name| format!("{name} is not in the header")));
    wrong
}
