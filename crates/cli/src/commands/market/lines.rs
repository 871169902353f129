//! What the flags say about the lines of a feed, and where what they leave out comes from.

use crate::args::{FeedLines, Recovery};
use sidestep_feed_handler::{ChannelOptions, LineOptions, Lines, Options, SnapshotServer};
use sidestep_market::feed::Join;
use sidestep_market::soup::{Password, UserName};
use sidestep_market::units::Alpha;
use sidestep_sys::idle::IdleStrategy;
use sidestep_sys::problem::note;
use sidestep_sys::{Problem, cpu, file};

/// A password has ten letters, and its file perhaps an end of line.
const PASSWORD_FILE_MAX: u64 = 4096;

/// The options of the lines' sockets.
pub(super) fn line_options(flags: &FeedLines) -> LineOptions {
    LineOptions { accelerate: !flags.by_kernel, control: flags.socket.clone(), ..LineOptions::default() }
}

/// The options of a handler.
pub(super) fn options(flags: &FeedLines, recovery: &Recovery) -> Result<Options, Problem> {
    let mut channel = ChannelOptions::default();
    channel.policy.gap_wait_ns = recovery.gap_wait.as_nanos() as u64;
    let has_source = !recovery.rerequest.is_empty() || recovery.glimpse.is_some();
    // Without a source what came before would be missed for ever.
    channel.policy.join = if has_source { Join::Beginning } else { Join::FirstSeen };
    Ok(Options {
        line: line_options(flags),
        rerequest: recovery.rerequest.clone(),
        snapshot: snapshot(recovery)?,
        channel,
        ..Options::of(flags.line.iter().cloned())
    })
}

fn snapshot(recovery: &Recovery) -> Result<Option<SnapshotServer>, Problem> {
    let Some(endpoint) = &recovery.glimpse else { return Ok(None) };
    let wrong = |what: &str, next: &str| Problem::usage("cannot log in to the snapshot server", what).next(next);
    let password = match &recovery.password_file {
        None => String::new(),
        Some(path) => file::read_text(path, PASSWORD_FILE_MAX).map_err(|error| {
            wrong(&format!("cannot read {}: {error}", path.display()), "name a file that you may read")
        })?,
    };
    let user = UserName::new(&recovery.user)
        .ok_or_else(|| wrong("a user's name has at most 6 letters", "give the name that the venue has assigned"))?;
    let password = Alpha::new(password.trim_end_matches(['\n', '\r']))
        .map(Password)
        .ok_or_else(|| wrong("a password has at most 10 letters", "put the password alone into the file"))?;
    Ok(Some(SnapshotServer { user, password, ..SnapshotServer::at(endpoint.clone()) }))
}

/// Pins this thread as the flags say, and returns how it idles.
pub(super) fn apply_thread(flags: &FeedLines) -> Result<IdleStrategy, Problem> {
    if let Some(cpu) = flags.cpu {
        cpu::check(cpu)?;
        cpu::restrict(&[cpu])?;
    }
    Ok(if flags.spin { IdleStrategy::SPIN } else { IdleStrategy::SPIN_THEN_PARK })
}

/// Says which lines the kernel carries, and why.
pub(super) fn tell_paths(lines: &Lines) {
    lines.by_kernel().for_each(note);
}
