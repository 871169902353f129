//! The page of settings of FIX sessions.

use crate::plain;
use sidestep_fix::config::keys::{Effect, KEYS};
use std::fmt::Write;

const HEAD: &str = "# Settings of FIX sessions

The keys of a `.cfg` file, or in snake_case of a TOML file. They are those of QuickFIX, QuickFIX/J and quickfixgo, and some of
ours. How sessions are set up is in [FIX](../fix.md). A flag is Y or N; times are in seconds unless said.

Made from the table in `crates/fix/src/config`; a test compares them.

## Keys with an effect

| key | meaning |
|---|---|
";

const WITHOUT: &str = "
## Keys without an effect

Such a key is reported at start-up, with this text, and does no harm. A key that stands in neither table is reported as unknown.

| key | what it does elsewhere, and what is here |
|---|---|
";

pub(crate) fn page() -> String {
    let mut text = HEAD.to_owned();
    for (key, effect) in KEYS {
        if let Effect::Full(meaning) = effect {
            let _ = writeln!(text, "| `{key}` | {} |", plain(meaning));
        }
    }
    text.push_str(WITHOUT);
    for (key, effect) in KEYS {
        if let Effect::None(what) = effect {
            let _ = writeln!(text, "| `{key}` | {} |", plain(what));
        }
    }
    text
}
