//! `sidestep report`: a result file becomes a table or a page again.

mod support;

use sidestep_report::schema::{Document, Row, SCHEMA};
use sidestep_report::{html, json};
use std::fs;
use support::{finish, run, sidestep};

fn document() -> Document {
    let mut row = Row { scenario: "rr".into(), transport: "tcp".into(), path: "kernel-spin".into(), ..Row::default() };
    (row.size, row.measure, row.distribution.n, row.distribution.p50) = (64, "rtt".into(), 1_000, Some(5_600.0));
    Document { schema: SCHEMA, results: vec![row], ..Document::default() }
}

#[test]
fn a_result_file_becomes_a_page_and_a_table() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (result, page) = (folder.path().join("result.json"), folder.path().join("report.html"));
    let (result_name, page_name) = (result.display().to_string(), page.display().to_string());
    let document = document();
    fs::write(&result, json::to_string(&document)).expect("it can be written");
    let finished = run(&["report", &result_name, "--html", &page_name]);
    assert_eq!((finished.code, finished.stdout.as_str()), (0, ""), "{}", finished.stderr);
    assert_eq!(fs::read_to_string(&page).expect("the page"), html::render(&document));
    let table = run(&["report", &result_name]);
    assert!(
        table.code == 0 && table.stdout.contains("kernel-spin") && !table.stdout.contains("<html"),
        "{}",
        table.stderr
    );
    let mut command = sidestep(&["report", "-", "--html", "-"]);
    command.stdin(fs::File::open(&result).expect("the result"));
    let piped = finish(command.spawn().expect("the binary is built"));
    assert!(piped.code == 0 && piped.stdout.starts_with("<!doctype html>"), "{}", piped.stderr);
}

#[test]
fn what_is_no_result_is_named() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("a.json");
    let name = file.display().to_string();
    fs::write(&file, "<html>").expect("it can be written");
    let refused = run(&["report", &name]);
    assert!(
        refused.code == 1 && refused.stderr.contains("it is an HTML page") && refused.stderr.contains("next:"),
        "{}",
        refused.stderr
    );
    let itself = run(&["report", &name, "--html", &name]);
    assert!(itself.code == 2 && itself.stderr.contains("it is the result to be shown"), "{}", itself.stderr);
    assert_eq!(fs::read_to_string(&file).expect("it is still there"), "<html>");
    let missing = run(&["report", &format!("{name}.not")]);
    assert!(missing.code == 1 && missing.stderr.contains("next: check the path"), "{}", missing.stderr);
}
