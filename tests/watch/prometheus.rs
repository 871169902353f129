//! Debian's Prometheus scrapes a watch; every expression of the rules and of the dashboard is evaluated by it.

use super::daemon::{Process, Watch, get, parse, wait};
use crate::support::{finish, my_turn};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Expressions that have no data in this test, by a part of them, with the reason.
const WITHOUT_DATA: &[(&str, &str)] = &[
    ("sidestep_control_", "no control plane runs here"),
    ("[$__rate_interval])) > 0", "no slice has failed"),
    ("{job=~\"$job\", instance=~\"$instance\"}) > 0", "a host may have no finding"),
];

fn contrib(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("contrib").join(name)
}

fn is_there(program: &str) -> bool {
    let is_there = Command::new(program).arg("--version").output().is_ok_and(|done| done.status.success());
    if !is_there {
        eprintln!("skipped: needs {program}");
    }
    is_there
}

/// Runs promtool on these arguments, and this input.
fn promtool(arguments: &[&str], input: Stdio) {
    let mut command = Command::new("promtool");
    command.args(arguments).stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped());
    let done = finish(command.spawn().expect("it is there"));
    assert_eq!(done.code, 0, "promtool {arguments:?}: {}{}", done.stdout, done.stderr);
}

#[test]
fn promtool_finds_no_fault() {
    if !is_there("promtool") {
        return;
    }
    let _turn = my_turn();
    let rules = contrib("prometheus/sidestep.rules.yml");
    promtool(&["check", "rules", rules.to_str().expect("UTF-8")], Stdio::null());
    let tests = contrib("prometheus/sidestep.rules.test.yml");
    promtool(&["test", "rules", tests.to_str().expect("UTF-8")], Stdio::null());
    promtool(&["check", "config", contrib("prometheus/scrape.yml").to_str().expect("UTF-8")], Stdio::null());
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("metrics");
    let looked = crate::support::run(&["watch", "--once", "--slice", "2ms"]);
    parse(&looked.stdout);
    fs::write(&file, &looked.stdout).expect("written");
    promtool(&["check", "metrics"], fs::File::open(&file).expect("there").into());
}

/// A Prometheus that scrapes one target once a second.
struct Prometheus {
    _process: Process,
    _folder: tempfile::TempDir,
    address: String,
}

impl Prometheus {
    fn start(target: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let config = folder.path().join("prometheus.yml");
        let rules = contrib("prometheus/sidestep.rules.yml");
        let text = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: ['{}']\n\
             scrape_configs: [{{job_name: sidestep, static_configs: [{{targets: ['{target}']}}]}}]\n",
            rules.display()
        );
        fs::write(&config, text).expect("written");
        // Free a moment ago. Another program that takes it meanwhile makes the test fail, and says so.
        let free = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let address = free.local_addr().expect("bound").to_string();
        drop(free);
        let mut command = Command::new("prometheus");
        command.arg(format!("--config.file={}", config.display()));
        command.arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()));
        command.args(["--web.listen-address", &address, "--log.level=error"]);
        let process = Process(command.stdout(Stdio::null()).spawn().expect("it is there"));
        wait("a Prometheus", || {
            std::net::TcpStream::connect(&address).ok()?;
            get(&address, "/-/ready").contains(" 200 OK\r\n").then_some(())
        });
        Self { _process: process, _folder: folder, address }
    }

    /// The API's answer. It must be a success.
    fn ask(&self, path: &str) -> Value {
        let answer = get(&self.address, path);
        let (head, body) = answer.split_once("\r\n\r\n").expect("an answer has a head");
        let value: Value = serde_json::from_str(body).unwrap_or_else(|error| panic!("{path}: {error}: {head} {body}"));
        assert_eq!(value["status"], "success", "{path}: {body}");
        value["data"].clone()
    }

    /// The series that an expression has now.
    fn query(&self, expression: &str) -> Vec<Value> {
        let found = self.ask(&format!("/api/v1/query?query={}", encoded(expression)));
        found["result"].as_array().cloned().unwrap_or_default()
    }

    /// An instant vector's numbers.
    fn numbers(&self, expression: &str) -> Vec<f64> {
        let number = |series: &Value| series["value"][1].as_str()?.parse().ok();
        self.query(expression).iter().filter_map(number).collect()
    }
}

/// RFC 3986: everything but letters and digits as %XX.
fn encoded(text: &str) -> String {
    let byte =
        |byte: u8| if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(byte).collect()
}

fn dashboard() -> Value {
    serde_json::from_str(&fs::read_to_string(contrib("grafana/sidestep.json")).expect("it is there")).expect("JSON")
}

/// Title and expression of every panel.
fn expressions(dashboard: &Value) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for panel in dashboard["panels"].as_array().expect("panels") {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let text = |value: &Value| value.as_str().expect("a text").to_owned();
            found.push((text(&panel["title"]), text(&target["expr"])));
        }
    }
    found
}

