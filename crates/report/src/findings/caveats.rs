//! What weakens the findings, worst first.

use super::headline::{Against, against, main_panel};
use super::panels::compared;
use super::tail::lost_lead;
use super::versus::{Kind, bare_interval};
use super::{Caveat, Section, load, quantity};
use crate::number::{self, NO_BREAK};
use crate::schema::Document;
use crate::view::{facts, label, loss, sentences, sweep, words};

/// Caveats that stand beside the headline; the others are in the notes.
pub const SHOWN: usize = 4;

/// The share of the run above which time that the hypervisor stole is worth a caveat.
const STOLEN_SHARE: f64 = 0.001;

/// Load per CPU above which others worked on the host, too.
const BUSY_LOAD: f64 = 1.0;

/// The caveats of `document`, worst first.
pub(super) fn caveats(document: &Document, sections: &[Section]) -> Vec<Caveat> {
    let all = [
        partial(document),
        compares_nothing(document),
        no_factor(document),
        place(document),
        machine(document),
        tail(document),
        lost(document),
        late(document),
        unsettled(document),
        sleeping(document),
        clock(document),
        missing(document),
    ];
    let has = |id: &str| sections.iter().any(|section| section.id == id);
    all.into_iter().flatten().map(|one| Caveat { section: one.section.filter(|id| has(id)), ..one }).collect()
}

fn caveat(name: &str, text: impl Into<String>, section: Option<&'static str>) -> Caveat {
    Caveat { name: name.into(), text: text.into(), section }
}

fn partial(document: &Document) -> Option<Caveat> {
    let text = "The run was interrupted: the rows hold the measurements until then.";
    document.interrupted.then(|| caveat("Partial result.", text, None))
}

fn compares_nothing(document: &Document) -> Option<Caveat> {
    let text = sentences::too_noisy(document)?;
    Some(caveat("Too noisy to compare.", text, Some("host")))
}

/// What the wire was, where it was none.
fn place(document: &Document) -> Option<Caveat> {
    let where_to = match document.setup.place.as_str() {
        "lab" => "Two network namespaces of one machine, joined by a veth pair",
        "loopback" => "The loopback interface of one machine",
        "loopback and lab" => "The loopback interface, and a veth pair between two namespaces, of one machine",
        _ => return None,
    };
    // Only the rows know how AF_XDP was bound.
    let copies = document.results.iter().flat_map(|row| &row.notes).any(|note| note.contains("AF_XDP in copy mode"));
    let copy = if copies { ", and AF_XDP in copy mode" } else { "" };
    let text = format!("{where_to}{copy}. A network card adds times of its own, and may change the ratios.");
    Some(caveat("Not a network card.", text, Some("host")))
}

/// The machine: virtual, stolen from, or busy.
fn machine(document: &Document) -> Option<Caveat> {
    let host = &document.host;
    let mut parts = Vec::new();
    if let Some(name) = &host.virtualised {
        parts.push(format!("This host is a virtual machine ({name})."));
    }
    let stolen = host.noise.during.steal_ms;
    let is_stolen = stolen > STOLEN_SHARE * document.elapsed_s.max(0.0) * 1e3;
    if is_stolen {
        parts.push(format!("The hypervisor stole {} ms of the measured CPUs during the run.", number::up(stolen, 0)));
    }
    let load = host.noise.load_1m;
    if load > BUSY_LOAD * f64::from(host.cpus.max(1)) {
        let cpus = words::counted(host.cpus as usize, "CPU", "CPUs");
        parts.push(format!("The load before the run was {}, on {cpus}: others worked, too.", number::up(load, 2)));
    }
    let name = match (&host.virtualised, is_stolen) {
        (_, true) => "A shared machine.",
        (Some(_), _) => "A virtual machine.",
        _ => "A busy machine.",
    };
    (!parts.is_empty()).then(|| caveat(name, parts.join(" "), Some("host")))
}

/// Why the headline claims no factor.
fn no_factor(document: &Document) -> Option<Caveat> {
    let compared = compared(document);
    let best = main_panel(&compared, document)?.best()?;
    let all = against(document, best, "p50");
    if all.iter().any(Against::is_claim) {
        return None;
    }
    let first = all.into_iter().next().filter(|one| one.versus.kind != Kind::NoDifference)?;
    let reason = first.unsteady.unwrap_or(first.versus.reason);
    let section = if reason.contains(" modes") { "modes" } else { "numbers" };
    let text = format!(
        "Against {}: {reason}. The 95{NO_BREAK}% interval of this run is {}.",
        first.versus.against,
        bare_interval(first.ratio)
    );
    Some(caveat("No factor is claimed.", text, Some(section)))
}

fn tail(document: &Document) -> Option<Caveat> {
    let compared = compared(document);
    let main = main_panel(&compared, document)?;
    if let Some(told) = lost_lead(document, main) {
        return Some(caveat("Not ahead in the tail.", format!("{told}."), Some("tail")));
    }
    let best = main.best().filter(|best| best.distribution.p99.is_none())?;
    let text = format!("{} has {} samples: too few for its p99.", label(best), number::count(best.distribution.n));
    Some(caveat("The tail is not known.", text, Some("tail")))
}

fn lost(document: &Document) -> Option<Caveat> {
    Some(caveat("Messages were lost.", loss::sentence(document)?, Some("numbers")))
}

fn late(document: &Document) -> Option<Caveat> {
    let rows = sweep(document, "rates").into_iter().chain(sweep(document, "open-loop"));
    let (late, on_time): (Vec<_>, Vec<_>) = rows.partition(|row| load::is_late(row));
    let first = late.first()?;
    let section = if first.scenario == "rates" { "rates" } else { "load" };
    let text = format!(
        "At {} of {} points the sender left so late that at the median more than a tenth of the latency is its own: these latencies \
         tell of the sender, not of the path.",
        late.len(),
        late.len() + on_time.len()
    );
    Some(caveat("The sender was late.", text, Some(section)))
}

