//! Whatever the files of a host, a policy, a snapshot or an answer of the kernel hold.

#![no_main]

#[path = "../../crates/tune/tests/support/memory.rs"]
mod memory;

use memory::Babble;
use sidestep_tune::audit::Audit;
use sidestep_tune::plan::{Choice, Plan};
use sidestep_tune::profile::{self, Profile};
use sidestep_tune::scope::{Request, Scope};
use sidestep_tune::show::{json, text};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    sidestep_tune::decode_any(bytes);
    sidestep_tune::snapshot::parse_any(bytes);
    if let Some(saved) = sidestep_tune::fleet::parse_any(bytes) {
        let _ = sidestep_tune::fleet::audit(&saved, &Request::default(), &Profile::built_in("latency").expect("it ships"));
    }
    let _ = Profile::parse(&String::from_utf8_lossy(bytes), "the input");
    let hot = bytes.first().is_some_and(|byte| byte % 2 == 0).then(|| [2, 3].into_iter().collect());
    let host = Babble(bytes);
    let Ok(scope) = Scope::of(&host, &Request { hot, ..Request::default() }) else { return };
    let profile = profile::names()[bytes.len() % profile::names().len()];
    let audit = Audit::of(&scope, &Profile::built_in(profile).expect("it ships"));
    text::audit(&audit, true, text::Page { colour: false, width: 80 });
    json::audit(&audit).expect("it can be written");
    Plan::of(&scope, &audit, &Choice::default()).expect("no name was given");
    let policy = sidestep_tune::policy::of(&audit, "x");
    Profile::parse(&policy, "x").expect("what we write can be read");
});
