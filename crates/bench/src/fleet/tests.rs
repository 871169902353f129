//! Fleets of documents whose figures are known.

use super::*;
use crate::compare::Verdict;
use crate::stats::{freedom, student};
use sidestep_report::json;
use sidestep_report::schema::{Block, Ci95, Distribution, Document, Host, Row, Setup};
use std::fs;
use std::path::Path;

const SLICES: usize = 40;

/// A value with the 95 % interval that a standard error of a hundredth gives.
fn stated(value: f64) -> (Option<f64>, Option<[f64; 2]>) {
    let reach = student::t95(freedom(SLICES)) * 0.01;
    (Some(value), Some([value * (-reach).exp(), value * reach.exp()]))
}

fn row(path: &str, p50: f64) -> Row {
    let ((p50, of_p50), (p99, of_p99)) = (stated(p50), stated(2.0 * p50));
    let ci95 = Ci95 { p50: of_p50, p99: of_p99, ..Ci95::default() };
    Row {
        scenario: "rr".into(),
        transport: "tcp".into(),
        path: path.into(),
        size: 64,
        measure: "rtt".into(),
        distribution: Distribution { n: 100_000, p50, p99, ci95, ..Distribution::default() },
        blocks: vec![Block::default(); SLICES],
        ..Row::default()
    }
}

/// A run of a host that is `factor` times as slow as the others.
fn run(host: &str, number: u32, factor: f64, kernel: &str) -> Document {
    let mut random =
        fastrand::Rng::with_seed(host.bytes().fold(u64::from(number), |sum, byte| sum * 31 + u64::from(byte)));
    let mut value = |base: f64| base * factor * (1.0 + 0.02 * (random.f64() - 0.5));
    Document {
        schema: SCHEMA,
        started: format!("2026-01-01T00:00:{number:02}Z {host}"),
        host: Host { hostname: host.into(), kernel: kernel.into(), cmdline: "quiet".into(), ..Host::default() },
        setup: Setup { place: "lab".into(), ..Setup::default() },
        results: vec![row("kernel-spin", value(5_000.0)), row("xdp", value(3_000.0))],
        ..Document::default()
    }
}

fn put(folder: &Path, name: &str, document: &Document) {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, json::to_string(document)).unwrap();
}

/// A folder of equal hosts, and one, h00, that is `factor` times as slow, on an older kernel.
fn fleet(hosts: usize, runs: u32, factor: f64) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for at in 0..hosts {
        let (host, is_first) = (format!("h{at:02}"), at == 0);
        for number in 0..runs {
            let document =
                run(&host, number, if is_first { factor } else { 1.0 }, if is_first { "6.1" } else { "6.12" });
            put(folder.path(), &format!("{host}/{number}.json"), &document);
        }
    }
    folder
}

fn compared(folder: &Path, baseline: Option<&str>) -> Fleet {
    Fleet::of(gather(folder).unwrap(), baseline).unwrap()
}

fn standings(fleet: &Fleet) -> Vec<(&str, Standing)> {
    fleet.hosts.iter().map(|host| (host.host.as_str(), host.figures[0].standing)).collect()
}

#[test]
fn a_slow_host_among_twenty_is_named_with_what_only_it_has() {
    let folder = fleet(20, 1, 1.5);
    let found = compared(folder.path(), None);
    let standings = standings(&found);
    assert_eq!(standings[0], ("h00", Standing::Slower));
    assert!(standings[1..].iter().all(|(_, standing)| *standing == Standing::NoMeasurableDifference), "{standings:?}");
    assert!(found.has_outlier() && !found.lacks_data());
    let kernel = found.common.iter().find(|one| one.fact == "kernel: 6.1").unwrap();
    assert_eq!((kernel.have, kernel.slower, kernel.others), (true, [1, 1], [0, 19]));
    let slow = found.rows.iter().flat_map(|row| &row.hosts).filter(|host| host.standing == Standing::Slower);
    assert!(slow.map(|host| host.host.as_str()).all(|host| host == "h00"));
    let text = text::render(&found, false, 120);
    assert!(text.contains("slower than the others: h00\n") && text.contains("kernel: 6.1"), "{text}");
    assert!(text.contains("not shown; --all") && !text::render(&found, true, 120).contains("not shown"), "{text}");
}

