//! A packet script, read and played: whatever stands in it, it ends, and the stack stays consistent.

#![no_main]

#[path = "../../crates/stack/tests/scripting/mod.rs"]
mod scripting;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let Ok(text) = std::str::from_utf8(input) else { return };
    // What an error repeats of a script is not to be taken for the audit's word.
    if text.contains(scripting::play::AUDIT) {
        return;
    }
    // A script may want anything; what it gets may differ, but no invariant of the audit may be violated.
    if let Err(fault) = scripting::run(text, &|_| None) {
        assert!(!fault.contains(scripting::play::AUDIT), "{fault}");
    }
});
