//! `sidestep market`.

mod lines;

mod watch;

use crate::args::Market;
use sidestep_sys::Problem;

pub(super) fn run(args: Market) -> Result<u8, Problem> {
    #[allow(clippy::single_match_else)]
    match args {
        Market::Watch(args) => watch::run(&args),
        _ => Ok(1),
    }
}
