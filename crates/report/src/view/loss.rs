//! Lost messages, counted.

use super::{is_stream, label, words};
use crate::number;
use crate::schema::{Document, Row};

/// Most paths that the sentence names; the others are counted together.
const NAMED_MAX: usize = 4;

/// Messages of one path that were not answered.
struct Lost {
    name: String,
    lost: u64,
    sent: u64,
}

/// One sentence on the round trips that were not answered; none where all were. A rate sweep has its losses in its table.
pub(crate) fn sentence(document: &Document) -> Option<String> {
    let mut paths: Vec<Lost> = Vec::new();
    for row in document.results.iter().filter(|row| is_counted(row)) {
        let name = format!("{} over {}", label(row), words::transport(&row.transport));
        let sent = row.distribution.n.saturating_add(row.lost);
        match paths.iter_mut().find(|path| path.name == name) {
            Some(path) => (path.lost, path.sent) = (path.lost.saturating_add(row.lost), path.sent.saturating_add(sent)),
            None => paths.push(Lost { name, lost: row.lost, sent }),
        }
    }
    paths.retain(|path| path.lost > 0);
    let others = paths.split_off(paths.len().min(NAMED_MAX));
    let mut parts: Vec<String> = paths.iter().map(|path| told(&path.name, path.lost, path.sent)).collect();
    if !others.is_empty() {
        let (lost, sent) = others.iter().fold((0, 0), |(lost, sent): (u64, u64), path| {
            (lost.saturating_add(path.lost), sent.saturating_add(path.sent))
        });
        parts.push(told(&words::counted(others.len(), "other", "others"), lost, sent));
    }
    (!parts.is_empty()).then(|| format!("{}.", words::list(&parts)))
}

fn is_counted(row: &Row) -> bool {
    !super::is_sweep_by_rate(&row.scenario) && !is_stream(row)
}

fn told(name: &str, lost: u64, sent: u64) -> String {
    let share = lost as f64 / sent.max(1) as f64;
    format!("{name} lost {} of {} messages ({} %)", number::count(lost), number::count(sent), number::percent(share))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Distribution;

    fn row(path: &str, lost: u64, n: u64) -> Row {
        let distribution = Distribution { n, ..Distribution::default() };
        Row { scenario: "rr".into(), transport: "udp".into(), path: path.into(), lost, distribution, ..Row::default() }
    }

    #[test]
    fn a_loss_is_told_with_its_count() {
        let document = |results| Document { results, ..Document::default() };
        let told = |results| sentence(&document(results));
        assert_eq!(told(vec![row("xdp", 0, 100)]), None);
        let expected = "kernel-spin over UDP lost 12 of 40,012 messages (0.0300 %).";
        assert_eq!(told(vec![row("kernel-spin", 5, 20_005), row("kernel-spin", 7, 19_995)]).as_deref(), Some(expected));
        let many = (0..6).map(|path| row(&format!("p{path}"), 1, 99)).collect();
        assert!(told(many).expect("six lost").ends_with("and 2 others lost 2 of 200 messages (1.00 %)."));
        assert!(told(vec![row("x", u64::MAX, u64::MAX), row("x", 9, 9)]).is_some());
    }
}
