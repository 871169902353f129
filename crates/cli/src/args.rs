//! Every command and flag, defined once: help, completions and manual pages are made from this.

mod bench;
mod bench_fix;
mod bench_tick;
mod doctor;
mod fleet;
mod market;
mod market_feed;
mod market_files;
mod ring;
mod run;
pub(crate) mod tune;
pub(crate) mod tune_run;
pub(crate) mod tune_subject;
pub(crate) mod tune_verify;
mod watch;

use crate::values::{RunFiles, duration};
pub(crate) use bench::*;
pub(crate) use bench_fix::*;
pub(crate) use bench_tick::*;
use clap::{Args, Parser, Subcommand, ValueEnum};
pub(crate) use doctor::Doctor;
pub(crate) use fleet::{Fleet, FleetCompare};
pub(crate) use market::*;
pub(crate) use market_feed::*;
pub(crate) use market_files::*;
pub(crate) use ring::*;
pub(crate) use run::Run;
use sidestep_lab::MTU_USUAL;
use std::path::PathBuf;
use std::time::Duration;
pub(crate) use watch::Watch;

/// Low-latency networking for trading on stock Linux: measure, tune, bypass, trade.
#[derive(Debug, Parser)]
#[command(name = "sidestep", version, max_term_width = 100, after_help = AFTER_HELP)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const AFTER_HELP: &str = "\
With SIDESTEP_VERBOSE=1 the control planes of a measurement report what they attach and detach.

Exit codes: 0 good, 1 failed, 2 usage, 3 findings, 4 regression, 5 not enough data,
6 partly applied, 130 stopped by Ctrl-C or SIGTERM.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Measure this machine in about a minute, by its main paths; write report.html and result.json
    Demo(Demo),
    /// Measure latency
    #[command(subcommand)]
    Bench(Bench),
    /// Compare a result with an earlier one, row by row
    Compare(Compare),
    /// Say what works on this host, what is missing for each command, and the next step
    Doctor(Doctor),
    /// Compare many hosts by their results
    #[command(subcommand)]
    Fleet(Fleet),
    /// Show a result file again: as a table, or as a page
    Report(Report),
    /// Audit the latency settings of this host; apply and revert changes
    #[command(subcommand)]
    Tune(tune::Tune),
    /// Run an unmodified program with its sockets past the kernel
    Run(Run),
    /// Run the control plane of this network namespace, in the foreground
    Control(Control),
    /// List the accelerated sockets, and for the others the reason
    Ps(Ps),
    /// Show rates, round trips and paths of sockets and stacks, live
    Top(Top),
    /// Watch this host's latency all day, for Prometheus: small probes, hiccups, findings
    Watch(Box<Watch>),
    /// Manage labs: two hosts on this machine, network namespaces joined by a wire
    #[command(subcommand)]
    Lab(Lab),
    /// Read a ring in shared memory, without disturbing it; or packets, from rings that the kernel fills
    #[command(subcommand)]
    Ring(Ring),
    /// Run a FIX exchange or client, decode FIX messages, operate a FIX engine
    #[command(subcommand)]
    Fix(crate::args_fix::Fix),
    /// Watch, decode, record and replay market data; run an exchange to trade against
    #[command(subcommand)]
    Market(Market),
    /// Print shell completions
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write the manual pages
    Man {
        /// The folder to write to
        #[arg(default_value = "man")]
        folder: PathBuf,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Folder for report.html and result.json
    #[arg(long, default_value = ".", value_name = "FOLDER")]
    pub(crate) out: PathBuf,
    #[command(flatten)]
    pub(crate) shown: Shown,
    #[command(flatten)]
    pub(crate) place: Place,
}

#[derive(Debug, Args)]
pub(crate) struct Report {
    /// A result written by --json; `-` for standard input
    #[arg(value_name = "RESULT")]
    pub(crate) result: PathBuf,
    /// Write the page to this file, instead of the table; `-` for standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Print all tables, not only what was found
    #[arg(short, long)]
    pub(crate) verbose: bool,
}

