//! `sidestep control`.

pub(super) mod background;

use crate::args::{Control as Args, HandOver};
use crate::{exit, output, signal};
use sidestep_control::Options;
use sidestep_control::permit::{HandOvers, Permit};
use sidestep_control_api::client::Client;
use sidestep_control_api::place;
use sidestep_sys::{Problem, interface};

pub(super) fn run(args: Args) -> Result<u8, Problem> {
    if args.cleanup {
        return cleanup();
    }
    if !args.release.is_empty() {
        return release(&args);
    }
    args.interface.iter().try_for_each(|name| interface::check(name))?;
    if args.background {
        let log = background::start(args.log.as_deref(), args.socket.as_deref())?;
        output::print(&format!("the control plane serves; its messages go to {}\n", log.display()))?;
        return Ok(exit::GOOD);
    }
    let hand_overs = match args.hand_over {
        HandOver::All => HandOvers::All,
        HandOver::Root => HandOvers::Root,
    };
    let permit = Permit::new(&args.allow_uid, &args.allow_gid)
        .with_queues_per_user(args.user_queues)
        .with_hand_overs(hand_overs)
        .with_tap_gids(&args.allow_tap_gid);
    let options =
        Options { interfaces: args.interface, permit, socket: args.socket, detaches_unused: args.detach_unused };
    let stop = signal::stop_flag()?;
    let serve = if args.end_unused { sidestep_control::run_while_used } else { sidestep_control::run };
    serve(&options, &stop).map(|()| exit::GOOD)
}

fn release(args: &Args) -> Result<u8, Problem> {
    args.release.iter().try_for_each(|name| interface::check(name))?;
    let path = args.socket.clone().map_or_else(place::socket, Ok)?;
    let mut client = Client::connect_to(&path, "sidestep control")?;
    for interface in &args.release {
        client.release(interface)?;
        output::print(&format!("detached from {interface}\n"))?;
    }
    Ok(exit::GOOD)
}

fn cleanup() -> Result<u8, Problem> {
    let text = match sidestep_control::cleanup()? {
        0 => "nothing was attached\n".to_owned(),
        1 => "detached from 1 interface\n".to_owned(),
        several => format!("detached from {several} interfaces\n"),
    };
    output::print(&text)?;
    Ok(exit::GOOD)
}
