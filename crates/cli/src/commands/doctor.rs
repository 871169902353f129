//! `sidestep doctor`.

use crate::args::Doctor as Args;
use crate::{exit, output};
use sidestep_doctor::Examination;
use sidestep_doctor::show::{self, Style};
use sidestep_sys::Problem;

pub(super) fn run(args: &Args) -> Result<u8, Problem> {
    let examination = Examination::of_this_host(&args.interface)?;
    match &args.json {
        Some(path) => output::write(path, &show::json(&examination)?)?,
        None => {
            let style = output::style();
            output::print(&show::text(&examination, Style { colour: style.colour, width: style.width }))?;
        }
    }
    Ok(if examination.is_usable() { exit::GOOD } else { exit::FINDINGS })
}
