//! `docs/run-options.md`, generated from the table.

use super::profile;
use super::table::{OptionRow, Settings, TABLE};
use std::fmt::Write;

const HEAD: &str = "# Options of `sidestep run`

Each option is a flag of `sidestep run`, an environment variable that the library reads, and a key in a profile
(`profiles/run/*.toml`). A flag is stronger than a variable, a variable than the profile, the profile than the default. The column
\"read\" says when an option takes effect: once at the launch, once by each process, by each socket, or by each call.

This page is generated from the table in `crates/unmodified/src/options/table.rs`.
";

/// Returns the text of `docs/run-options.md`.
pub fn markdown() -> String {
    let mut text = HEAD.to_owned();
    text.push_str("\n| flag | variable | values | default | read |\n|---|---|---|---|---|\n");
    for row in TABLE {
        let (flag, variable, values) = (row.flag(), row.variable(), row.accepted().replace('|', "\\|"));
        let _ = writeln!(text, "| `--{flag}` | `{variable}` | {values} | {} | {} |", default(row), row.scope.word());
    }
    text.push_str("\n## Meaning\n");
    for row in TABLE {
        let _ = writeln!(text, "\n**`--{}`** {}", row.flag(), row.help);
    }
    text.push_str("\n## Profiles\n\nWhat differs from the defaults; `latency` is the default.\n\n");
    let names = profile::names();
    let _ = writeln!(text, "| option | {} |\n|---|{}", names.join(" | "), "---|".repeat(names.len()));
    let all: Vec<Settings> = names.iter().filter_map(|name| profile::settings(name).ok()).collect();
    for row in TABLE.iter().filter(|row| row.name != "profile") {
        let values: Vec<String> = all.iter().filter_map(|settings| settings.value(row.name)).collect();
        if values.iter().any(|value| *value != values[0]) {
            let _ = writeln!(text, "| `{}` | {} |", row.name, values.join(" | "));
        }
    }
    text
}

fn default(row: &OptionRow) -> String {
    format!("`{}`", row.default_text())
}
