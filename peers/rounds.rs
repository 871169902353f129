//! Rounds of a measurement in this process: how many, and what they say in sum. For the harnesses that include this file.

use std::process;

/// With fewer there is no interval that holds in 95 of 100 cases.
const ROUNDS_MIN: usize = 10;

/// The number in the first argument, or `default`. Ends the process if it is none.
pub fn rounds(default: usize) -> usize {
    let Some(argument) = std::env::args().nth(1) else { return default };
    match argument.parse() {
        Ok(rounds) if rounds >= ROUNDS_MIN => rounds,
        _ => {
            eprintln!("{argument:?} is no number of rounds: give {ROUNDS_MIN} or more (ROUNDS={default})");
            process::exit(2);
        }
    }
}

/// The median, and the order statistics around it between which the true one lies in 95 of 100 cases (by the binomial distribution,
/// approximated).
pub fn median(values: impl Iterator<Item = f64>) -> (f64, [f64; 2]) {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let last = values.len() - 1;
    let reach = 1.96 * (values.len() as f64).sqrt() / 2.0;
    let middle = values.len() as f64 / 2.0;
    let low = (middle - reach).floor().max(1.0) as usize - 1;
    let high = (middle + reach).ceil() as usize;
    ((values[last / 2] + values[last - last / 2]) / 2.0, [values[low], values[high.min(last)]])
}
