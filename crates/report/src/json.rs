//! The result file: written whole, read with suspicion.

use std::io::{self, ErrorKind, Read};
use std::path::Path;

use serde::Deserialize;
use serde_json::error::Category;
use sidestep_sys::file;
use sidestep_sys::problem::Problem;

use crate::possible;
use crate::schema::{Document, SCHEMA};

/// Largest result file that is read. A run of 200 rows takes 2 MiB; a file of more than this is something else, and
/// reading it would take many times its size in memory.
const FILE_LIMIT_BYTES: u64 = 64 << 20;

/// The next step for a file that cannot be used.
const TAKE_ANOTHER: &str = "name a file written by: sidestep bench ... --json FILE";
/// And of one that cannot be opened.
const CHECK_PATH: &str = "check the path, and that you may read it";

/// The document as the text of a result file, ending in a newline.
///
/// A number that is not finite has no form in JSON and becomes `null`.
pub fn to_string(document: &Document) -> String {
    // A Document holds only strings, numbers and lists: none of them can fail to serialize.
    let mut text = serde_json::to_string_pretty(document).unwrap_or_default();
    text.push('\n');
    text
}

/// The document on one line, for a page that carries it.
pub(crate) fn to_compact_string(document: &Document) -> String {
    serde_json::to_string(document).unwrap_or_default()
}

/// The document in the file at `path`; `-` is standard input.
pub fn read(path: &Path) -> Result<Document, Problem> {
    if path == Path::new("-") {
        return read_from(io::stdin().lock(), "standard input");
    }
    let name = path.display().to_string();
    let file = file::open(path).map_err(|error| {
        let next = if error.kind() == ErrorKind::InvalidInput { TAKE_ANOTHER } else { CHECK_PATH };
        Problem::failed(format!("cannot read {name}"), error).next(next)
    })?;
    read_from(file, &name)
}

/// The document in a regular file that was found in a folder: pipes and devices are refused, not waited for.
pub fn read_found(path: &Path) -> Result<Document, Problem> {
    let name = path.display().to_string();
    let file = file::open_regular(path)
        .map_err(|error| Problem::failed(format!("cannot read {name}"), error).next(CHECK_PATH))?;
    read_from(file, &name)
}

/// The document that `reader` gives; `name` stands for it in errors.
pub(crate) fn read_from(reader: impl Read, name: &str) -> Result<Document, Problem> {
    let mut bytes = Vec::new();
    reader
        .take(FILE_LIMIT_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| Problem::failed(format!("cannot read {name}"), error).next(TAKE_ANOTHER))?;
    if bytes.len() as u64 > FILE_LIMIT_BYTES {
        let why = format!("it is larger than {} MiB, the limit for a result file", FILE_LIMIT_BYTES >> 20);
        return Err(Problem::failed(format!("cannot read {name}"), why).next(TAKE_ANOTHER));
    }
    parse(&bytes, name)
}

/// The document in `bytes`; `name` stands for them in errors.
pub fn parse(bytes: &[u8], name: &str) -> Result<Document, Problem> {
    // RFC 8259 section 8.1: a byte order mark may be ignored.
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let unusable = |why: String, next: &str| Problem::failed(format!("{name} is not a result file"), why).next(next);
    match bytes.iter().find(|byte| !byte.is_ascii_whitespace()) {
        None => return Err(unusable("it is empty".into(), TAKE_ANOTHER)),
        Some(b'<') => {
            let why = "it is an HTML page; a report shows a result, but is not one".into();
            return Err(unusable(why, "name the result.json that was written beside the report"));
        }
        Some(b'{') => {}
        Some(_) => return Err(unusable("it does not begin as a JSON object".into(), TAKE_ANOTHER)),
    }
    check_version(bytes, name)?;
    let document = serde_json::from_slice(bytes).map_err(|error| damaged(name, &error))?;
    possible::check(&document)
        .map(|()| document)
        .map_err(|why| Problem::failed(format!("cannot read {name}"), why).next("copy or measure it again"))
}

/// Only the version, whatever the rest may be.
#[derive(Deserialize)]
struct Version {
    schema: Option<serde_json::Number>,
    /// Only a saved host has it.
    taken_unix_s: Option<serde::de::IgnoredAny>,
}

/// A file of another version is called that, before any of its fields is judged.
fn check_version(bytes: &[u8], name: &str) -> Result<(), Problem> {
    let version: Version = serde_json::from_slice(bytes).map_err(|error| damaged(name, &error))?;
    if version.taken_unix_s.is_some() {
        let why = "it is a host that `sidestep tune snapshot` has written";
        return Err(Problem::failed(format!("{name} is not a result file"), why)
            .next("compare hosts with: sidestep tune drift GOOD FILE"));
    }
    let Some(found) = version.schema else {
        let why = "it has no \"schema\" field";
        return Err(Problem::failed(format!("{name} is not a result file"), why).next(TAKE_ANOTHER));
    };
    match found.as_u64() {
        Some(number) if number == u64::from(SCHEMA) => Ok(()),
        Some(number) if number > u64::from(SCHEMA) => {
            let why = format!("it has schema {number}, this sidestep reads schema {SCHEMA}");
            Err(Problem::failed(format!("cannot read {name}"), why).next("read it with the sidestep that wrote it"))
        }
        _ => {
            let why = format!("there is no schema {found}, this sidestep reads schema {SCHEMA}");
            Err(Problem::failed(format!("{name} is not a result file"), why).next(TAKE_ANOTHER))
        }
    }
}

