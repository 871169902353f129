//! The report as a reader has it: in a browser at three widths, on paper, and by the rules of accessibility.

#[path = "../examples/sample/mod.rs"]
mod sample;

use serde_json::Value;
use sidestep_report::schema::{Document, Row};
use sidestep_report::{histogram, html, schema};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// Most pages of paper that the report of `sidestep demo` takes.
const PAGES_MAX: u32 = 4;

/// Widths of a phone, a small and a large screen, in pixels.
const WIDTHS: [u32; 3] = [375, 1024, 1600];

/// Where scripts/axe-core puts it.
const AXE: &str = "target/axe/node_modules/axe-core/axe.min.js";

/// Paths of the round trips of `sidestep demo` that the sample lacks, over TCP and UDP.
const PAST: [(&str, &str, f64); 4] =
    [("tcp", "xdp", 4_410.0), ("tcp", "run", 6_900.0), ("udp", "xdp-raw", 2_700.0), ("udp", "xdp", 3_600.0)];

/// A document as `sidestep demo` writes it: round trips over TCP, UDP and within one host, ladder, sizes and rates.
fn demo() -> Document {
    let mut document = sample::document();
    let of_kernel = ["kernel-default", "kernel-pinned", "kernel-spin", "uring-spin"];
    let on_one_host = ["uds-spin", "shm", "floor"];
    let is_trip = |row: &Row| row.scenario == "rr" && row.rung.is_none();
    let is_measured = |row: &Row| of_kernel.iter().chain(&on_one_host).any(|path| row.path == *path);
    document.results.retain(|row| !is_trip(row) || is_measured(row));
    document.results.iter_mut().for_each(|row| row.causes = None);
    let over = |row: &Row, transport: &str| Row { transport: transport.into(), ..row.clone() };
    let rows = || document.results.iter();
    let mut more: Vec<Row> =
        rows().filter(|row| is_trip(row) && row.transport == "tcp").map(|row| over(row, "udp")).collect();
    more.extend(rows().filter(|row| row.scenario == "rates").map(|row| over(row, "multicast")));
    let model = rows().find(|row| row.path == "kernel-spin").expect("the sample has it");
    for (transport, path, p50) in PAST {
        let mut row = Row { path: path.into(), ..over(model, transport) };
        row.distribution.p50 = Some(p50);
        more.push(row);
    }
    document.results.extend(more);
    document
}

/// A folder with a page in it.
struct Page {
    folder: TempDir,
    html: String,
}

impl Page {
    fn of(document: &Document) -> Self {
        Self { folder: tempfile::tempdir().expect("a temporary folder"), html: html::render(document) }
    }

    /// The page with scripts at its end, as a file; the policy lets them run.
    fn with(&self, name: &str, change: impl Fn(&str) -> String, scripts: &[&str]) -> PathBuf {
        let scripts: String = scripts.iter().map(|script| format!("<script>{script}</script>")).collect();
        let (before, after) = self.html.split_once("script-src 'sha256-").expect("the page has a policy");
        let open = format!("{before}script-src 'unsafe-inline'{}", after.split_once('\'').expect("it ends").1);
        let page = change(&open).replace("</body>", &(scripts + "</body>"));
        let path = self.folder.path().join(name);
        fs::write(&path, page).expect("it can be written");
        path
    }
}

/// What the browser prints; none where there is no browser.
fn chromium(folder: &Path, arguments: &[&str], page: &Path) -> Option<String> {
    let is_there =
        |name: &&&str| Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    let Some(browser) = ["chromium", "chromium-browser", "google-chrome"].iter().find(is_there) else {
        eprintln!("skipped: chromium is not installed");
        return None;
    };
    let profile = format!("--user-data-dir={}", folder.join("profile").display());
    let mut command = Command::new(browser);
    command.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
        &profile,
    ]);
    command.args(arguments).arg(format!("file://{}", page.display()));
    let Output { stdout, .. } = command.stdin(Stdio::null()).output().expect("the browser starts");
    Some(String::from_utf8_lossy(&stdout).into_owned())
}

