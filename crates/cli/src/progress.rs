//! The progress bar: on a terminal, for runs of more than two seconds.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use sidestep_bench::scenario::Progress;
use std::io::IsTerminal;

/// Shortest run with a bar.
const SHORT_MS: u64 = 2_000;
/// Redraws per second: the bar runs on the measuring thread, between slices.
const REDRAWS: u8 = 5;

/// A bar on standard error, or nothing.
pub(crate) struct Bar(ProgressBar);

impl Bar {
    pub(crate) fn new() -> Self {
        Self(ProgressBar::hidden())
    }
}

impl Progress for Bar {
    fn begin(&mut self, what: &str, expected_ms: u64) {
        if expected_ms < SHORT_MS || !std::io::stderr().is_terminal() {
            return;
        }
        let target = ProgressDrawTarget::stderr_with_hz(REDRAWS);
        let style = ProgressStyle::with_template("{prefix:>6} [{bar:30}] {percent:>3}%  {eta} left  {msg}")
            .map_or_else(|_| ProgressStyle::default_bar(), |style| style.progress_chars("=> "));
        self.0 = ProgressBar::with_draw_target(Some(expected_ms), target).with_style(style);
        self.0.set_prefix(what.to_owned());
    }

    fn advance(&mut self, now: &str, taken_ms: u64) {
        self.0.set_message(now.to_owned());
        self.0.inc(taken_ms);
    }

    fn end(&mut self) {
        self.0.finish_and_clear();
        self.0 = ProgressBar::hidden();
    }
}
