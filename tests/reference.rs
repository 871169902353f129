//! The book's reference is what the code makes of it: commands, settings of FIX, reasons, exit codes.
//! `SIDESTEP_BLESS=1 cargo test --test reference` writes the pages anew.

#[path = "reference/commands.rs"]
mod commands;
#[path = "reference/fix_settings.rs"]
mod fix_settings;
#[path = "reference/reasons.rs"]
mod reasons;

use std::fs;
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/book/src/reference")
}

/// Compares a page with its file; where asked to, writes it first.
fn compare(name: &str, made: &str) {
    let path = folder().join(name);
    if std::env::var_os("SIDESTEP_BLESS").is_some() {
        fs::write(&path, made).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(made == found, "{} is old: SIDESTEP_BLESS=1 cargo test --test reference", path.display());
}

/// Text for a cell of a table, or a paragraph: characters that Markdown would take for its own are escaped outside of code.
fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut in_code = false;
    for letter in text.chars() {
        in_code ^= letter == '`';
        match letter {
            '|' => out.push_str("\\|"),
            '<' | '*' | '_' | '[' | ']' if !in_code => out.extend(['\\', letter]),
            '\n' => out.push(' '),
            _ => out.push(letter),
        }
    }
    out
}

#[test]
fn the_pages_of_commands_are_those_of_the_definition() {
    let pages = commands::pages();
    for (name, made) in &pages {
        compare(&format!("commands/{name}.md"), made);
    }
    let known = |file: &str| pages.iter().any(|(name, _)| file == format!("{name}.md"));
    for file in fs::read_dir(folder().join("commands")).unwrap().flatten() {
        let file = file.file_name().into_string().unwrap();
        assert!(known(&file), "reference/commands/{file} is of no command: remove it, and its line in SUMMARY.md");
    }
}

#[test]
fn the_page_of_fix_settings_is_that_of_the_table() {
    compare("fix-settings.md", &fix_settings::page());
}

#[test]
fn the_page_of_reasons_is_that_of_the_lists() {
    compare("reasons.md", &reasons::page());
}

#[test]
fn text_stays_text() {
    assert_eq!(plain("a|b `c_d|e` f_g <IF>\n[x]"), "a\\|b `c_d\\|e` f\\_g \\<IF> \\[x\\]");
}
