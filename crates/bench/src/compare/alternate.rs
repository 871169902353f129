//! Two commands run in turn, A B B A, as many rounds as asked for: the results of both sides are taken under the same changes of the
//! machine.

use super::Comparison;
use crate::scenario::Progress;
use sidestep_report::json;
use sidestep_report::schema::Document;
use sidestep_sys::file::read_text;
use sidestep_sys::process::Process;
use sidestep_sys::{Kind, Problem};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Stands for the result file in a command; without it ` --json FILE` is added at its end.
const FILE: &str = "{}";
/// SIGTERM, as signal(7) numbers it on every architecture of Linux that runs here.
const SIGTERM: i32 = 15;
/// What is read of a command's words.
const SAID_MAX: u64 = 1 << 20;
/// Time between two looks at a command that runs.
const LOOK: Duration = Duration::from_millis(20);
/// Time for a command to end in order after SIGTERM.
const GRACE: Duration = Duration::from_secs(10);

/// Two commands to be compared.
#[derive(Clone, Debug)]
pub struct Alternate {
    /// What /bin/sh runs for each side. A command measures, and writes its result file.
    pub commands: [String; 2],
    /// Rounds; each runs either command once.
    pub rounds: u32,
    /// Folder of the result files, which exists.
    pub folder: PathBuf,
}

/// The results of both sides.
#[derive(Debug, Default)]
pub struct Alternated {
    /// Of each side, one for each whole round.
    pub runs: [Vec<Document>; 2],
    /// The reason why there are fewer rounds than asked for.
    pub problem: Option<Problem>,
}

impl Alternate {
    /// Runs the rounds. Whole rounds until something failed, or `stop` was set, are kept.
    pub fn run(&self, progress: &mut dyn Progress, stop: &AtomicBool) -> Alternated {
        let mut found = Alternated::default();
        for round in 0..self.rounds {
            let begin = Instant::now();
            match self.round(round, stop) {
                Ok(both) => found.runs.iter_mut().zip(both).for_each(|(side, run)| side.push(run)),
                Err(problem) => {
                    found.problem = Some(problem);
                    break;
                }
            }
            let taken_ms = begin.elapsed().as_millis() as u64;
            if round == 0 {
                // Only now is it known how long a round takes.
                progress.begin("rounds", taken_ms * u64::from(self.rounds));
            }
            progress.advance(&format!("{} of {}", round + 1, self.rounds), taken_ms);
        }
        progress.end();
        found
    }

    /// One run of each side; the side that began the last round ends this one.
    fn round(&self, round: u32, stop: &AtomicBool) -> Result<[Document; 2], Problem> {
        let mut both = [None, None];
        for side in if round.is_multiple_of(2) { [0, 1] } else { [1, 0] } {
            both[side] = Some(self.once(side, round, stop)?);
        }
        let [Some(before), Some(after)] = both else { unreachable!("both sides were run") };
        Ok([before, after])
    }

    fn once(&self, side: usize, round: u32, stop: &AtomicBool) -> Result<Document, Problem> {
        let file = self.folder.join(format!("{}{}.json", ["a", "b"][side], round + 1));
        // What an earlier comparison left there is not the result of this one.
        let _ = std::fs::remove_file(&file);
        let text = &self.commands[side];
        let what = || format!("cannot compare: {text:?} (round {})", round + 1);
        let said = file.with_extension("err");
        let status = wait(&with_file(text, &file), &said, stop).map_err(|error| Problem::failed(what(), error))?;
        if stop.load(Ordering::Relaxed) {
            return Err(Problem::new(Kind::Interrupted, "stopped", "by a signal").next("whole rounds are compared"));
        }
        if !status.success() {
            return Err(Problem::failed(what(), ended(status, &said)).next("run it alone until it succeeds"));
        }
        if !file.exists() {
            let next =
                format!("have it write a result file: --json FILE is added at its end, or stands in it as {FILE}");
            return Err(Problem::failed(what(), "it wrote no result file").next(next));
        }
        json::read(&file)
    }
}

impl Alternated {
    /// Compares the two sides.
    pub fn comparison(&self) -> Comparison {
        Comparison::of_runs(&self.runs[0], &self.runs[1])
    }
}

fn with_file(command: &str, file: &Path) -> String {
    let quoted = format!("'{}'", file.display().to_string().replace('\'', "'\\''"));
    if command.contains(FILE) { command.replace(FILE, &quoted) } else { format!("{command} --json {quoted}") }
}

