//! Lines of commands, read as far as it takes to find those of ours, and to parse them.

use std::path::Path;
use std::sync::LazyLock;

static DEFINITION: LazyLock<clap::Command> = LazyLock::new(sidestep_cli::definition);

/// What is wrong with the commands of a block: those of sidestep by its definition, of make by the Makefile, of cargo by the files.
pub(crate) fn faults(root: &Path, block: &str) -> Vec<String> {
    commands(block).iter().filter_map(|words| fault(root, words)).collect()
}

fn fault(root: &Path, words: &[String]) -> Option<String> {
    let wrappers = ["sudo", "nice", "time", "exec"];
    let start = words.iter().position(|word| !wrappers.contains(&word.as_str()) && !is_assignment(word))?;
    let words = &words[start..];
    let line = words.join(" ");
    match words[0].as_str() {
        "sidestep" => {
            let parsed = DEFINITION.clone().try_get_matches_from(words);
            let inner = words.iter().position(|word| word == "--").map(|at| &words[at + 1..]);
            match parsed {
                Err(error) if error.use_stderr() => Some(format!("{line}\n{error}")),
                _ => inner.filter(|inner| !inner.is_empty()).and_then(|inner| fault(root, inner)),
            }
        }
        "make" => {
            let makefile = std::fs::read_to_string(root.join("Makefile")).expect("there is one");
            let is_target = |target: &&String| makefile.contains(&format!("\n{target}:"));
            let targets = words[1..].iter().filter(|word| !is_assignment(word));
            let missing = targets.filter(|target| !is_target(target)).cloned().collect::<Vec<_>>();
            (!missing.is_empty()).then(|| format!("{line}: the Makefile has no {}", missing.join(", ")))
        }
        "cargo" => {
            let after = |flag: &str| words.iter().position(|word| word == flag).and_then(|at| words.get(at + 1));
            let example = after("--example").filter(|_| after("-p").is_none());
            let file = example.map(|name| root.join(format!("examples/{name}.rs")));
            file.filter(|file| !file.exists()).map(|file| format!("{line}: there is no {}", file.display()))
        }
        _ => None,
    }
}

/// The first of these programs that a block needs and this machine lacks.
pub(crate) fn absent<'a>(block: &str, programs: &[&'a str]) -> Option<&'a str> {
    let words: Vec<String> = commands(block).concat();
    let folders: Vec<_> = std::env::split_paths(&std::env::var_os("PATH")?).collect();
    let is_here = |program: &str| folders.iter().any(|folder| folder.join(program).is_file());
    programs.iter().find(|program| words.iter().any(|word| word == *program) && !is_here(program)).copied()
}

/// Flags and commands in a piece of text such as `sidestep bench rr --ladder` that do not exist. What stands there need not be whole.
pub(crate) fn unknown_flags(code: &str) -> Vec<String> {
    let all = commands(code);
    let ours = all.iter().filter(|words| words.first().is_some_and(|word| word == "sidestep"));
    ours.flat_map(|words| unknown(words)).map(|what| format!("`{code}`: there is no {what}")).collect()
}

fn unknown(words: &[String]) -> Vec<String> {
    let mut command = &*DEFINITION;
    let mut missing = Vec::new();
    let mut flags_only = false;
    for word in words[1..].iter().take_while(|word| *word != "--") {
        if let Some(flag) = word.strip_prefix("--") {
            let name = flag.split(['=', ',', ')', '.']).next().unwrap_or_default();
            let known = command.get_arguments().any(|arg| arg.get_long() == Some(name));
            if !known && !matches!(name, "help" | "version") {
                missing.push(format!("--{name}"));
            }
            flags_only = true;
        } else if let Some(inner) = command.find_subcommand(word.trim_end_matches(',')) {
            command = inner;
        } else if !flags_only && command.has_subcommands() && is_name(word) {
            missing.push(word.clone());
            break;
        } else {
            flags_only = true;
        }
    }
    missing
}

fn is_name(word: &str) -> bool {
    word.chars().all(|letter| letter.is_ascii_lowercase() || letter == '-')
}