#[test]
fn a_fast_host_is_marked_and_is_no_finding() {
    let found = compared(fleet(20, 1, 0.5).path(), None);
    assert_eq!(*standings(&found).last().unwrap(), ("h00", Standing::Faster));
    assert!(!found.has_outlier() && found.common.is_empty());
}

#[test]
fn equal_hosts_and_few_hosts_have_no_outlier() {
    for (hosts, standing) in
        [(20, Standing::NoMeasurableDifference), (5, Standing::TooFewHosts), (1, Standing::TooFewHosts)]
    {
        let found = compared(fleet(hosts, 1, 1.0).path(), None);
        assert!(
            found.hosts.iter().flat_map(|host| &host.figures).all(|figure| figure.standing == standing || hosts < 6),
            "{hosts}"
        );
        assert!(!found.has_outlier() && found.rows.iter().all(|row| row.spread.is_some()));
        assert!(found.rows.iter().flat_map(|row| &row.hosts).all(|host| host.standing == standing), "{hosts}");
        assert_eq!(found.lacks_data(), hosts < 6);
    }
}

#[test]
fn runs_of_a_host_are_put_together_and_a_copy_does_not_count() {
    let folder = fleet(8, 3, 1.2);
    fs::copy(folder.path().join("h01/0.json"), folder.path().join("h01/again.json")).unwrap();
    let found = compared(folder.path(), None);
    assert_eq!((found.runs, found.hosts.len(), found.copies.len()), (24, 8, 1));
    assert!(found.hosts.iter().all(|host| host.runs == 3), "{found:?}");
    assert_eq!(standings(&found)[0], ("h00", Standing::Slower));
    assert!(found.copies[0].contains("again.json"), "{:?}", found.copies);
}

#[test]
fn hosts_of_files_without_a_folder_are_those_that_the_files_name() {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), "a.json", &run("one", 0, 1.0, "6.1"));
    put(folder.path(), "b.json", &run("one", 1, 1.0, "6.1"));
    put(folder.path(), "c.json", &run("", 0, 1.0, "6.1"));
    let found = compared(folder.path(), None);
    let hosts: Vec<(&str, usize)> = found.hosts.iter().map(|host| (host.host.as_str(), host.runs)).collect();
    assert!(hosts.contains(&("one", 2)) && hosts.contains(&("c", 1)), "{hosts:?}");
}

#[test]
fn a_baseline_is_a_host_or_a_file_and_is_judged_as_by_compare() {
    let folder = fleet(3, 1, 1.5);
    let verdict = |found: &Fleet, host: &str| {
        let row = found
            .rows
            .iter()
            .find(|row| row.row.contains("kernel-spin") && row.statistic == crate::compare::Statistic::P50);
        let value = row.unwrap().hosts.iter().find(|one| one.host == host).unwrap();
        value.against_baseline.as_ref().map(|against| against.verdict)
    };
    let found = compared(folder.path(), Some("h01"));
    assert_eq!(verdict(&found, "h00"), Some(Verdict::Worse));
    assert_eq!(verdict(&found, "h02"), Some(Verdict::NoMeasurableDifference));
    assert_eq!(verdict(&found, "h01"), None, "not with itself");
    assert!(found.has_regression() && !found.lacks_data());
    let other = tempfile::tempdir().unwrap();
    put(other.path(), "good.json", &run("elsewhere", 0, 2.0, "6.1"));
    let file = other.path().join("good.json");
    let found = compared(folder.path(), file.to_str());
    assert_eq!(verdict(&found, "h01"), Some(Verdict::Better));
    assert_eq!((found.runs, found.hosts.len()), (3, 3), "the baseline is no host of the fleet");
    // A file of the fleet is not compared with its own host.
    let own = folder.path().join("h01/0.json");
    assert_eq!(verdict(&compared(folder.path(), own.to_str()), "h01"), None);
    let refused = Fleet::of(gather(folder.path()).unwrap(), Some("none")).unwrap_err().to_string();
    assert!(refused.contains("h00, h01, h02"), "{refused}");
}