fn damaged(name: &str, error: &serde_json::Error) -> Problem {
    let (why, next) = match error.classify() {
        Category::Eof => (format!("it ends too early ({error})"), "copy or measure it again"),
        Category::Data => (format!("a field is missing or of the wrong kind ({error})"), TAKE_ANOTHER),
        Category::Syntax | Category::Io => (format!("it is not JSON ({error})"), TAKE_ANOTHER),
    };
    Problem::failed(format!("cannot read {name}"), why).next(next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    fn refused(text: &str) -> String {
        parse(text.as_bytes(), "a.json").unwrap_err().to_string()
    }

    #[test]
    fn comes_back_as_it_went() {
        let document = sample::document();
        let text = to_string(&document);
        assert!(text.ends_with("}\n"));
        assert!(parse(text.as_bytes(), "a.json").unwrap() == document);
        assert!(parse(format!("\u{feff}{text}").as_bytes(), "a.json").unwrap() == document);
    }

    #[test]
    fn a_field_from_the_future_is_ignored() {
        let text = to_string(&sample::document()).replacen('{', "{\"later\": [1, {\"x\": null}],", 1);
        assert!(parse(text.as_bytes(), "a.json").is_ok());
    }

    #[test]
    fn a_file_of_a_build_that_did_not_count_cpu_time_is_read() {
        let mut document = sample::document();
        document.results.iter_mut().for_each(|row| row.cpu = None);
        let text = to_string(&document);
        assert!(!text.contains("per_message_ns"));
        assert!(parse(text.as_bytes(), "a.json").unwrap() == document);
    }

    #[test]
    fn other_files_are_named_for_what_they_are() {
        assert!(refused("").contains("empty"));
        assert!(refused("<!doctype html>").contains("result.json"));
        assert!(refused("hello").contains("JSON object"));
        assert!(refused("{\"a\":1}").contains("no \"schema\""));
        assert!(refused("{\"schema\":0}").contains("no schema 0"));
        assert!(refused("{\"schema\":-1}").contains("no schema -1"));
        assert!(refused("{\"schema\":1.5}").contains("no schema 1.5"));
        assert!(refused("{\"schema\":2}").contains("schema 2"));
        assert!(refused("{\"schema\":\"1\"}").contains("wrong kind"));
        assert!(refused("{\"schema\":1}").contains("missing field"));
        assert!(refused("{\"schema\":1,}").contains("not JSON"));
        assert!(refused(&format!("{{\"schema\":1,\"host\":{}", "[".repeat(100_000))).contains("next:"));
        assert!(
            refused(&format!("{{\"schema\":1,\"notes\":{0}{1}}}", "[".repeat(9_999), "]".repeat(9_999)))
                .contains("next:")
        );
    }

    #[test]
    fn every_refusal_names_a_next_step() {
        for text in ["", "<html>", "x", "{}", "{\"schema\":7}", "{\"schema\":1", "{\"schema\":1}", "\u{0}\u{1}"] {
            assert!(refused(text).contains("\n  next: "), "{text}");
        }
    }

    #[test]
    fn a_file_cut_short_is_refused_wherever_it_is_cut() {
        let text = to_string(&sample::document());
        for end in (0..text.len() - 2).step_by(97) {
            assert!(parse(&text.as_bytes()[..end], "a.json").is_err(), "cut at {end}");
        }
    }

    #[test]
    fn paths_that_hold_no_file() {
        let directory = tempfile::tempdir().unwrap();
        assert!(read(directory.path()).unwrap_err().brief().contains("directory"));
        let missing = read(&directory.path().join("none.json")).unwrap_err().to_string();
        assert!(missing.contains("none.json") && missing.contains("next:"), "{missing}");
    }

    #[test]
    fn an_endless_file_is_refused() {
        let problem = read_from(io::repeat(b' '), "endless").unwrap_err();
        assert!(problem.brief().contains("64 MiB"), "{problem}");
    }

    #[test]
    fn a_saved_host_is_called_that() {
        let problem = parse(b"{\"schema\":1,\"taken_unix_s\":5,\"pids\":[]}", "x.json").expect_err("no result");
        assert!(
            problem.to_string().contains("tune snapshot") && problem.to_string().contains("tune drift"),
            "{problem}"
        );
    }
}