fn unsettled(document: &Document) -> Option<Caveat> {
    let told = sentences::rows_where(document, "had not settled when counting began", |row| {
        row.warmup.messages > 0 && !row.warmup.steady
    })?;
    Some(caveat("Not settled.", told, Some("numbers")))
}

/// Why spinning gains so much on a virtual machine.
fn sleeping(document: &Document) -> Option<Caveat> {
    let told = sentences::virtual_machine(document)?;
    Some(caveat("Sleeping is expensive here.", told, Some("host")))
}

fn clock(document: &Document) -> Option<Caveat> {
    let reason = document.host.clock_reason.as_ref()?;
    Some(caveat("The clock is not the TSC.", format!("It is {}: {reason}.", document.host.clock), Some("host")))
}

fn missing(document: &Document) -> Option<Caveat> {
    let n = document.unavailable.len();
    let told = format!(
        "{} not measured here; the reasons are listed.",
        words::counted(n, "thing asked for was", "things asked for were")
    );
    (n > 0).then(|| caveat("Not measured.", super::headline::capital(&told), Some("host")))
}

/// The noise during the run in one line, for a folded part; how far a path differs from itself is said beside the headline.
pub fn noise_line(document: &Document) -> String {
    let host = &document.host;
    if !facts::measures(host) {
        return "not known".into();
    }
    let during = &host.noise.during;
    let longest = host.noise.hiccups.iter().map(|one| one.max_ns).filter(|ns| ns.is_finite()).fold(0.0, f64::max);
    format!(
        "{} ms stolen in {} s; longest pause {}",
        number::up(during.steal_ms, 0),
        number::up(document.elapsed_s, 0),
        quantity::brief(longest)
    )
}

#[cfg(test)]
mod tests {
    use super::super::of;
    use super::*;
    use crate::sample;
    use crate::schema::{RateDetail, Row};

    fn names(document: &Document) -> Vec<String> {
        of(document).caveats.into_iter().map(|one| one.name).collect()
    }

    /// The sample without what weakens it.
    fn sound() -> Document {
        let mut document = sample::document();
        document.results.retain(|row| row.scenario == "rr" && row.rung.is_none() && row.modes.is_empty());
        document.results.iter_mut().for_each(|row| row.warmup.steady = true);
        (document.setup.place, document.host.virtualised) = ("remote".into(), None);
        document.host.noise = Default::default();
        document.ratios.clear();
        document.unavailable.clear();
        document
    }

    #[test]
    fn each_caveat_has_its_cause() {
        assert_eq!(names(&sound()), Vec::<String>::new());
        type Change = fn(&mut Document);
        let changes: [(&str, Change); 9] = [
            ("Partial result.", |d| d.interrupted = true),
            ("Not a network card.", |d| d.setup.place = "lab".into()),
            ("A virtual machine.", |d| {
                d.host.virtualised = Some("KVM".into());
                d.paths.clear();
            }),
            ("A shared machine.", |d| d.host.noise.during.steal_ms = 200.0),
            ("A busy machine.", |d| d.host.noise.load_1m = 3.0),
            ("Messages were lost.", |d| d.results[0].lost = 3),
            ("Not settled.", |d| d.results[0].warmup.steady = false),
            ("The clock is not the TSC.", |d| d.host.clock_reason = Some("unstable".into())),
            ("Not measured.", |d| d.unavailable.push(Default::default())),
        ];
        for (name, change) in changes {
            let mut document = sound();
            change(&mut document);
            assert_eq!(names(&document), [name]);
        }
    }

    #[test]
    fn a_moment_that_was_stolen_is_no_caveat() {
        let mut document = sound();
        document.host.noise.during.steal_ms = STOLEN_SHARE * document.elapsed_s * 1e3;
        assert_eq!(names(&document), Vec::<String>::new());
    }

    #[test]
    fn copy_mode_is_said_where_a_row_says_it() {
        let mut document =
            Document { setup: crate::schema::Setup { place: "lab".into(), ..Default::default() }, ..sound() };
        assert!(!of(&document).caveats[0].text.contains("copy mode"));
        document.results[0].notes.push("AF_XDP in copy mode on queue 0 of lab0".into());
        assert!(of(&document).caveats[0].text.contains("copy mode"));
    }

    #[test]
    fn a_comparison_that_is_none_and_one_that_is_too_noisy_are_named() {
        let mut document = sound();
        document.ratios = vec![sample::ratio("uring-spin", "kernel-pinned", 0.07, 0.14)];
        assert_eq!(names(&document), ["No factor is claimed."]);
        for path in ["uring-spin", "kernel-pinned"] {
            document.ratios.push(sample::ratio(path, path, 1.0, 0.02));
        }
        assert_eq!(names(&document), Vec::<String>::new());
        for control in &mut document.ratios[1..] {
            control.ci95 = [0.3, 3.0];
        }
        assert_eq!(names(&document), ["Too noisy to compare.", "No factor is claimed."]);
    }

    #[test]
    fn an_unknown_tail_and_a_late_sender_are_named() {
        let mut document = sound();
        document.results.iter_mut().for_each(|row| row.distribution.p99 = None);
        assert_eq!(names(&document), ["The tail is not known."]);
        let mut late = sound();
        let mut row = Row { scenario: "rates".into(), ..Row::default() };
        row.distribution.p50 = Some(100.0);
        let mut rate = RateDetail::default();
        rate.send_lateness.p50 = Some(50.0);
        row.rate = Some(rate);
        late.results.push(row);
        assert_eq!(names(&late), ["The sender was late."]);
    }
}
