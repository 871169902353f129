//! `sidestep market`.

mod decode;
mod exchange;
mod generate;
mod input;
mod lines;
mod record;
mod replay;
mod watch;

use crate::args::Market;
use sidestep_sys::Problem;

pub(super) fn run(args: Market) -> Result<u8, Problem> {
    match args {
        Market::Exchange(args) => exchange::run(&args),
        Market::Watch(args) => watch::run(&args),
        Market::Decode(args) => decode::run(&args),
        Market::Record(args) => record::run(&args),
        Market::Replay(args) => replay::run(&args),
        Market::Generate(args) => generate::run(&args),
    }
}