/// Runs a command to its end, or ends it when `stop` is set. What it writes to its standard error goes to a file.
fn wait(command: &str, said: &Path, stop: &AtomicBool) -> std::io::Result<ExitStatus> {
    let mut child = Command::new("/bin/sh")
        .args(["-c", command])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(said)?)
        .spawn()?;
    while !stop.load(Ordering::Relaxed) {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        std::thread::sleep(LOOK);
    }
    if let Some(process) = Process::of(child.id())? {
        process.signal(SIGTERM)?;
    }
    let begin = Instant::now();
    while begin.elapsed() < GRACE {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        std::thread::sleep(LOOK);
    }
    child.kill()?;
    child.wait()
}

/// How it ended, with its last words.
fn ended(status: ExitStatus, said: &Path) -> String {
    let said = read_text(said, SAID_MAX).unwrap_or_default();
    let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing").to_owned();
    match status.code() {
        Some(code) => format!("exit code {code}: {last}"),
        None => format!("a signal ended it: {last}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Silent;
    use crate::stats::{Accumulator, Slice, Statistic};
    use sidestep_report::schema::{Row, SCHEMA};

    /// A result file whose p50 is about so many ns, as a command would write it.
    fn result(ns: u64) -> String {
        let mut slices = Accumulator::default();
        (0..12_u64).for_each(|slice| slices.push(Slice::of((0..300).map(|at| ns + (slice * 7 + at) % 40))));
        let row = Row {
            scenario: "rr".into(),
            measure: "rtt".into(),
            distribution: slices.distribution(1.0, Statistic::Mean),
            blocks: slices.blocks(1.0),
            ..Row::default()
        };
        let document = Document { schema: SCHEMA, results: vec![row], ..Document::default() };
        serde_json::to_string(&document).expect("it is plain data")
    }

    fn alternate(folder: &Path, commands: [String; 2]) -> Alternated {
        let alternate = Alternate { commands, rounds: 3, folder: folder.into() };
        alternate.run(&mut Silent, &AtomicBool::new(false))
    }

    #[test]
    fn both_commands_run_in_turn_and_what_they_wrote_is_compared() {
        let folder = tempfile::tempdir().expect("a folder");
        let (log, dir) = (folder.path().join("order"), folder.path());
        let command = |name: &str, ns: u64| {
            let of = dir.join(name);
            std::fs::write(&of, result(ns)).expect("written");
            format!("echo {name} >>'{}'; cp '{}' {{}}", log.display(), of.display())
        };
        let found = alternate(dir, [command("fast", 5_000), command("slow", 9_000)]);
        assert!(found.problem.is_none(), "{:?}", found.problem);
        let order = std::fs::read_to_string(&log).expect("written");
        assert_eq!(order.split_whitespace().collect::<Vec<_>>(), ["fast", "slow", "slow", "fast", "fast", "slow"]);
        let comparison = found.comparison();
        assert_eq!(comparison.runs, [3, 3]);
        assert!(comparison.has_regression(), "{comparison:?}");
        assert!(dir.join("a1.json").exists() && dir.join("b3.json").exists());
    }

    #[test]
    fn a_command_that_fails_is_named_with_what_it_said() {
        let folder = tempfile::tempdir().expect("a folder");
        let problem = |command: &str| {
            let found = alternate(folder.path(), [command.into(), "true".into()]);
            assert!(found.runs[0].is_empty());
            found.problem.expect("it failed").to_string()
        };
        let failed = problem("sh -c 'echo no such device >&2; exit 7' #");
        assert!(failed.contains("exit code 7: no such device"), "{failed}");
        assert!(problem("true").contains("it wrote no result file"));
        assert!(problem("echo nonsense >{}").contains("a1.json"), "a file that is none is named");
    }

    #[test]
    fn a_stop_ends_the_command_and_keeps_whole_rounds() {
        let folder = tempfile::tempdir().expect("a folder");
        let commands = ["sleep 100 #".into(), "true".into()];
        let alternate = Alternate { commands, rounds: 3, folder: folder.path().into() };
        let stop = AtomicBool::new(true);
        let found = alternate.run(&mut Silent, &stop);
        assert_eq!(found.problem.expect("stopped").kind(), Kind::Interrupted);
        assert!(found.runs[0].is_empty());
    }

    #[test]
    fn the_file_stands_where_the_command_says() {
        let file = Path::new("/tmp/it's.json");
        assert_eq!(with_file("m", file), "m --json '/tmp/it'\\''s.json'");
        assert_eq!(with_file("m >{}; n", file), "m >'/tmp/it'\\''s.json'; n");
    }
}
