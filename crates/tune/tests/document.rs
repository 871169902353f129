//! docs/checks.md is what the table makes of it.

use sidestep_tune::show::document;
use sidestep_tune::table;
use std::path::Path;

#[test]
fn the_page_is_what_the_table_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/checks.md");
    let made = document::markdown();
    if std::env::var_os("SIDESTEP_BLESS").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    for (made, found) in made.lines().zip(found.lines()) {
        assert_eq!(made, found, "docs/checks.md is old: SIDESTEP_BLESS=1 cargo test -p sidestep-tune --test document");
    }
    assert_eq!(made.lines().count(), found.lines().count());
}

#[test]
fn the_manual_page_has_every_check() {
    let page = document::manual();
    for check in table::checks() {
        assert!(page.contains(&check.id.replace('-', "\\-")), "{}", check.id);
    }
    assert!(!page.contains("\n'"), "a line that begins with a quote is a command to roff");
}
