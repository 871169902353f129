//! `sidestep market exchange`.

use super::super::fix::apply_thread_options;
use crate::args::{LoadProfile, MarketExchange as Args};
use crate::{exit, output, signal};
use serde_json::{Value, json};
use sidestep_fix::engine::Endpoint;
use sidestep_sys::problem::say;
use sidestep_sys::{Problem, file};
use sidestep_venue::exchange::DaySettings;
use sidestep_venue::load::{Fault, LoadSettings, Profile, Recording, RecordingSettings};
use sidestep_venue::matching::Limits;
use sidestep_venue::ouch::OuchSettings;
use sidestep_venue::run::{Exchange, ReadAhead, Settings, Stats};
use std::fmt::Display;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Orders of clients that have room beside the load's.
const CLIENT_ORDERS: u64 = 500_000;

pub(super) fn run(args: &Args) -> Result<u8, Problem> {
    let stop = signal::stop_flag()?;
    let (idle, _) = apply_thread_options(&args.thread)?;
    let settings = Settings { idle, ..settings(args)? };
    let mut exchange = match &args.profile {
        LoadProfile::Replay(path) => Exchange::open_recorded(&settings, recording(path, args)?)?,
        _ if args.from.is_some() => return Err(from_without_recording()),
        _ => Exchange::open(&settings)?,
    };
    // With JSON on standard output nothing else goes there.
    let is_json = args.json.as_deref() == Some(Path::new("-"));
    for (name, place) in exchange.places() {
        let line = format!("{name} {place}\n");
        if is_json { say(line.trim_end()) } else { output::print(&line)? }
    }
    exchange.run(&stop, args.duration);
    let stats = exchange.stats();
    if let Some(file) = &args.json {
        let text = format!("{:#}\n", document(&stats));
        if is_json { output::print(&text)? } else { output::write(file, &text)? }
    }
    say(summary(&stats));
    match (exchange.fault(), &args.profile) {
        (Some(fault), LoadProfile::Replay(path)) => Err(faulty(path, fault)),
        _ => Ok(exit::GOOD),
    }
}

/// Opens a recording; standard input for `-`.
fn recording(path: &Path, args: &Args) -> Result<Recording, Problem> {
    let settings = RecordingSettings { speed: args.speed, from_ns: args.from, ..RecordingSettings::default() };
    let mut bytes = if path == Path::new("-") {
        ReadAhead::start(io::stdin())?
    } else {
        let why = |error| unreadable(path, &error, "name a file that you may read, or replay:- for standard input");
        ReadAhead::start(file::open(path).map_err(why)?)?
    };
    bytes.wait().map_err(|error| unreadable(path, &error, "name a file of messages (BinaryFILE)"))?;
    let mut recording = Recording::new(Box::new(bytes), &settings);
    recording.check().map_err(|fault| faulty(path, &fault))?;
    Ok(recording)
}

fn unreadable(path: &Path, why: &dyn Display, next: &str) -> Problem {
    Problem::failed(format!("cannot replay {}", path.display()), why).next(next)
}

fn faulty(path: &Path, fault: &Fault) -> Problem {
    unreadable(path, fault, &fault.next(&path.display().to_string()))
}

fn from_without_recording() -> Problem {
    Problem::usage("--from", "the load is made, and has no times of a day").next("add --profile replay:FILE")
}

fn settings(args: &Args) -> Result<Settings, Problem> {
    let profile = match args.profile {
        // A recording has its own times.
        LoadProfile::Steady | LoadProfile::Replay(_) => Profile::Steady,
        LoadProfile::Open => Profile::Open { burst_ns: args.burst.as_nanos() as u64 },
        LoadProfile::Sparse => Profile::Sparse,
    };
    let (symbols, live_orders) = (args.symbols as usize, args.live_orders as usize);
    let load_orders = match args.profile {
        LoadProfile::Replay(_) => RecordingSettings::default().orders as u64,
        // An instrument may have half as many orders again as it aims at.
        _ => 2 * (args.live_orders + 16 * u64::from(args.symbols)),
    };
    let orders = load_orders + CLIENT_ORDERS;
    let day = DaySettings {
        load: LoadSettings { seed: args.seed, symbols, live_orders },
        profile,
        rate: args.rate,
        speed: args.speed,
        history: args.history as usize,
        limits: Limits { orders: orders as usize, ..Limits::default() },
    };
    let host = if args.interface == "lo" { "127.0.0.1" } else { "0.0.0.0" };
    let endpoint = |text: &str| Endpoint::parse(&with_host(text, host));
    Ok(Settings {
        day,
        session: session(SystemTime::now()),
        interface: args.interface.clone(),
        groups: [Some(args.group_a), Some(args.group_b)],
        ttl: args.ttl,
        messages_per_packet: args.messages_per_packet,
        loss_ppm: [args.loss_a, args.loss_b],
        rerequest: Some(rerequest(&args.rerequest, host)?),
        glimpse: Some(endpoint(&args.glimpse)?),
        ouch: Some(endpoint(&args.ouch)?),
        ouch_settings: OuchSettings { cancel_on_disconnect: args.cancel_on_disconnect, password: None },
        fix: args.fix.as_deref().map(endpoint).transpose()?,
        idle: sidestep_sys::idle::IdleStrategy::PARK,
    })
}

