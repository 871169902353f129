//! A watch under test, and a plain client of its metrics.

use crate::support::{WATCHDOG, finish, send_signal, sidestep};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Killed when a test ends, however it does.
pub(crate) struct Process(pub(crate) Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A running watch.
pub(crate) struct Watch {
    child: Option<Child>,
    /// What it has told.
    lines: Arc<Mutex<Vec<String>>>,
}

/// Lines of metrics by name and labels.
pub(crate) type Series = BTreeMap<String, f64>;

impl Watch {
    /// Starts one with short intervals and these further arguments.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let usual = if arguments.contains(&"--every") { &[][..] } else { &["--every", "200ms", "--slice", "2ms"] };
        let mut command = sidestep(&[&["watch"], usual].concat());
        let mut child = command.args(arguments).stdout(Stdio::null()).spawn().expect("the binary is built");
        let lines = Arc::new(Mutex::new(Vec::new()));
        let (told, from) = (Arc::clone(&lines), BufReader::new(child.stderr.take().expect("piped")));
        std::thread::spawn(move || {
            from.lines().map_while(Result::ok).for_each(|line| told.lock().expect("no panic").push(line));
        });
        Self { child: Some(child), lines }
    }

    /// One that serves on a free port of loopback.
    pub(crate) fn serving(arguments: &[&str]) -> Self {
        Self::start(&[&["--listen", "127.0.0.1:0"], arguments].concat())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.as_ref().map_or(0, Child::id)
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.lines.lock().expect("no panic").clone()
    }

    /// Where it serves.
    pub(crate) fn address(&self) -> String {
        let told = || {
            let lines = self.lines();
            assert!(!lines.iter().any(|line| line.starts_with("error:")), "{lines:?}");
            let url = lines.iter().find_map(|line| line.split_once("http://").map(|(_, url)| url.to_owned()))?;
            url.split_once('/').map(|(address, _)| address.to_owned())
        };
        wait("an address", told)
    }

    /// Its metrics now.
    pub(crate) fn series(&self) -> Series {
        let answer = get(&self.address(), "/metrics");
        let (head, body) = answer.split_once("\r\n\r\n").expect("an answer has a head");
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains("text/plain; version=0.0.4"), "{head}");
        parse(body)
    }

    /// Its metrics once `is_so` holds of them.
    pub(crate) fn series_where(&self, what: &str, is_so: impl Fn(&Series) -> bool) -> Series {
        wait(what, || Some(self.series()).filter(|series| is_so(series)))
    }

    /// Ends it by a signal. Returns its exit code.
    pub(crate) fn end(mut self, signal: &str) -> i32 {
        let child = self.child.take().expect("it runs");
        send_signal(child.id(), signal);
        finish(child).code
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(child) = self.child.take() {
            drop(Process(child));
        }
    }
}

/// Waits for what must come, as long as the watchdog lets it.
pub(crate) fn wait<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    let end = Instant::now() + WATCHDOG;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "no {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Asks by HTTP/1.0, whose answers end with the connection.
pub(crate) fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(WATCHDOG)).expect("a socket");
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    answer
}

/// Reads the text format. Every line must belong to a metric that has help and type.
pub(crate) fn parse(text: &str) -> Series {
    let mut series = Series::new();
    let (mut helped, mut typed) = (String::new(), String::new());
    for line in text.lines() {
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["#", "HELP", name, ..] => helped = name.to_owned(),
            ["#", "TYPE", name, _] => typed = name.to_owned(),
            _ => {
                let (name, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
                assert!(name.starts_with(&typed) && helped == typed, "{line} stands under {typed} and {helped}");
                let value = value.parse().unwrap_or_else(|error| panic!("{line}: {error}"));
                assert!(series.insert(name.to_owned(), value).is_none(), "{name} stands twice");
            }
        }
    }
    series
}

/// The value of the one line that has this name and these labels among its own.
pub(crate) fn value(series: &Series, name: &str, labels: &[&str]) -> f64 {
    let is_it = |key: &str| {
        let (own, rest) = key.split_once('{').unwrap_or((key, ""));
        own == name && labels.iter().all(|label| rest.contains(label))
    };
    let found: Vec<f64> = series.iter().filter(|(key, _)| is_it(key)).map(|(_, value)| *value).collect();
    assert_eq!(found.len(), 1, "{name} {labels:?} in {:?}", series.keys());
    found[0]
}

/// Rounds of probes so far.
pub(crate) fn rounds(series: &Series) -> f64 {
    value(series, "sidestep_watch_rounds_total", &[])
}
