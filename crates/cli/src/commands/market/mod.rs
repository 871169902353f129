//! `sidestep market`.

mod exchange;

use crate::args::Market;
use sidestep_sys::Problem;

pub(super) fn run(args: Market) -> Result<u8, Problem> {
    match args {
        Market::Exchange(args) => exchange::run(&args),
    }
}