/// What a script of the page left in its attribute `data-found`.
fn found(dom: &str) -> Value {
    let (_, after) =
        dom.split_once("data-found=\"").unwrap_or_else(|| panic!("the script has not run: {} bytes", dom.len()));
    let text = after
        .split('"')
        .next()
        .expect("an attribute ends")
        .replace("&quot;", "\"")
        .replace("&lt;", "<")
        .replace("&gt;", ">");
    serde_json::from_str(&text.replace("&amp;", "&")).unwrap_or_else(|error| panic!("{error}: {text}"))
}

const OPEN_ALL: &str = "document.querySelectorAll('details').forEach((part) => { part.open = true; });";

/// The width, how far the page reaches beyond it, and what does.
const OVERFLOW: &str = "addEventListener('load', () => {
  const root = document.documentElement;
  const hidden = (one) => one.closest('.scroll, nav, svg, .skip, #tip');
  const wide = [...document.body.querySelectorAll('*')].filter((one) => !hidden(one) && one.getBoundingClientRect().right > innerWidth + 1);
  parent.postMessage(JSON.stringify({ width: innerWidth, beyond: root.scrollWidth - innerWidth, wide: wide.slice(0, 5).map((one) => one.outerHTML.slice(0, 90)) }), '*');
});";

/// What the check for width finds at a width; none where there is no browser. The page is framed: a browser's window has a least width.
fn overflow(page: &Page, change: impl Fn(&str) -> String, width: u32) -> Option<Value> {
    let framed = page.with("framed.html", change, &[OPEN_ALL, OVERFLOW]);
    let listen = "addEventListener('message', (event) => { document.documentElement.dataset.found = event.data; });";
    let outer = format!(
        "<!doctype html><script>{listen}</script><iframe style=\"border: 0; width: {width}px; height: 900px\" src=\"{}\"></iframe>",
        framed.display()
    );
    let file = page.folder.path().join("outer.html");
    fs::write(&file, outer).expect("it can be written");
    let dom = chromium(page.folder.path(), &["--window-size=1700,1000", "--dump-dom"], &file)?;
    Some(found(&dom))
}

#[test]
fn nothing_is_wider_than_the_screen() {
    let page = Page::of(&demo());
    for width in WIDTHS {
        let Some(found) = overflow(&page, str::to_owned, width) else { return };
        assert_eq!(found["width"], width, "{found}");
        assert!(found["beyond"].as_i64().is_some_and(|beyond| beyond <= 0), "{width}: {found}");
        assert_eq!(found["wide"], Value::Array(Vec::new()), "{width}: {found}");
    }
}

#[test]
fn a_check_for_width_finds_what_is_too_wide() {
    let page = Page::of(&demo());
    let wide = |html: &str| html.replace("<h1>", "<p style=\"min-width: 3000px\">wide</p><h1>");
    let Some(found) = overflow(&page, wide, 1024) else { return };
    assert!(found["beyond"].as_i64().is_some_and(|beyond| beyond > 1_000), "{found}");
}

#[test]
fn the_demo_fits_four_pages_of_paper() {
    let page = Page::of(&demo());
    let (file, pdf) = (page.with("paper.html", str::to_owned, &[]), page.folder.path().join("report.pdf"));
    let print = format!("--print-to-pdf={}", pdf.display());
    let Some(dom) = chromium(page.folder.path(), &[&print, "--no-pdf-header-footer"], &file) else { return };
    assert!(pdf.exists(), "{dom}");
    let Ok(info) = Command::new("pdfinfo").arg(&pdf).output() else {
        return eprintln!("skipped: pdfinfo of poppler-utils is not installed");
    };
    let info = String::from_utf8_lossy(&info.stdout).into_owned();
    let pages = info.lines().find_map(|line| line.strip_prefix("Pages:")?.trim().parse::<u32>().ok());
    assert!(pages.is_some_and(|pages| (1..=PAGES_MAX).contains(&pages)), "{info}");
    assert!(info.contains("A4"), "{info}");
}

