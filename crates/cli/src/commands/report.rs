//! `sidestep report`.

use crate::args;
use crate::exit;
use crate::output::{self, Outputs};
use sidestep_report::terminal::{self, Style};
use sidestep_report::{html, json};
use sidestep_sys::Problem;

pub(super) fn run(args: &args::Report) -> Result<u8, Problem> {
    if let Some(page) = args.html.as_ref().filter(|page| output::is_same(&args.result, page)) {
        let what = format!("cannot write the page to {}", page.display());
        return Err(Problem::usage(what, "it is the result to be shown").next("name another file: --html FILE"));
    }
    Outputs::prepare(args::Output { html: args.html.clone(), ..args::Output::default() })?;
    let document = json::read(&args.result)?;
    match &args.html {
        Some(path) => output::write(path, &html::render(&document))?,
        None => output::print(&terminal::render(&document, Style { verbose: args.verbose, ..output::style() }))?,
    }
    Ok(exit::GOOD)
}
