//! `sidestep tune snapshot`.

use crate::args::tune::Snapshot;
use crate::{exit, output};
use sidestep_sys::Problem;
use sidestep_sys::problem::say;
use sidestep_tune::fleet::record;
use sidestep_tune::host::{Host, Live};

pub(super) fn run(args: &Snapshot) -> Result<u8, Problem> {
    let host: Box<dyn Host> = match &args.root {
        Some(root) => super::tree(root)?,
        None => Box::new(Live::new()),
    };
    let saved = record(host.as_ref(), &args.interface, args.cpus.as_ref())?;
    if saved.is_cut() {
        say("this host has more to say than a snapshot may hold; some checks will have no value");
    }
    output::write(&args.out, &saved.to_json()?)?;
    Ok(exit::GOOD)
}
