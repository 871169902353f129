//! `sidestep control`.

use crate::args::Control as Args;
use crate::{exit, output, signal};
use sidestep_control::Options;
use sidestep_control::permit::Permit;
use sidestep_sys::Problem;

pub(super) fn run(args: Args) -> Result<u8, Problem> {
    if args.cleanup {
        return cleanup();
    }
    let permit = Permit::new(&args.allow_uid, &args.allow_gid).with_queues_per_user(args.user_queues);
    let options = Options { interfaces: args.interface, permit, socket: args.socket };
    sidestep_control::run(&options, &*signal::stop_flag()?).map(|()| exit::GOOD)
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
