//! sidestep's ring beside those of others: one harness, one run, one report.
//!
//! `sidestep-peers-ring [JSON] [HTML] [SIZES] [DURATION] [PACE]`; see `peers/ring/run`.

mod absent;
#[cfg(feature = "aeron")]
mod aeron;
#[cfg(feature = "boost")]
mod boost;
mod by_size;
mod crossbeam;
#[cfg(feature = "iceoryx2")]
mod iceoryx;
mod rtrb;

use sidestep_bench::ring::{Contestant, FAR_COMMAND, Load, Request, Setting, channels, far_process, run};
use sidestep_bench::run::this_program;
use sidestep_bench::scenario::Silent;
use sidestep_report::terminal::Style;
use sidestep_report::{html, json, terminal};
use sidestep_sys::clock::Choice;
use sidestep_sys::problem::{Problem, say};
use std::process::ExitCode;

/// Ours that stand beside the others; what blocks is measured by `sidestep bench ring`.
const OURS: [&str; 6] = ["floor", "floor-each-way", "ring", "ring-small", "ring-shm", "ring-broadcast"];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments.strip_prefix(&FAR_COMMAND.map(String::from)[..]) {
        Some(job) => far_process(job),
        None => measure(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            say(problem);
            ExitCode::FAILURE
        }
    }
}

fn measure(arguments: &[String]) -> Result<(), Problem> {
    let of = |index: usize, default: &str| arguments.get(index).map_or(default.to_owned(), Clone::clone);
    let (json_path, html_path) = (of(0, "ring-peers.json"), of(1, "ring-peers.html"));
    let request = request(&of(2, "8,48,64,256"), &of(3, "1s"), &of(4, "hot"))?;
    let setting = Setting {
        clock: Choice::Auto,
        client_cpu: None,
        server_cpu: None,
        stop: Default::default(),
        command: std::iter::once("peers/ring/run".to_owned())
            .chain(arguments.iter().skip(2).cloned())
            .collect::<Vec<_>>()
            .join(" "),
    };
    let outcome = run(&setting, &request, &contestants()?, &mut Silent)?;
    print!("{}", terminal::render(&outcome.document, Style { colour: false, width: 120 }));
    for (path, text) in [(json_path, json::to_string(&outcome.document)), (html_path, html::render(&outcome.document))]
    {
        std::fs::write(&path, text).map_err(|error| Problem::failed(format!("cannot write {path}"), error))?;
    }
    outcome.problem.map_or(Ok(()), Err)
}

fn request(sizes: &str, duration: &str, pace: &str) -> Result<Request, Problem> {
    let wrong =
        |what: &str| Problem::usage(format!("cannot read {what:?}"), "sizes like 8,64; a time like 1s; hot or 1us");
    let time = |text: &str| humantime::parse_duration(text).map_err(|_| wrong(text));
    let load = |one: &str| if one == "hot" { Ok(Load::ClosedLoop) } else { time(one).map(Load::Paced) };
    let mut loads: Vec<Load> = pace.split(',').map(load).collect::<Result<_, _>>()?;
    loads.push(Load::Stream);
    let sizes = sizes.split(',').map(|size| size.parse().map_err(|_| wrong(size))).collect::<Result<_, _>>()?;
    Ok(Request { sizes, loads, duration: time(duration)?, ring_bytes: room_bytes() })
}

/// Room of a ring, bytes; `ROOM_KIB` in the environment changes it.
fn room_bytes() -> usize {
    std::env::var("ROOM_KIB").ok().and_then(|text| text.parse::<usize>().ok()).unwrap_or(64) << 10
}

fn contestants() -> Result<Vec<Box<dyn Contestant>>, Problem> {
    let mut all = channels::all(this_program());
    all.retain(|one| OURS.contains(&one.name()));
    all.extend(rtrb::all());
    all.extend(crossbeam::all());
    #[cfg(feature = "boost")]
    all.extend(boost::all());
    #[cfg(feature = "iceoryx2")]
    all.extend(iceoryx::all());
    #[cfg(feature = "aeron")]
    all.extend(aeron::all()?);
    all.extend(absent::all());
    if let Ok(only) = std::env::var("ONLY") {
        all.retain(|one| only.split(',').any(|name| name == one.name()));
    }
    Ok(all)
}
