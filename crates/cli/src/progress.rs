//! The progress bar: on a terminal, for runs of more than two seconds.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use sidestep_bench::scenario::Progress;
use std::fmt::Write;
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
        let left = |state: &ProgressState, text: &mut dyn Write| {
            let _ = text.write_str(&left(state.len().unwrap_or(0), state.pos()));
        };
        let style = ProgressStyle::with_template("{prefix:>6} [{bar:30}] {percent:>3}%  {left}  {msg}")
            .map_or_else(|_| ProgressStyle::default_bar(), |style| style.with_key("left", left).progress_chars("=> "));
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

/// The rest of the plan. It is known before the first slice, when a speed is not.
fn left(expected_ms: u64, done_ms: u64) -> String {
    match expected_ms.saturating_sub(done_ms).div_ceil(1000) {
        0 => "nearly done".into(),
        seconds @ 1..100 => format!("{seconds}s left"),
        seconds => format!("{}m left", (seconds + 30) / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_of_the_plan_is_told_from_the_beginning() {
        assert_eq!(left(47_000, 0), "47s left");
        assert_eq!(left(270_000, 0), "5m left");
        assert_eq!(left(47_000, 46_500), "1s left");
        assert_eq!(left(47_000, 50_000), "nearly done", "slices that take longer than planned");
    }
}
