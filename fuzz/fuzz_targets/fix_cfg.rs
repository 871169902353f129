//! A file of settings from anywhere, as .cfg and as TOML.

#![no_main]

use sidestep_fix::config::Config;

libfuzzer_sys::fuzz_target!(|text: &str| {
    let _ = Config::parse_cfg(text, "fuzzed");
    let _ = Config::parse_toml(text, "fuzzed");
});
