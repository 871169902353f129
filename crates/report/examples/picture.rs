//! The pictures of the README, from a result file:
//! `cargo run --release -p sidestep-report --example picture out/result.json docs`
//! writes docs/latency.svg and docs/latency-dark.svg.

use sidestep_report::html::{Theme, picture};
use sidestep_report::json;
use std::path::PathBuf;

fn main() {
    let argument = |at, default: &str| PathBuf::from(std::env::args().nth(at).unwrap_or_else(|| default.into()));
    let (file, folder) = (argument(1, "-"), argument(2, "."));
    let document = json::read(&file).unwrap_or_else(|problem| fail(&problem));
    for (theme, name) in [(Theme::Light, "latency.svg"), (Theme::Dark, "latency-dark.svg")] {
        let path = folder.join(name);
        std::fs::write(&path, picture(&document, theme))
            .unwrap_or_else(|error| fail(&format!("{}: {error}", path.display())));
    }
}

fn fail<T>(why: &dyn std::fmt::Display) -> T {
    eprintln!("{why}");
    std::process::exit(1);
}