#[test]
fn a_rate_that_is_higher_is_faster() {
    let folder = tempfile::tempdir().unwrap();
    for at in 0..10 {
        let mut document = run(&format!("h{at}"), 0, 1.0, "6.1");
        let per_message = if at == 0 { 200.0 } else { 100.0 + f64::from(at) / 10.0 };
        let (mean, of_mean) = stated(per_message);
        let distribution =
            Distribution { mean, ci95: Ci95 { mean: of_mean, ..Ci95::default() }, ..Distribution::default() };
        document.results = vec![Row { measure: "per_message".into(), distribution, ..row("xdp", 1.0) }];
        put(folder.path(), &format!("{at}.json"), &document);
    }
    let found = compared(folder.path(), None);
    assert_eq!(found.rows[0].hosts[0].standing, Standing::Slower, "{found:?}");
    assert!(found.has_outlier() && found.rows[0].hosts[0].value.unwrap() < 5.1e6 + 1.0);
}

#[test]
fn what_is_no_result_is_left_out_by_name() {
    let folder = fleet(2, 1, 1.0);
    let at = |name: &str| folder.path().join(name);
    fs::write(at("cut.json"), "{\"schema\":1,").unwrap();
    fs::write(at("later.json"), "{\"schema\":2}").unwrap();
    fs::write(at("deep.json"), format!("{{\"schema\":1,\"notes\":{}", "[".repeat(100_000))).unwrap();
    fs::write(at("compared.json"), "{\"schema\":1,\"runs\":[1,1],\"differences\":[],\"rows\":[]}").unwrap();
    fs::write(
        at("nan.json"),
        json::to_string(&run("x", 0, 1.0, "6")).replacen("\"elapsed_s\": 0.0", "\"elapsed_s\": NaN", 1),
    )
    .unwrap();
    std::os::unix::fs::symlink("loop.json", at("loop.json")).unwrap();
    std::os::unix::fs::symlink(".", at("circle")).unwrap();
    fs::write(at(".hidden.json"), "x").unwrap();
    fs::write(at("notes.txt"), "x").unwrap();
    fs::create_dir_all(at("h00/deeper/x.json")).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(at("pipe.json")).status().unwrap().success());
    let found = compared(folder.path(), None);
    let mut names: Vec<&str> =
        found.left_out.iter().filter_map(|one| Path::new(&one.file).file_name()?.to_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["compared.json", "cut.json", "deep.json", "later.json", "loop.json", "nan.json", "pipe.json"]);
    assert!(
        found.left_out.iter().all(|one| !one.reason.is_empty() && !one.reason.starts_with("cannot read /")),
        "{found:?}"
    );
    assert_eq!(found.hosts.len(), 2);
    let empty = tempfile::tempdir().unwrap();
    assert!(gather(empty.path()).unwrap_err().to_string().contains("no file *.json"));
    fs::write(empty.path().join("x.json"), "").unwrap();
    assert!(gather(empty.path()).unwrap_err().to_string().contains("none of its 1 files"));
    assert!(gather(&empty.path().join("none")).unwrap_err().to_string().contains("next:"));
}

#[test]
fn strange_names_do_not_reach_the_terminal_and_tables_fit_the_page() {
    let folder = fleet(8, 1, 1.5);
    put(folder.path(), "a.json", &run("evil\u{1b}[2J\n", 0, 1.0, "6\u{9b}31m"));
    let found = compared(folder.path(), Some("h03"));
    for width in [60, 80, 120, 200] {
        let text = text::render(&found, true, width);
        assert!(text.chars().all(|letter| letter == '\n' || !letter.is_control()), "{text:?}");
        let is_table = |line: &&str| line.starts_with("  h0");
        assert!(
            width < 100 || text.lines().filter(is_table).all(|line| line.chars().count() <= width),
            "{width}: {text}"
        );
    }
}
