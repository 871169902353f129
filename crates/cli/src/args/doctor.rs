//! Flags of `sidestep doctor`.

use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct Doctor {
    /// Look at these interfaces only [default: all but loopback]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) interface: Vec<String>,
    /// Write the checks as JSON; `-` for standard output, instead of the text
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

const HELP: &str = "\
It reads, and tries in ways that leave nothing behind: sockets on loopback, memory and files without
names, and, with the rights to make one, a network namespace without a name, in which a frame goes
past the kernel. No interface of the host is touched. What would need that is said with the command
that does it.

ok: it works; partly: it works in part, or worse than it could; missing: it does not work. A file
system concerns the working directory: run it where journals will be.

Exit codes: 0 every verb works for this user, at least in part; 3 one does not.";
