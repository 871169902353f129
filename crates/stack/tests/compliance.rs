//! COMPLIANCE.md names files and tests that exist.

use std::fs;
use std::path::{Path, PathBuf};

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] }).collect()
}

/// The words in backticks of a column.
fn words(column: &str) -> impl Iterator<Item = &str> {
    column.split('`').skip(1).step_by(2)
}

#[test]
fn what_the_table_names_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &PathBuf| fs::read_to_string(path).unwrap_or_default();
    let folders = [root.join("src"), root.join("tests"), root.join("../wire/src")];
    let code: String = folders.iter().flat_map(|folder| sources(folder)).map(|path| read(&path)).collect();
    let table = read(&root.join("COMPLIANCE.md"));
    let table = table.split("## Deviations").next().expect("a first part");
    let mut tests = 0;
    for row in table.lines().filter(|line| line.starts_with("| ") && line.matches('|').count() == 5) {
        let columns: Vec<_> = row.split('|').collect();
        for file in words(columns[3]).filter(|word| !word.contains("::")) {
            let path = root.join("src/tcp").join(file);
            assert!(path.with_extension("rs").exists() || path.join("mod.rs").exists(), "no file {file}: {row}");
        }
        let (scripts, names): (Vec<_>, Vec<_>) = words(columns[4]).partition(|word| word.ends_with(".pkt"));
        for script in scripts {
            assert!(root.join("tests/scripts").join(script).exists(), "no script {script}: {row}");
            tests += 1;
        }
        for test in names.into_iter().filter(|word| word.matches('_').count() > 1) {
            assert!(code.contains(&format!("fn {test}()")), "no test {test}: {row}");
            tests += 1;
        }
    }
    assert!(tests > 60, "{tests} tests are named");
}
