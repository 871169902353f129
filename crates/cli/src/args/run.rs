//! The flags of `sidestep run`, made from the table of options.

use clap::{Arg, ArgMatches, Args, Command, Error, FromArgMatches};
use sidestep_unmodified::options::{OptionRow, TABLE};
use std::ffi::OsString;

const AFTER_HELP: &str = "Each option can be set by a profile and by an environment variable, too: docs/run-options.md.

The exit code is the program's; 125: sidestep run failed, 126: the program cannot be started,
127: there is no such program.";

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) options: OptionFlags,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// The options that were given as flags: name and text.
#[derive(Debug, Default)]
pub(crate) struct OptionFlags(pub(crate) Vec<(&'static str, String)>);

impl Args for OptionFlags {
    fn augment_args(command: Command) -> Command {
        TABLE.iter().fold(command, |command, row| command.arg(flag(row)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for OptionFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let given = TABLE.iter().filter_map(|row| Some((row.name, matches.get_one::<String>(row.name)?.clone())));
        Ok(Self(given.collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn flag(row: &OptionRow) -> Arg {
    let default = row.default_text();
    let help = format!("{} Values: {}", row.help, row.accepted());
    let flag = Arg::new(row.name).long(row.flag()).value_name(value_name(row)).help(help.clone());
    match default.as_str() {
        // A switch: its value may be left out.
        "false" => flag
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true")
            .help(row.help)
            .hide_possible_values(true),
        _ => flag.help(format!("{help} [default: {default}]")),
    }
}

fn value_name(row: &OptionRow) -> &'static str {
    match row.name {
        "profile" => "PROFILE",
        "interface" => "NAME",
        "queues" => "QUEUES",
        "accelerate" => "RULES",
        "tcp" | "log" => "FILE",
        _ if row.range.greatest > 0 => "N",
        _ => "VALUE",
    }
}
