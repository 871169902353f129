//! Prometheus' text format, version 0.0.4: one block per name, with its help and its type.

use crate::histogram::Histogram;
use std::fmt::{Display, Write};

/// The media type of the format.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only rises, from 0 at the start of the process.
    Counter,
    /// Rises and falls.
    Gauge,
    /// Counts in buckets.
    Histogram,
}

/// Labels of one line: names and values.
pub type Labels<'a> = &'a [(&'a str, &'a dyn Display)];

/// The text under way.
#[derive(Debug, Default)]
pub struct Text(String);

/// One metric of it, to which lines are added.
pub struct Metric<'a> {
    text: &'a mut String,
    name: &'a str,
}

impl Text {
    /// Begins a metric. Each name stands once in a text.
    pub fn metric<'a>(&'a mut self, name: &'a str, kind: Kind, help: &str) -> Metric<'a> {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
        Metric { text: &mut self.0, name }
    }

    /// The text.
    pub fn finish(self) -> String {
        self.0
    }
}

impl Metric<'_> {
    /// Adds a line.
    pub fn line(&mut self, labels: Labels<'_>, value: impl Display) -> &mut Self {
        self.sample("", labels, None, value);
        self
    }

    /// Adds a histogram in seconds: its buckets, sum and count.
    pub fn histogram(&mut self, labels: Labels<'_>, histogram: &Histogram) -> &mut Self {
        for (bound_ns, count) in histogram.cumulative() {
            self.sample("_bucket", labels, Some(&(bound_ns as f64 / 1e9)), count);
        }
        self.sample("_bucket", labels, Some(&"+Inf"), histogram.count());
        self.sample("_sum", labels, None, histogram.sum_ns() as f64 / 1e9);
        self.sample("_count", labels, None, histogram.count());
        self
    }

    fn sample(&mut self, suffix: &str, labels: Labels<'_>, le: Option<&dyn Display>, value: impl Display) {
        let _ = write!(self.text, "{}{suffix}", self.name);
        let all = labels.iter().copied().chain(le.map(|bound| ("le", bound)));
        let mut before = '{';
        for (name, value) in all {
            let _ = write!(self.text, "{before}{name}=\"{}\"", label(&value.to_string()));
            before = ',';
        }
        let _ = writeln!(self.text, "{} {value}", if before == ',' { "}" } else { "" });
    }
}

/// A label's value as the format wants it.
pub fn label(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_help_type_and_labels() {
        let mut text = Text::default();
        text.metric("up", Kind::Gauge, "Whether it is up").line(&[], 1);
        text.metric("seen_total", Kind::Counter, "A \\ and\na line")
            .line(&[("name", &"a\"b\\c\nd"), ("cpu", &3)], 7)
            .line(&[("name", &"")], 0.5);
        let expected = "# HELP up Whether it is up\n# TYPE up gauge\nup 1\n\
                        # HELP seen_total A \\\\ and\\na line\n# TYPE seen_total counter\n\
                        seen_total{name=\"a\\\"b\\\\c\\nd\",cpu=\"3\"} 7\nseen_total{name=\"\"} 0.5\n";
        assert_eq!(text.finish(), expected);
    }

    #[test]
    fn a_histogram_is_cumulative_and_in_seconds() {
        let mut histogram = Histogram::new(&[1_000, 2_500_000]);
        histogram.record(1_000, 2);
        histogram.record(2_000, 1);
        histogram.record(3_000_000_000, 1);
        let mut text = Text::default();
        text.metric("rtt_seconds", Kind::Histogram, "h").histogram(&[("path", &"x")], &histogram);
        let text = text.finish();
        let expected = "rtt_seconds_bucket{path=\"x\",le=\"0.000001\"} 2\nrtt_seconds_bucket{path=\"x\",le=\"0.0025\"} 3\n\
                        rtt_seconds_bucket{path=\"x\",le=\"+Inf\"} 4\nrtt_seconds_sum{path=\"x\"} 3.000004\n\
                        rtt_seconds_count{path=\"x\"} 4\n";
        assert!(text.ends_with(expected), "{text}");
    }
}
