//! What is kept of a result: a few numbers for each row, and the facts of the host. A result may have megabytes, and there may be hundreds.

use super::files::Names;
use crate::compare::circumstances;
use crate::compare::statistic::Reading;
use crate::compare::{Statistic, name};
use sidestep_report::schema::{Document, Row, Yardstick};
use sidestep_sys::printable::printable;
use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeSet, HashSet};
use std::hash::{Hash, Hasher};

/// The statistics that hosts are compared by.
pub(super) const STATISTICS: [Statistic; 3] = [Statistic::P50, Statistic::P99, Statistic::Rate];
/// The longest name or value that is kept, bytes.
const TEXT_BYTES: usize = 200;
/// The most words of a kernel's command line that are kept.
const WORDS_MAX: usize = 128;
/// Facts that differ between hosts by nature, or are taken apart into words.
const NOT_COMPARED: [&str; 4] = ["host", "kernel command line", "seed of arrivals", "one message reflected in"];

/// One run.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) host: String,
    pub(super) readings: Vec<RowReading>,
    /// "kernel: 6.12.5", "boot option: nohz_full=2-3".
    pub(super) facts: BTreeSet<String>,
    pub(super) yardstick: Yardstick,
    /// Tells a run from a copy of it.
    pub(super) fingerprint: u64,
    /// Set if it is a baseline that was named by its file.
    pub(super) is_reference: bool,
}

/// A statistic of a row of one run.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowReading {
    /// The number of the row's name.
    pub(super) row: usize,
    pub(super) statistic: Statistic,
    /// None where the run has too little of it.
    pub(super) reading: Option<Reading>,
    pub(super) control: Option<f64>,
}

impl Run {
    /// Keeps what is compared. The host is the one that `folder` stands for, else the one that the result names, else its file.
    pub(super) fn of(document: &Document, folder: Option<&str>, file: &str, names: &mut Names) -> Self {
        let named = [folder.unwrap_or_default(), &document.host.hostname, file];
        let host = named.into_iter().find(|name| !name.trim().is_empty()).unwrap_or("unnamed");
        Self {
            host: printable(host, TEXT_BYTES),
            readings: readings(document, names),
            facts: facts(document),
            yardstick: document.host.noise.yardstick.clone(),
            fingerprint: fingerprint(document),
            is_reference: false,
        }
    }
}

/// Of rows of one name in a run the first counts, as in `compare`.
fn readings(document: &Document, names: &mut Names) -> Vec<RowReading> {
    let mut seen = HashSet::new();
    let mut all = Vec::new();
    for row in &document.results {
        let number = names.number(&full_name(row, document));
        if !seen.insert(number) {
            continue;
        }
        let belonging = STATISTICS.into_iter().filter(|statistic| statistic.belongs_to(row));
        all.extend(belonging.map(|statistic| RowReading {
            row: number,
            statistic,
            reading: statistic.read(row),
            control: statistic.control(row, document),
        }));
    }
    all
}

/// The name of a row, with the place: a loopback interface is no lab.
fn full_name(row: &Row, document: &Document) -> String {
    let place = if document.setup.place.is_empty() { "no place" } else { &document.setup.place };
    printable(&format!("{}, {place}", name(row)), TEXT_BYTES)
}

fn facts(document: &Document) -> BTreeSet<String> {
    let pairs = circumstances::facts(document).into_iter().filter(|(name, _)| !NOT_COMPARED.contains(name));
    let isolated = ("isolated CPUs", document.host.isolated.clone());
    let named = pairs.chain([isolated]).map(|(name, value)| {
        let value = if value.trim().is_empty() { "none".to_owned() } else { value };
        format!("{name}: {value}")
    });
    // Where a kernel lies, and on which disk its root is, differ from host to host.
    let is_option =
        |word: &&str| !["BOOT_IMAGE=", "root=", "initrd=", "resume=", "ip="].iter().any(|lead| word.starts_with(lead));
    let words = document.host.cmdline.split_whitespace().filter(is_option).take(WORDS_MAX);
    named.chain(words.map(|word| format!("boot option: {word}"))).map(|fact| printable(&fact, TEXT_BYTES)).collect()
}

fn fingerprint(document: &Document) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&document.started, &document.command, document.elapsed_s.to_bits(), document.results.len()).hash(&mut hasher);
    document.host.hostname.hash(&mut hasher);
    for row in &document.results {
        let distribution = &row.distribution;
        (&row.scenario, &row.transport, &row.path, row.size, distribution.n).hash(&mut hasher);
        [distribution.p50, distribution.p99, distribution.mean].map(|value| value.map(f64::to_bits)).hash(&mut hasher);
    }
    hasher.finish()
}
