//! `sidestep tune explain`.

use crate::{exit, output};
use sidestep_sys::Problem;
use sidestep_tune::show::text;
use sidestep_tune::table;

pub(super) fn run(id: Option<&str>) -> Result<u8, Problem> {
    match id {
        Some(id) => output::print(&text::explain(table::named(id)?, super::page()))?,
        None => output::print(&text::list(table::checks()))?,
    }
    Ok(exit::GOOD)
}
