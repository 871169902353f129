//! Two commands run in turn, A B B A, as many rounds as asked for: the results of both sides are taken under the same changes of the
//! machine.

use super::{Comparison, command};
use crate::scenario::Progress;
use sidestep_report::json;
use sidestep_report::schema::Document;
use sidestep_sys::{Kind, Problem};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Stands for the result file in a command; without it ` --json FILE` is added at its end.
const FILE: &str = "{}";

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
        let mut found = Alternated { problem: self.check_folder().err(), ..Alternated::default() };
        if found.problem.is_some() {
            return found;
        }
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

    /// Refuses a folder that holds files of these names: what another comparison left there is not the result of this one, and
    /// may be somebody's.
    fn check_folder(&self) -> Result<(), Problem> {
        let files = (0..self.rounds).flat_map(|round| [self.file(0, round), self.file(1, round)]);
        let all = files.flat_map(|file| [file.with_extension("err"), file]);
        match all.into_iter().find(|file| file.symlink_metadata().is_ok()) {
            Some(file) => Err(Problem::usage(
                format!("cannot keep results in {}", self.folder.display()),
                format!("{} is there already", file.display()),
            )
            .next("name a new folder: --keep FOLDER")),
            None => Ok(()),
        }
    }

    /// The result file of a side in a round.
    fn file(&self, side: usize, round: u32) -> PathBuf {
        self.folder.join(format!("{}{}.json", ["a", "b"][side], u64::from(round) + 1))
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
        let file = self.file(side, round);
        let text = &self.commands[side];
        let what = || format!("cannot compare: {text:?} (round {})", round + 1);
        let said = file.with_extension("err");
        let (status, last) =
            command::run(&with_file(text, &file), &said, stop).map_err(|error| Problem::failed(what(), error))?;
        if stop.load(Ordering::Relaxed) {
            return Err(Problem::new(Kind::Interrupted, "stopped", "by a signal").next("whole rounds are compared"));
        }
        if !status.success() {
            return Err(Problem::failed(what(), command::ended(status, &last)).next("run it alone until it succeeds"));
        }
        if !file.exists() {
            let next =
                format!("have it write a result file: --json FILE is added at its end, or stands in it as {FILE}");
            return Err(Problem::failed(what(), "it wrote no result file").next(next));
        }
        // To open a pipe would wait for its writer, which has ended.
        if !file.is_file() {
            let why = format!("{} is no regular file", file.display());
            return Err(Problem::failed(what(), why).next("have it write its result to the file itself"));
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
        let problem = |command: &str| {
            let folder = tempfile::tempdir().expect("a folder");
            let found = alternate(folder.path(), [command.into(), "true".into()]);
            assert!(found.runs[0].is_empty());
            found.problem.expect("it failed").to_string()
        };
        let failed = problem("sh -c 'echo no such device >&2; exit 7' #");
        assert!(failed.contains("exit code 7: no such device"), "{failed}");
        assert!(problem("true").contains("it wrote no result file"));
        assert!(problem("echo nonsense >{}").contains("a1.json"), "a file that is none is named");
        assert!(problem("mkfifo {}").contains("no regular file"), "nobody waits for a writer");
        assert!(problem("mkdir {}").contains("no regular file"));
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
    fn what_is_in_the_folder_already_stays() {
        for name in ["a1.json", "b3.json", "b2.err"] {
            let folder = tempfile::tempdir().expect("a folder");
            let kept = folder.path().join(name);
            std::fs::write(&kept, "mine").expect("written");
            let ran = folder.path().join("ran");
            let command = format!("touch '{}' #", ran.display());
            let found = alternate(folder.path(), [command.clone(), command]);
            assert!(found.problem.expect("refused").to_string().contains(name));
            assert_eq!(std::fs::read_to_string(&kept).expect("it is there"), "mine");
            assert!(!ran.exists(), "nothing runs");
        }
    }

    #[test]
    fn the_file_stands_where_the_command_says() {
        let file = Path::new("/tmp/it's.json");
        assert_eq!(with_file("m", file), "m --json '/tmp/it'\\''s.json'");
        assert_eq!(with_file("m >{}; n", file), "m >'/tmp/it'\\''s.json'; n");
    }
}
