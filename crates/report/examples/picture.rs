//! The picture of the README, from a result file:
//! `cargo run --release -p sidestep-report --example picture out/result.json >docs/latency.svg`

use sidestep_report::{html, json};
use std::path::PathBuf;

fn main() {
    let file = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| "-".into()));
    match json::read(&file) {
        Ok(document) => print!("{}", html::picture(&document)),
        Err(problem) => {
            eprintln!("{problem}");
            std::process::exit(1);
        }
    }
}
