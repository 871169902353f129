//! `sidestep fleet`.

use crate::args::{Fleet as Args, FleetCompare};
use crate::{exit, output};
use sidestep_bench::fleet::{Fleet, gather, text};
use sidestep_sys::Problem;
use std::fs;
use std::path::Path;

pub(super) fn run(args: &Args) -> Result<u8, Problem> {
    let Args::Compare(args) = args;
    compare(args)
}

fn compare(args: &FleetCompare) -> Result<u8, Problem> {
    args.json.as_deref().map_or(Ok(()), |output| check_output(output, &args.folder))?;
    let found = gather(&args.folder)?;
    let fleet = Fleet::of(found, args.baseline.as_deref())?;
    match &args.json {
        Some(path) => {
            let text = serde_json::to_string_pretty(&fleet).map_err(|error| {
                Problem::failed("cannot write the comparison", error).next("leave --json out to see it as text")
            })?;
            output::write(path, &(text + "\n"))?;
        }
        None => output::print(&text::render(&fleet, args.all, output::style().width))?,
    }
    if let Some(first) = fleet.left_out.first() {
        let what = format!("left out {} of the files", fleet.left_out.len());
        return Err(Problem::failed(what, format!("{}: {}", first.file, first.reason))
            .next("copy or measure them again, or take them out of the folder"));
    }
    Ok(match () {
        () if fleet.has_regression() => exit::REGRESSION,
        () if fleet.has_outlier() => exit::FINDINGS,
        () if fleet.lacks_data() => exit::NOT_ENOUGH_DATA,
        () => exit::GOOD,
    })
}

/// Refuses to write the comparison where the next one would find it among the results.
fn check_output(output: &Path, folder: &Path) -> Result<(), Problem> {
    let parent = output.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let (Ok(parent), Ok(folder)) = (fs::canonicalize(parent), fs::canonicalize(folder)) else { return Ok(()) };
    let is_found = parent == folder || parent.parent() == Some(&folder);
    if is_found && output.extension().is_some_and(|ending| ending == "json") {
        let what = format!("cannot write the comparison to {}", output.display());
        let why = "it would be among the results of the folder";
        return Err(Problem::usage(what, why).next("name a file elsewhere: --json FILE"));
    }
    Ok(())
}
