//! `sidestep demo`: everything that can be measured here, in about a minute.

use super::measured::measure_within;
use crate::args::{Demo, Output};
use crate::exit;
use crate::output::{Outputs, unwritable};
use sidestep_bench::path::Path;
use sidestep_bench::run::{RoundTrips, Scenario};
use sidestep_bench::scenario::Rates;
use sidestep_bench::tick::{self, OrderForm, Profile, Work};
use sidestep_bench::transport::Transport;
use sidestep_sys::problem::{Problem, say};
use std::net::Ipv4Addr;
use std::time::Duration;

/// The time that is promised. A slow machine makes fewer rounds of the same slices in it.
const TIME: Duration = Duration::from_secs(60);
/// The paths of the round trips: those that a decision needs, so few that each has the eight rounds in a minute without which a path is
/// not compared with itself, and no factor is claimed (decision 38). A slice past the kernel takes a third of a second, most of it for the
/// kernel to attach and detach the program.
const OVER_TCP: [&str; 9] =
    ["kernel-default", "kernel-pinned", "kernel-spin", "uring-spin", "xdp", "run", "uds-spin", "shm", "floor"];
const OVER_UDP: [&str; 6] = ["kernel-default", "kernel-pinned", "kernel-spin", "uring-spin", "xdp-raw", "xdp"];
/// Shares of the minute: of a path, a rung, a path at one size, a path at one rate.
const TRIP: Duration = Duration::from_millis(2700);
const RUNG: Duration = Duration::from_millis(600);
const SIZE: Duration = Duration::from_millis(500);
const RATE: Duration = Duration::from_millis(250);
/// Sizes of the Solarflare and Arista paper's third exhibit, thinned.
const SIZES: [u32; 5] = [16, 64, 256, 1024, 1472];
const RATES: [f64; 7] = [10e3, 50e3, 100e3, 200e3, 400e3, 700e3, 1e6];
const GROUP: Ipv4Addr = Ipv4Addr::new(239, 192, 74, 11);
/// The group of the feed, and its ticks: so many that a slice of a tenth of a second has a median.
const FEED: Ipv4Addr = Ipv4Addr::new(239, 192, 74, 20);
const TICK: Duration = Duration::from_millis(2500);
const TRIGGER_EVERY: u64 = 50;
/// Instruments of the feed: a slice begins with their books.
const SYMBOLS: u32 = 500;

pub(super) fn run(args: &Demo) -> Result<u8, Problem> {
    let (json, html) = (args.out.join("result.json"), args.out.join("report.html"));
    std::fs::create_dir_all(&args.out).map_err(|error| unwritable(&args.out, error))?;
    let outputs = Outputs::prepare(Output { json: Some(json.clone()), html: Some(html.clone()), shown: args.shown })?;
    say("measuring for about a minute; after Ctrl-C the results so far are written");
    let result = measure_within(Some(TIME), &args.place, &scenarios()?, &outputs);
    if html.exists() {
        say(format_args!("report: {}", html.display()));
        say(format_args!("result: {}", json.display()));
    }
    result.map(|_| exit::GOOD)
}

fn scenarios() -> Result<Vec<Scenario>, Problem> {
    let polled: Vec<&'static Path> = vec![Path::named("kernel-pinned")?, Path::named("kernel-spin")?];
    let named = |paths: &[&str]| paths.iter().map(|path| Path::named(path)).collect::<Result<Vec<_>, _>>();
    let trips = |transport, paths| RoundTrips::of(vec![transport], paths, vec![64], TRIP);
    let streams = vec![Transport::Tcp, Transport::Udp];
    let sizes = RoundTrips { half: true, ..RoundTrips::of(streams, polled.clone(), SIZES.into(), SIZE) };
    let rates = Rates {
        transports: vec![Transport::Udp, Transport::Multicast],
        paths: polled,
        size: 24,
        rates: RATES.into(),
        until_behind: true,
        duration: RATE,
        reflect_every: None,
        batch: 1,
        group: GROUP,
    };
    let ticks = tick::Request {
        paths: named(&["kernel-spin", "xdp"])?,
        works: vec![Work::Book],
        forms: vec![OrderForm::Fix],
        lines: vec![1],
        speeds: vec![1],
        gaps_on_a: vec![0.0],
        profile: Profile::Steady,
        rate: 100_000,
        trigger_every: TRIGGER_EVERY,
        place: tick::Place::Any,
        messages_per_packet: 4,
        symbols: SYMBOLS,
        seed: 1,
        group: FEED,
        duration: TICK,
    };
    Ok(vec![
        Scenario::RoundTrips(trips(Transport::Tcp, named(&OVER_TCP)?)),
        Scenario::RoundTrips(trips(Transport::Udp, named(&OVER_UDP)?)),
        Scenario::Ladder { transport: Transport::Tcp, size: 64, duration: RUNG, pin_irq: false },
        Scenario::RoundTrips(sizes),
        Scenario::Rates(rates),
        Scenario::Tick(ticks),
    ])
}