fn is_assignment(word: &str) -> bool {
    let name = word.split_once('=').map_or("", |(name, _)| name);
    !name.is_empty() && name.chars().all(|letter| letter.is_ascii_uppercase() || letter == '_')
}

/// The words of every simple command, those in `$( )` at the end. Words in quotes are whole; what a shell would put in place of a
/// variable stands as it is.
pub(crate) fn commands(block: &str) -> Vec<Vec<String>> {
    let (mut found, mut within) = (vec![Vec::new()], Vec::new());
    let (mut word, mut has_word, mut quote) = (String::new(), false, None);
    let text = block.replace("\\\n", " ") + "\n";
    let mut letters = text.chars().peekable();
    let end_word = |word: &mut String, has_word: &mut bool, found: &mut Vec<Vec<String>>| {
        if std::mem::take(has_word) {
            found.last_mut().expect("there is one").push(std::mem::take(word));
        }
    };
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (None, '\'' | '"') => (quote, has_word) = (Some(letter), true),
            (Some(open), _) if open == letter => quote = None,
            (None, '#') if !has_word => while letters.next_if(|letter| *letter != '\n').is_some() {},
            (None, '>' | '<') => {
                // The number of a descriptor stands before it.
                if !word.is_empty() && word.chars().all(|letter| letter.is_ascii_digit()) {
                    (word, has_word) = (String::new(), false);
                }
                end_word(&mut word, &mut has_word, &mut found);
                // The file of a redirection is no word of the command.
                while letters.next_if(|letter| matches!(letter, '>' | '<' | '&' | ' ')).is_some() {}
                while letters.next_if(|letter| !letter.is_whitespace()).is_some() {}
            }
            (None | Some('"'), '$') if letters.next_if_eq(&'(').is_some() => {
                let inner: String = std::iter::from_fn(|| letters.next_if(|letter| *letter != ')')).collect();
                letters.next();
                within.extend(commands(&inner));
                // Its output: most often a number.
                word.push('0');
                has_word = true;
            }
            (None, '|' | ';' | '&' | '\n' | '(' | ')') => {
                end_word(&mut word, &mut has_word, &mut found);
                found.push(Vec::new());
            }
            (None, letter) if letter.is_whitespace() => end_word(&mut word, &mut has_word, &mut found),
            (_, letter) => {
                word.push(letter);
                has_word = true;
            }
        }
    }
    found.extend(within);
    found.retain(|words: &Vec<String>| !words.is_empty());
    found
}

#[test]
fn commands_are_found() {
    let block = "# ours\nsidestep lab exec --lab x a -- sidestep ps \\\n  --json >out.txt 2>&1 &\nA=1 sudo sidestep ps | grep 'a b' # end\n";
    let found = commands(block);
    assert_eq!(found[0], ["sidestep", "lab", "exec", "--lab", "x", "a", "--", "sidestep", "ps", "--json"]);
    assert_eq!(found[1..], [vec!["A=1", "sudo", "sidestep", "ps"], vec!["grep", "a b"]]);
    let found = commands("sidestep control --allow-uid $(id -u) &\n");
    assert_eq!(found, [vec!["sidestep", "control", "--allow-uid", "0"], vec!["id", "-u"]]);
}

#[test]
fn faults_are_found() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    assert_eq!(
        faults(root, "sidestep ps --json && make demo OUT=x && cargo run --release --example udp_echo -- eth1"),
        [""; 0]
    );
    for wrong in [
        "sidestep ps --jsonn",
        "X=1 sudo sidestep bench rrr",
        "sidestep lab exec a -- sidestep ps --x",
        "make demos",
        "cargo run --example none",
    ] {
        assert_eq!(faults(root, wrong).len(), 1, "{wrong}");
    }
    assert_eq!(absent("sidestep run -- no-such-program", &["no-such-program"]), Some("no-such-program"));
    assert_eq!(absent("sidestep run -- sh -c true", &["no-such-program", "sh"]), None);
    assert_eq!(unknown_flags("sidestep bench rr --ladder"), [""; 0]);
    assert_eq!(unknown_flags("sidestep bench fix --own tcp,shm --x").len(), 1);
    assert_eq!(unknown_flags("sidestep tunes check").len(), 1);
}