#[derive(Debug, Args)]
#[command(after_help = COMPARE_HELP)]
pub(crate) struct Compare {
    /// The earlier result; or several of the same measurement (a1.json,a2.json,...), measured in turn with the later ones
    #[arg(required_unless_present = "run", conflicts_with = "run")]
    pub(crate) before: Option<RunFiles>,
    /// The later result; or several
    #[arg(required_unless_present = "run", conflicts_with = "run")]
    pub(crate) after: Option<RunFiles>,
    /// Run two commands in turn (A B B A ...) and compare their results. Each is run by /bin/sh with ` --json FILE` at its end, or with
    /// FILE in place of {}
    #[arg(long, num_args = 2, value_names = ["COMMAND_A", "COMMAND_B"])]
    pub(crate) run: Option<Vec<String>>,
    /// Rounds of --run; each runs either command once
    #[arg(long, value_name = "N", default_value_t = 10, requires = "run", value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub(crate) rounds: u32,
    /// Keep the result files of --run in this folder, which holds none yet [default: they are removed]
    #[arg(long, value_name = "FOLDER", requires = "run")]
    pub(crate) keep: Option<PathBuf>,
    /// Write the comparison as JSON; `-` for standard output, instead of the table
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

const COMPARE_HELP: &str = "\
Probabilities are corrected for the number of statistics in the table (Holm): of 20 tables of equal
runs at most one calls any of them better or worse. Of one run a side the difference from run to run
is not known, and a floor of 5 % in p50, 15 % in p99 and 50 % in p99.9 stands for it. \"would see\"
is the change that four of five such comparisons would find.

Exit codes: 4 something is worse, 5 nothing has enough data.";

#[derive(Debug, Args)]
pub(crate) struct Control {
    /// Serve these interfaces only, attached from start to end [default: any, attached from its first program to the
    /// end]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) interface: Vec<String>,
    /// User ids that may bypass the kernel, besides root [default: members of the group sidestep]
    #[arg(long, value_name = "UID", value_delimiter = ',')]
    pub(crate) allow_uid: Vec<u32>,
    /// Group ids whose members may bypass the kernel
    #[arg(long, value_name = "GID", value_delimiter = ',')]
    pub(crate) allow_gid: Vec<u32>,
    /// Group ids whose members may read any traffic of this host by feeds, without a socket that receives it. They need the right
    /// to use the control plane, too [default: root alone]
    #[arg(long, value_name = "GID", value_delimiter = ',')]
    pub(crate) allow_tap_gid: Vec<u32>,
    /// Queues of a device that each user except root may have [default: half of them; the last one is root's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) user_queues: Option<u32>,
    /// Users whose live TCP connections are handed over to the kernel. With `root`, connections of others end where the kernel
    /// would have to go on with them: see THREATS.md
    #[arg(long, value_enum, default_value_t = HandOver::All, value_name = "USERS")]
    pub(crate) hand_over: HandOver,
    /// Detach from an interface when its last stack closes, not only at the end. Some devices drop their link at each change
    #[arg(long)]
    pub(crate) detach_unused: bool,
    /// Path of the socket to listen on [default: control.sock in /run/sidestep/net-INODE, with the inode of the network
    /// namespace]
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
    /// End when no program has used it for 10 seconds
    #[arg(long)]
    pub(crate) end_unused: bool,
    /// Go into the background once it serves, or say why it does not
    #[arg(long)]
    pub(crate) background: bool,
    /// With --background: the file for its messages [default: control-INODE.log in /run/sidestep]
    #[arg(long, value_name = "FILE", requires = "background")]
    pub(crate) log: Option<PathBuf>,
    /// Detach everything that a killed control plane has left attached, and exit
    #[arg(long, conflicts_with_all = ["interface", "allow_uid", "allow_gid", "allow_tap_gid", "user_queues", "hand_over", "detach_unused", "socket",
          "end_unused", "background"])]
    pub(crate) cleanup: bool,
    /// Make the running control plane detach from these interfaces, and exit. No stack may use them
    #[arg(long, value_name = "NAME", value_delimiter = ',',
          conflicts_with_all = ["interface", "allow_uid", "allow_gid", "allow_tap_gid", "user_queues", "hand_over", "detach_unused", "cleanup",
          "end_unused", "background"])]
    pub(crate) release: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum HandOver {
    /// All who may bypass the kernel
    All,
    /// Root alone
    Root,
}

#[derive(Debug, Args)]
pub(crate) struct Ps {
    /// Programs to list: process ids, or parts of names; all if omitted
    #[arg(value_name = "PID|NAME")]
    pub(crate) filter: Vec<String>,
    /// Socket of the control plane
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
    /// Hand the connections of a process over to the kernel, which carries its sockets from then on
    #[arg(long, value_name = "PID", conflicts_with = "filter")]
    pub(crate) release: Option<u32>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Top {
    /// Programs to show: process ids, or parts of names; all if omitted
    #[arg(value_name = "PID|NAME")]
    pub(crate) filter: Vec<String>,
    /// Socket of the control plane
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
    /// Time between two samples
    #[arg(long, default_value = "1s", value_name = "TIME", value_parser = duration)]
    pub(crate) interval: Duration,
    /// Print one sample as text, and exit
    #[arg(long)]
    pub(crate) once: bool,
    /// Print JSON, one line per sample
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Lab {
    /// Create a lab that stays until `lab down`
    Up(LabUp),
    /// Remove a lab
    Down {
        /// The lab; may be omitted when there is only one
        name: Option<String>,
        /// Remove it even while a process runs inside
        #[arg(long)]
        force: bool,
    },
    /// Run a command on one of the hosts
    Exec(LabExec),
    /// List the labs of this machine
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Run the impaired wire of a lab
    #[command(hide = true)]
    Wire { name: String },
}

#[derive(Debug, Args)]
pub(crate) struct LabUp {
    /// Name of the lab [default: a new one]
    pub(crate) name: Option<String>,
    /// Switch offloads off, so that every frame carries its true checksum, as on a cable
    #[arg(long)]
    pub(crate) true_checksums: bool,
    /// Transmit and receive queues of each end
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) queues: u32,
    /// The longest IP packet that the wire carries in one frame, bytes
    #[arg(long, default_value_t = MTU_USUAL, value_name = "BYTES")]
    pub(crate) mtu: u32,
    /// Impair the wire in both directions: loss=1%,delay=5ms,jitter=1ms,reorder=2%,gap=1ms,duplicate=1%,corrupt=0.1%,
    /// rate=100mbit,seed=7
    #[arg(long, value_name = "SPEC")]
    pub(crate) impair: Option<String>,
    /// Impair the direction from b to a differently
    #[arg(long, value_name = "SPEC")]
    pub(crate) impair_back: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct LabExec {
    /// The lab; may be omitted when there is only one
    #[arg(long, value_name = "NAME")]
    pub(crate) lab: Option<String>,
    /// The host
    #[arg(value_enum)]
    pub(crate) host: HostKind,
    /// The command and its arguments
    #[arg(required = true, last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<std::ffi::OsString>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum HostKind {
    /// 198.18.0.1
    A,
    /// 198.18.0.2
    B,
}