/// The session of MoldUDP64 and SoupBinTCP: another one for each start, so that nobody goes on with numbers of the last one.
fn session(now: SystemTime) -> [u8; 10] {
    let seconds = now.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let mut name = [b'S'; 10];
    name[1..].copy_from_slice(format!("{:09}", seconds % 1_000_000_000).as_bytes());
    name
}

/// A port alone is one of `host`.
fn with_host(text: &str, host: &str) -> String {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { format!("{host}:{text}") } else { text.to_owned() }
}

fn rerequest(text: &str, host: &str) -> Result<SocketAddr, Problem> {
    with_host(text, host)
        .parse()
        .map_err(|error| Problem::usage(format!("--rerequest {text}"), error).next("write a port, or ADDRESS:PORT"))
}

/// One line for people.
fn summary(stats: &Stats) -> String {
    let Stats { messages, totals, live, late_max_ns, .. } = stats;
    let seconds = stats.elapsed_ns as f64 / 1e9;
    let failed: u64 = stats.lines.iter().map(|line| line.failed).sum();
    let mut text = format!("{messages} messages in {seconds:.1} s, {} trades, {live} live orders", totals.trades);
    if *late_max_ns > 1_000_000 {
        text.push_str(&format!(", the load was up to {:.0} ms late", *late_max_ns as f64 / 1e6));
    }
    if let Some(recording) = stats.recording {
        text.push_str(&format!(", {} recorded messages", recording.messages));
        if recording.skipped.total() > 0 {
            text.push_str(&format!(", skipped: {}", recording.skipped));
        }
    }
    if failed > 0 {
        let why = stats.lines.iter().find_map(|line| line.last_error.as_deref()).unwrap_or_default();
        text.push_str(&format!(", {failed} datagrams were not sent: {why}"));
    }
    text
}

fn document(stats: &Stats) -> Value {
    let totals = &stats.totals;
    let lines = stats.lines.iter().map(|line| {
        json!({
            "group": line.group.to_string(),
            "datagrams": line.counters.datagrams,
            "heartbeats": line.counters.heartbeats,
            "messages": line.counters.messages,
            "dropped": line.counters.dropped,
            "not_sent": line.failed,
        })
    });
    json!({
        "elapsed_ns": stats.elapsed_ns,
        "messages": stats.messages,
        "load_messages": stats.load,
        "load_late_max_ns": stats.late_max_ns,
        "recording": stats.recording.map(|counters| json!({
            "messages": counters.messages,
            "skipped": {
                "unknown_reference": counters.skipped.unknown,
                "known_reference": counters.skipped.known,
                "crossing": counters.skipped.crossing,
                "full": counters.skipped.full,
                "refused": counters.skipped.refused,
                "taken_by_clients": counters.skipped.taken,
            },
        })),
        "live_orders": stats.live,
        "orders": {
            "accepted": totals.accepted,
            "refused": totals.refused,
            "filled": totals.filled,
            "cancelled": totals.cancelled,
            "trades": totals.trades,
            "shares_accepted": totals.shares_accepted,
            "shares_filled": totals.shares_filled,
            "shares_cancelled": totals.shares_cancelled,
        },
        "lines": lines.collect::<Vec<_>>(),
        "rerequests": stats.rerequest.map(|counters| json!({
            "answered": counters.answered,
            "messages": counters.messages,
            "malformed": counters.malformed,
            "other_session": counters.other_session,
            "out_of_range": counters.out_of_range,
            "limited": counters.limited,
        })),
        "glimpse": stats.glimpse.map(|counters| json!({
            "connections": counters.connections,
            "turned_away": counters.turned_away,
            "refused": counters.refused,
            "snapshots": counters.snapshots,
            "slow": counters.slow,
        })),
        "ouch": stats.ouch.map(|(counters, connections)| json!({
            "connections_now": connections,
            "connections": counters.connections,
            "turned_away": counters.turned_away,
            "logins": counters.logins,
            "refused": counters.refused,
            "messages": counters.messages,
            "malformed": counters.malformed,
            "answers": counters.answers,
            "garbage": counters.garbage,
            "slow": counters.slow,
        })),
        "fix": stats.fix.map(|counters| json!({
            "requests": counters.requests,
            "reports": counters.reports,
            "dropped": counters.dropped,
            "live": counters.live,
        })),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_on_the_host_of_the_interface_and_a_session_has_ten_characters() {
        assert_eq!(with_host("26401", "127.0.0.1"), "127.0.0.1:26401");
        assert_eq!(with_host("unix:/tmp/ouch", "127.0.0.1"), "unix:/tmp/ouch");
        assert_eq!(rerequest("1", "0.0.0.0").unwrap(), "0.0.0.0:1".parse().unwrap());
        assert_eq!(&session(UNIX_EPOCH + std::time::Duration::from_secs(7_000_000_012)), b"S000000012");
        assert!(rerequest("unix:/tmp/x", "0.0.0.0").unwrap_err().to_string().contains("ADDRESS:PORT"));
    }
}
