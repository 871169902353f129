//! Limits of a request.

use sidestep_sys::Problem;
use std::time::Duration;

/// The longest measurement of an arm.
const DURATION_MAX: Duration = Duration::from_secs(3600);
/// The highest rate: beyond it a schedule in clock ticks has no meaning.
const RATE_MAX: f64 = 100e6;

/// Refuses a time that is none, or too long.
pub(crate) fn check_duration(duration: Duration) -> Result<(), Problem> {
    if (Duration::from_millis(1)..=DURATION_MAX).contains(&duration) {
        return Ok(());
    }
    Err(Problem::usage(format!("cannot measure for {duration:?}"), "a path is measured for 1 ms to 1 h")
        .next("give --duration within it, for example 2s"))
}

/// At least one batch a second: the peer takes a longer silence for the end.
pub(super) fn check_rate(flag: &str, rate: f64, batch: u32) -> Result<(), Problem> {
    if (f64::from(batch)..=RATE_MAX).contains(&rate) {
        return Ok(());
    }
    let why = match batch {
        1 => format!("a rate is 1 to {RATE_MAX:.0}"),
        _ => format!("in batches of {batch} a rate is {batch} to {RATE_MAX:.0}, at least one batch a second"),
    };
    Err(Problem::usage(format!("cannot send {rate} messages per second"), why)
        .next(format!("give {flag} within it, for example 10k,50k,100k")))
}