/// Rules that were broken, with where.
const RUN_AXE: &str = "axe.run(document, { resultTypes: ['violations'] }).then((result) => {
  const told = result.violations.map((one) => ({ rule: one.id, where: one.nodes.slice(0, 3).map((node) => node.html.slice(0, 160) + ' ' + node.failureSummary.slice(0, 300)) }));
  document.documentElement.dataset.found = JSON.stringify({ passed: result.passes.length, violations: told });
});";

/// The browser runs the rules on a page; none where it or the rules are missing.
fn broken_rules(page: &Page, change: impl Fn(&str) -> String, width: u32) -> Option<Value> {
    let Ok(axe) = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(AXE)) else {
        eprintln!("skipped: axe-core is missing (scripts/axe-core gets it)");
        return None;
    };
    let file = page.with("axe.html", change, &[OPEN_ALL, &axe, RUN_AXE]);
    let size = format!("--window-size={width},900");
    // Time of the page, not of the clock: it ends as soon as nothing is left to do.
    let dom = chromium(page.folder.path(), &[&size, "--virtual-time-budget=60000", "--dump-dom"], &file)?;
    Some(found(&dom))
}

fn dark(html: &str) -> String {
    let media = "@media screen and (prefers-color-scheme: dark)";
    assert!(html.contains(media));
    html.replace(media, "@media screen")
}

#[test]
fn no_rule_of_accessibility_is_broken() {
    let mut whole = demo();
    whole.results.extend(sample::document().results.into_iter().filter(|row| row.causes.is_some()).take(1));
    let page = Page::of(&whole);
    type Change = fn(&str) -> String;
    let pages: [(&str, Change, u32); 3] =
        [("light", str::to_owned, 1024), ("dark", dark, 1024), ("a phone", str::to_owned, 375)];
    for (name, change, width) in pages {
        let Some(found) = broken_rules(&page, change, width) else { return };
        assert!(found["passed"].as_u64().is_some_and(|passed| passed > 10), "{name}: {found}");
        assert_eq!(found["violations"], Value::Array(Vec::new()), "{name}: {found:#}");
    }
}

#[test]
fn a_broken_rule_of_accessibility_is_found() {
    let page = Page::of(&demo());
    let pale = |html: &str| html.replace("<h1>", "<p style=\"color: #eee; background: #fff\">pale</p><h1>");
    let Some(found) = broken_rules(&page, pale, 1024) else { return };
    assert!(found["violations"].to_string().contains("color-contrast"), "{found}");
}

#[test]
fn the_page_reads_and_sorts_its_table() {
    let page = Page::of(&demo());
    let click = "addEventListener('load', () => {
      const table = document.querySelector('table.sortable');
      const column = (name) => [...table.tHead.rows[0].cells].findIndex((cell) => cell.textContent === name);
      const p50 = column('p50');
      table.tHead.rows[0].cells[p50].querySelector('button').click();
      const values = [...table.tBodies[0].rows].map((row) => Number(row.cells[p50].dataset.v));
      document.documentElement.dataset.found = JSON.stringify({ values, sort: table.tHead.rows[0].cells[p50].getAttribute('aria-sort'), copy: !!document.querySelector('.command button') });
    });";
    let file = page.with("sort.html", str::to_owned, &[click]);
    let Some(dom) = chromium(page.folder.path(), &["--dump-dom"], &file) else { return };
    let found = found(&dom);
    let values: Vec<f64> = found["values"].as_array().expect("values").iter().filter_map(Value::as_f64).collect();
    assert!(values.len() > 12 && values.is_sorted(), "{found}");
    assert_eq!((found["sort"].as_str(), found["copy"].as_bool()), (Some("ascending"), Some(true)), "{found}");
}

#[test]
fn a_script_that_is_not_ours_does_not_run() {
    let page = Page::of(&demo());
    let foreign = "<script>document.documentElement.dataset.found = '1'</script></body>";
    let file = page.folder.path().join("foreign.html");
    for (html, runs) in
        [(page.html.replace("</body>", foreign), false), ("<body></body>".replace("</body>", foreign), true)]
    {
        fs::write(&file, html).expect("it can be written");
        let Some(dom) = chromium(page.folder.path(), &["--dump-dom"], &file) else { return };
        assert_eq!(dom.contains("data-found"), runs);
    }
}