#[test]
fn prometheus_scrapes_it_and_every_expression_of_dashboard_and_rules_is_evaluated() {
    if !is_there("prometheus") {
        return;
    }
    let _turn = my_turn();
    let watch = Watch::serving(&["--tune-every", "1s"]);
    let prometheus = Prometheus::start(&watch.address());
    let spin = "sidestep_rtt_seconds_count{path=\"kernel-spin\",transport=\"tcp\",place=\"loopback\"}";
    wait("six scrapes", || {
        let scrapes = prometheus.numbers(&format!("count_over_time({spin}[1m])"));
        let audited = prometheus.numbers("sidestep_tune_last_timestamp_seconds > 0");
        (scrapes.first().is_some_and(|count| *count >= 6.0) && !audited.is_empty()).then_some(())
    });
    let p50 = prometheus.numbers("histogram_quantile(0.5, rate(sidestep_rtt_seconds_bucket[30s]))");
    assert!(p50.len() == 2 && p50.iter().all(|seconds| (1e-6..0.1).contains(seconds)), "{p50:?}");

    for (title, expression) in expressions(&dashboard()) {
        let filled = expression.replace("$job", "sidestep").replace("$instance", ".*").replace("$path", ".*");
        let filled = filled.replace("$__rate_interval", "10s");
        assert!(!filled.contains('$'), "{title}: a variable that is none: {filled}");
        let found = prometheus.query(&filled);
        let reason = WITHOUT_DATA.iter().find(|(part, _)| expression.contains(part));
        assert!(!found.is_empty() || reason.is_some(), "{title}: no data: {filled}");
    }
    rules(&prometheus);
    assert_eq!(watch.end("TERM"), 0);
}

/// Rules that read the target have data; an alert has none while all is well; the rest is recorded within a minute.
fn rules(prometheus: &Prometheus) {
    let groups = prometheus.ask("/api/v1/rules")["groups"].clone();
    let rules: Vec<Value> = groups
        .as_array()
        .into_iter()
        .flatten()
        .flat_map(|group| group["rules"].as_array().cloned())
        .flatten()
        .collect();
    assert_eq!(rules.len(), 11);
    for rule in &rules {
        let (name, query) = (rule["name"].as_str().expect("a name"), rule["query"].as_str().expect("an expression"));
        let found = prometheus.query(query);
        let is_of_target = rule["type"] == "recording" && query.contains("_bucket[");
        assert!(!is_of_target || !found.is_empty(), "{name}: no data: {query}");
    }
    for quiet in ["SidestepProbeDown", "SidestepWatchStale", "SidestepWatchAbsent"] {
        let rule = rules.iter().find(|rule| rule["name"] == quiet).expect("it is a rule");
        assert_eq!(prometheus.query(rule["query"].as_str().expect("a text")), Vec::<Value>::new(), "{quiet}");
    }
}

#[test]
fn the_dashboard_has_what_grafana_asks_for() {
    let dashboard = dashboard();
    for field in ["title", "schemaVersion", "panels", "templating", "time", "refresh"] {
        assert!(!dashboard[field].is_null(), "{field}");
    }
    // The number is the server's; the uid is ours, so that links last and a second import replaces the first.
    assert_eq!((&dashboard["id"], dashboard["uid"].as_str()), (&Value::Null, Some("sidestep-watch")));
    let variables: BTreeSet<&str> = dashboard["templating"]["list"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|variable| variable["name"].as_str())
        .collect();
    assert_eq!(variables, BTreeSet::from(["datasource", "instance", "job", "path"]));
    let mut taken = BTreeSet::new();
    let mut ids = BTreeSet::new();
    for panel in dashboard["panels"].as_array().expect("panels") {
        let (title, at) = (panel["title"].as_str().expect("a title"), &panel["gridPos"]);
        let number = |key: &str| at[key].as_u64().unwrap_or_else(|| panic!("{title}: no {key}"));
        assert!(number("x") + number("w") <= 24, "{title} is wider than the page");
        for x in number("x")..number("x") + number("w") {
            for y in number("y")..number("y") + number("h") {
                assert!(taken.insert((x, y)), "{title} stands upon another panel");
            }
        }
        assert!(ids.insert(panel["id"].as_u64()), "{title}: its number is another panel's");
        if panel["type"] == "row" {
            continue;
        }
        let known = ["stat", "timeseries", "heatmap", "table"];
        assert!(known.contains(&panel["type"].as_str().expect("a type")), "{title}");
        assert!(panel["description"].as_str().is_some_and(|text| text.len() > 20), "{title} explains nothing");
        let sources = panel["targets"].as_array().expect("targets").iter().chain([panel]);
        for source in sources.map(|of| &of["datasource"]) {
            assert_eq!(
                (source["type"].as_str(), source["uid"].as_str()),
                (Some("prometheus"), Some("${datasource}")),
                "{title}"
            );
        }
    }
}

/// Metrics that are told only while a control plane runs.
const WHILE_CONTROL_RUNS: [&str; 5] = [
    "sidestep_control_programs",
    "sidestep_control_stacks",
    "sidestep_control_feeds",
    "sidestep_control_accelerated",
    "sidestep_control_left_to_kernel",
];

#[test]
fn rules_and_dashboard_name_metrics_that_there_are() {
    let _turn = my_turn();
    let looked = crate::support::run(&["watch", "--once", "--slice", "2ms"]);
    let known: BTreeSet<String> =
        parse(&looked.stdout).keys().filter_map(|key| key.split('{').next().map(str::to_owned)).collect();
    let rules = fs::read_to_string(contrib("prometheus/sidestep.rules.yml")).expect("it is there");
    let bare: Vec<String> =
        rules.lines().filter(|line| !line.trim_start().starts_with('#')).map(str::to_owned).collect();
    let all = bare.join("\n") + &dashboard().to_string();
    let words = all.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':'));
    let names: BTreeSet<&str> = words.filter(|word| word.starts_with("sidestep_") && !word.contains(':')).collect();
    assert!(names.len() > 15, "{names:?}");
    for name in names {
        assert!(known.contains(name) || WHILE_CONTROL_RUNS.contains(&name), "{name} is no metric: {known:?}");
    }
}
