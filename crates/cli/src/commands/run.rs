//! `sidestep run`: makes an unmodified program use our stack, and becomes it.

use crate::args::Run as Args;
use crate::exit;
use sidestep_control_api::client::{Client, Error};
use sidestep_control_api::place;
use sidestep_sys::problem::say;
use sidestep_sys::process::is_root;
use sidestep_sys::{Problem, broken_pipe};
use sidestep_unmodified::library::{self, LD_PRELOAD};
use sidestep_unmodified::options::{IoUring, Settings};
use sidestep_unmodified::program::{NotFound, Obstacle, Program};
use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Replaces this process by the program. Returns only if that fails.
pub(super) fn run(args: &Args) -> Result<u8, Problem> {
    let (name, rest) = args.command.split_first().expect("clap asks for a command");
    let program = match Program::find(name, std::env::var_os("PATH").as_deref()) {
        Ok(program) => program,
        Err(reason) => return Ok(not_found(name, &reason)),
    };
    match prepare(args, &program) {
        Ok(prepared) => Ok(replace(name, &program, rest, prepared)),
        Err(problem) => {
            say(&problem);
            Ok(exit::RUN_FAILED)
        }
    }
}

fn not_found(name: &OsStr, reason: &NotFound) -> u8 {
    let what = format!("cannot start {}", name.display());
    match reason {
        NotFound::Missing => {
            say(Problem::failed(what, "there is no such program").next("check its name, and PATH"));
            exit::NO_PROGRAM
        }
        NotFound::NotExecutable(error) => {
            let is_denied = error.kind() == std::io::ErrorKind::PermissionDenied;
            say(Problem::failed(what, error).next(if is_denied {
                "check its permissions, and those of the folders above it"
            } else {
                "name a program or a script"
            }));
            exit::NOT_EXECUTABLE
        }
    }
}

/// The change to the program's environment.
struct Prepared {
    settings: Settings,
    /// The library, unless the program is not to have it.
    library: Option<PathBuf>,
}

fn prepare(args: &Args, program: &Program) -> Result<Prepared, Problem> {
    let failed = |error| Problem::failed("cannot find the working directory", error).next("change to one that exists");
    let directory = std::env::current_dir().map_err(failed)?;
    let settings = Settings::resolve(&args.options.0, |name| std::env::var_os(name), &directory)?;
    settings.check_host()?;
    let obstacle = program.obstacle.as_ref().filter(|obstacle| !is_ignored(obstacle, &settings));
    if let Some(obstacle) = obstacle {
        by_kernel(program, obstacle);
        let library = library::find(std::env::var_os(library::VARIABLE)).ok();
        return Ok(Prepared { library: library.filter(|_| obstacle.lets_children_load()), settings });
    }
    let library = library::find(std::env::var_os(library::VARIABLE))?;
    match reach_control(&settings) {
        Ok(control) => {
            if settings.why {
                explain(program, &settings, &library, control);
            }
            Ok(Prepared { settings, library: Some(library) })
        }
        Err(why) => {
            by_kernel(program, why);
            Ok(Prepared { settings, library: None })
        }
    }
}

fn is_ignored(obstacle: &Obstacle, settings: &Settings) -> bool {
    *obstacle == Obstacle::IoUring && settings.io_uring == IoUring::Ignore
}

/// Says that the kernel carries a program's sockets, and why.
fn by_kernel(program: &Program, why: impl std::fmt::Display) {
    let name = program.path.display();
    let through =
        if program.path == program.binary { String::new() } else { format!(", run by {}", program.binary.display()) };
    say(format!("the kernel carries the sockets of {name}{through}: {why}"));
}

fn explain(program: &Program, settings: &Settings, library: &Path, control: u32) {
    let (name, library, profile) = (program.binary.display(), library.display(), &settings.profile);
    say(format!("{name} is started with {library}, profile {profile}; the control plane is process {control}"));
}

/// Finds the control plane, starts it if there is none, and makes it stay while the program lives. Returns its process, or the
/// reason why the program cannot use it.
fn reach_control(settings: &Settings) -> Result<u32, String> {
    let socket = place::socket().map_err(|problem| problem.brief())?;
    let mut client = match Client::connect_to(&socket, "sidestep run") {
        Ok(client) => client,
        Err(Error::Lost(problem)) if !is_root() => {
            return Err(format!("{}; root can start it: sidestep control", problem.brief()));
        }
        Err(Error::Lost(_)) => {
            start_control(settings)?;
            Client::connect_to(&socket, "sidestep run").map_err(|error| brief(&error))?
        }
        Err(refused) => return Err(brief(&refused)),
    };
    let pid = client.control_pid();
    if let Err(error) = client.stay() {
        say(format!("the control plane may end before the program does: {}", brief(&error)));
    }
    let _ = client.bye();
    Ok(pid)
}

fn brief(error: &Error) -> String {
    match error {
        Error::Lost(problem) => problem.brief(),
        Error::Refused(refusal) if refusal.next.is_empty() => refusal.to_string(),
        Error::Refused(refusal) => format!("{refusal}; {}", refusal.next),
    }
}

/// Starts a control plane that ends after its last program. It is no child of this process, which becomes the program: a
/// program does not expect children that it has not started.
fn start_control(settings: &Settings) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("the control plane cannot be started: {error}");
    let mut command = Command::new(std::env::current_exe().map_err(failed)?);
    command.args(["control", "--end-unused", "--background"]).stdin(Stdio::null());
    // A socket that the environment names is asked for by this command and by the library: that is where it is to listen.
    if let Some(path) = std::env::var_os(place::SOCKET_VARIABLE).filter(|path| !path.is_empty()) {
        command.arg("--socket").arg(path);
    }
    let output = command.stderr(Stdio::piped()).stdout(Stdio::piped()).output().map_err(failed)?;
    let text = |bytes: &[u8]| {
        String::from_utf8_lossy(bytes).trim().trim_start_matches("sidestep: ").replace("\n  next: ", "; ")
    };
    if !output.status.success() {
        return Err(text(&output.stderr));
    }
    if settings.why {
        say(text(&output.stdout));
    }
    Ok(())
}

/// Becomes the program; returns the exit code if that fails.
fn replace(name: &OsStr, program: &Program, arguments: &[std::ffi::OsString], prepared: Prepared) -> u8 {
    let mut command = Command::new(&program.path);
    command.arg0(name).args(arguments);
    for (variable, value) in prepared.settings.environment() {
        match value {
            Some(value) => command.env(variable, value),
            None => command.env_remove(variable),
        };
    }
    if let Some(library) = prepared.library {
        command.env(LD_PRELOAD, library::preload(&library, std::env::var_os(LD_PRELOAD).as_deref()));
    }
    let error = broken_pipe::inherit(&mut command).exec();
    say(Problem::failed(format!("cannot start {}", program.path.display()), error).next("try it without sidestep run"));
    exit::NOT_EXECUTABLE
}
