//! The part that commands which measure share: the setting, the run, the outputs.

use crate::args::{ClockKind, Place, PlaceKind, StreamKind};
use crate::output::Outputs;
use crate::progress::Bar;
use crate::{exit, signal};
use sidestep_bench::Consent;
use sidestep_bench::place::PeerProgram;
use sidestep_bench::run::{self, Outcome, Scenario, Setting, Where, this_program};
use sidestep_bench::transport::Transport;
use sidestep_lab::wire::Impairment;
use sidestep_sys::clock::Choice;
use sidestep_sys::problem::Problem;
use std::time::Duration;

/// Runs the scenarios and writes the result.
pub(super) fn measure(place: &Place, scenarios: &[Scenario], outputs: &Outputs) -> Result<u8, Problem> {
    measure_within(None, place, scenarios, outputs)
}

/// The same, in at most so much time.
pub(super) fn measure_within(
    within: Option<Duration>,
    place: &Place,
    scenarios: &[Scenario],
    outputs: &Outputs,
) -> Result<u8, Problem> {
    let setting = Setting { within, ..setting(place)? };
    // Threads and processes started from here on inherit it.
    let _held = place.under.on(Vec::new()).enter()?;
    write_outcome(run::run(&setting, scenarios, &mut Bar::new())?, outputs)
}

/// Writes the document of a run; then returns the problem that ended it early, if there was one.
pub(super) fn write_outcome(mut outcome: Outcome, outputs: &Outputs) -> Result<u8, Problem> {
    outputs.write(&mut outcome.document)?;
    match outcome.problem {
        Some(problem) => Err(signal::named(problem)),
        None if outcome.document.results.is_empty() => {
            let reasons = outcome.document.unavailable.iter().map(|row| format!("{}: {}", row.path, row.reason));
            Err(Problem::failed("nothing was measured", reasons.collect::<Vec<_>>().join("; "))
                .next("choose other --paths"))
        }
        None => Ok(exit::GOOD),
    }
}

pub(super) fn setting(place: &Place) -> Result<Setting, Problem> {
    Ok(Setting {
        consent: consent(place.interface.as_ref(), place.start_control)?,
        place: match (place.to, place.place) {
            (Some(target), _) => Where::Remote(target.0),
            (None, PlaceKind::Auto) => Where::Auto,
            (None, PlaceKind::Lab) => Where::Lab,
            (None, PlaceKind::Loopback) => Where::Loopback,
        },
        ipv6: place.ipv6,
        queues: place.queues,
        mtu: place.mtu,
        frames_pair: false,
        impairment: place.impair.as_deref().map(Impairment::parse).transpose()?,
        program: PeerProgram::Process(this_program()),
        clock: clock(place.clock),
        client_cpu: place.cpus.map(|cpus| cpus.client),
        server_cpu: place.cpus.and_then(|cpus| cpus.peer),
        service_time: place.service_time,
        within: None,
        stop: signal::stop_flag()?,
        command: command_line(),
    })
}

/// Returns what an end may do past the kernel, by its flags.
pub(super) fn consent(interface: Option<&String>, may_start: bool) -> Result<Consent, Problem> {
    let named = |name: &String| Consent::Interface { name: name.clone(), may_start };
    let consent = interface.map_or(Consent::Nothing, named);
    consent.check().map(|()| consent)
}

/// Returns the choice of the clock.
pub(super) fn clock(kind: ClockKind) -> Choice {
    match kind {
        ClockKind::Auto => Choice::Auto,
        ClockKind::Monotonic => Choice::Monotonic,
    }
}

/// Returns the command line, quoted for a shell.
pub(super) fn command_line() -> String {
    let words = std::env::args().skip(1).map(|word| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_=+,.:/@%".contains(&byte);
        if !word.is_empty() && word.bytes().all(plain) { word } else { format!("'{}'", word.replace('\'', r"'\''")) }
    });
    std::iter::once("sidestep".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

pub(super) fn stream(kind: StreamKind) -> Transport {
    match kind {
        StreamKind::Tcp => Transport::Tcp,
        StreamKind::Udp => Transport::Udp,
    }
}

pub(super) fn streams(kinds: &[StreamKind]) -> Vec<Transport> {
    kinds.iter().copied().map(stream).collect()
}
