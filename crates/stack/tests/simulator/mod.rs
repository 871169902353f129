//! A deterministic simulator: two of our stacks, a link that does everything a network does, applications that do everything
//! a program does, in virtual time. One seed is one schedule; the same seed is the same schedule on every machine.
//!
//! What is checked: every byte that is sent, sent again, or delivered, against the stream it belongs to; at every step the
//! invariants of `Tcp::audit`; on the link that windows are kept, edges and acknowledgements never go back, reports are of what was
//! sent; that damaged segments are not believed; that everything comes to its end in bounded virtual time, and leaves nothing.
#![allow(dead_code, unreachable_pub, reason = "each user takes its part")]

pub mod app;
pub mod dice;
pub mod hand_over;
pub mod hostile;
pub mod link;
pub mod plan;
pub mod stranger;
pub mod stream;
pub mod watch;
pub mod world;

use dice::Dice;
use hand_over::{HandOver, HandOvers};
use plan::{Plan, SECOND};
use sidestep_stack::tcp::{Counter, Tcp};
use world::World;

/// Steps of one schedule: beyond it two stacks talk for ever. The longest of the first 100 000 seeds takes 90 091.
const STEPS_MAX: u64 = 400_000;
/// From the link's recovery to the end of all transfers: fifteen retransmissions of a slow host fit in it.
const FINISH_NS: u64 = 1500 * SECOND;
/// From the last close to nothing being left.
const VANISH_NS: u64 = 4000 * SECOND;

/// A host that holds so many in TIME-WAIT closes none of them early.
const WAITING_MANY: u32 = 100;

/// What one schedule was.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub segments: u64,
    pub steps: u64,
    pub bytes: u64,
    pub dropped: u64,
    pub retransmitted: u64,
    pub connections: u64,
    /// Segments that took the fast path; those of them after which something could leave; messages that did.
    pub fast_path_counts: [u64; 3],
    /// Of every segment sent, and, where that is compared, of what the hosts have counted and know.
    pub digest: u64,
}

/// Runs the schedule of `seed`. `Err`: the invariant that was violated.
pub fn run(seed: u64, is_traced: bool) -> Result<Tally, String> {
    run_on(seed, is_traced, None)
}

/// The same, to be compared: with or without the fast path.
pub fn run_on(seed: u64, is_traced: bool, fast_path: Option<bool>) -> Result<Tally, String> {
    let mut dice = Dice::Seed(seed);
    let plan = Plan::new(&mut dice);
    if is_traced {
        eprintln!("hosts {:#?}\nlinks {:#?}", plan.configs, plan.links);
        plan.pairs
            .iter()
            .for_each(|pair| eprintln!("opened by {} at {} ns: {:#?}", pair.opener, pair.start_ns, pair.apps));
    }
    let mut world = World::new(dice, plan, is_traced)?;
    world.is_compared = fast_path.is_some();
    if fast_path == Some(false) {
        world.tcps.iter_mut().for_each(Tcp::disable_fast_path);
    }
    finish(&mut world)?;
    Ok(tally(&world))
}

/// Lets everything come to its end, and looks whether it was the right one.
fn finish(world: &mut World<'_>) -> Result<(), String> {
    let end_ns = world.now_ns + world.plan.heal_ns + FINISH_NS;
    let is_over = |world: &World<'_>| world.pairs.iter().all(|pair| pair.apps.iter().all(app::App::is_done));
    while !is_over(world) && go(world, end_ns)? {}
    judge(world)?;
    world.close_all()?;
    let end_ns = world.now_ns + VANISH_NS;
    while go(world, end_ns)? {}
    vanished(world)
}

/// Runs the schedule of `seed` with hand-overs in it.
pub fn run_with_hand_overs(seed: u64, is_traced: bool) -> Result<(Tally, HandOvers), String> {
    let mut dice = Dice::Seed(seed);
    let plan = Plan::new(&mut dice);
    // A stateless listener would take a late segment for a new connection's while its end is out of service.
    if plan.has_cookies {
        return Ok(Default::default());
    }
    let mut world = World::new(dice, plan, is_traced)?;
    let mut dice = Dice::Seed(!seed);
    world.hand_overs = HandOver::plan(&mut dice, world.pairs.len(), world.now_ns);
    finish(&mut world)?;
    Ok((tally(&world), world.seen_hand_overs))
}

fn go(world: &mut World<'_>, end_ns: u64) -> Result<bool, String> {
    let went = world.step(end_ns).map_err(|fault| format!("at {} us: {fault}", world.now_ns / 1000))?;
    if world.steps > STEPS_MAX {
        return Err(format!("no rest after {STEPS_MAX} steps, {} segments", world.wire.segments));
    }
    Ok(went)
}

/// Whether everything has arrived that had to.
fn judge(world: &World<'_>) -> Result<(), String> {
    for (number, pair) in world.pairs.iter().enumerate() {
        let [first, second] = &pair.apps;
        for (side, app, peer) in [(0, first, second), (1, second, first)] {
            let story = format!(
                "connection {number} host {side}: sent {} of {}, received {} of {}, shut {} finished {} closed {} error {:?}",
                app.sent,
                app.plan.total,
                app.received,
                peer.plan.total,
                app.is_shut,
                app.is_finished,
                app.is_closed,
                app.error
            );
            if app.received > peer.sent {
                return Err(format!("{story}: more than was sent"));
            }
            let is_excused = app.is_cut_short || peer.is_cut_short || world.plan.has_cookies;
            // Without TIME-WAIT a FIN whose ACK was lost is answered by a RST.
            let may_fail = is_excused || world.plan.configs.iter().any(|config| config.time_wait_max < WAITING_MANY);
            if app.error.is_some() && !may_fail && world.plan.is_orderly {
                return Err(format!("{story}: an error without a reason"));
            }
            let is_whole = app.error.is_none() && !app.is_cut_short;
            if app.is_finished && is_whole && (app.received != peer.sent || !peer.is_shut && !peer.is_closed) {
                return Err(format!("{story}: the stream has ended before its end"));
            }
            let is_there = app.is_closed && app.received == peer.plan.total;
            if world.plan.is_orderly && !is_excused && !is_there {
                return Err(format!("{story}: it stands still"));
            }
        }
    }
    Ok(())
}

fn vanished(world: &World<'_>) -> Result<(), String> {
    for (side, tcp) in world.tcps.iter().enumerate() {
        if tcp.connections() != (0, 0) {
            return Err(format!("host {side} keeps {:?} connections for ever", tcp.connections()));
        }
        if tcp.next_poll().is_some() {
            return Err(format!("host {side} has a timer for nothing"));
        }
    }
    Ok(())
}

fn tally(world: &World<'_>) -> Tally {
    let received = world.pairs.iter().flat_map(|pair| &pair.apps).map(|app| app.received as u64).sum();
    let count = |counter| world.tcps.iter().map(|tcp| tcp.counters().value(counter)).sum();
    Tally {
        segments: world.wire.segments,
        steps: world.steps,
        bytes: received,
        dropped: world.wire.links.iter().map(|link| link.dropped).sum(),
        retransmitted: count(Counter::Retransmitted),
        connections: world.pairs.len() as u64,
        fast_path_counts: [0, 1, 2].map(|kind| world.tcps.iter().map(|tcp| tcp.fast_path_counts()[kind]).sum()),
        digest: world.wire.digest,
    }
}
