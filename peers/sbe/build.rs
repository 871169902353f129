//! Generates sbe_gen's code of the same schema from which ours is.

use std::path::Path;
use std::{env, fs};

const SCHEMA: &str = "../../crates/market/schemas/mdp.xml";

fn main() {
    println!("cargo:rerun-if-changed={SCHEMA}");
    let schema = fs::read_to_string(SCHEMA).expect("the schema is there");
    let folder = env::var("OUT_DIR").expect("cargo sets it");
    let folder = Path::new(&folder).join("sbe_gen");
    sbe_gen::generate_to(&schema, &folder, &sbe_gen::GeneratorOptions::default()).expect("it takes the schema");
    // Its mod.rs begins with an inner attribute, which cannot be included.
    let index = fs::read_to_string(folder.join("mod.rs")).expect("it was written");
    let lines: Vec<&str> = index.lines().filter(|line| !line.starts_with("#![")).collect();
    fs::write(folder.join("all.rs"), lines.join("\n")).expect("it can be written");
}
