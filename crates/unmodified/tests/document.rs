//! docs/run-options.md is what the table makes of it.

use std::path::Path;

#[test]
fn the_document_is_that_of_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/run-options.md");
    let made = sidestep_unmodified::options::markdown();
    if std::env::var_os("SIDESTEP_BLESS").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        made == found,
        "docs/run-options.md is old: SIDESTEP_BLESS=1 cargo test -p sidestep-unmodified --test document"
    );
}
