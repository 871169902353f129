//! The protocol on the serial port of the tests: marks of init, with the output of a test between them.
//!
//! ```text
//!  RS "begin" NAME LF   output of the test   RS "end" NAME VERDICT LF   ...   RS "done" LF
//!  RS "fault" TEXT LF   where init could not do its part
//! ```
//!
//! RS is the record separator of ASCII, which no test prints.

use std::collections::BTreeMap;

/// Begins every mark.
pub(super) const MARK: char = '\x1e';

/// The end of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ending {
    /// `None` if it passed, else the failure.
    pub(super) failure: Option<String>,
    /// Its output, and that of the kernel.
    pub(super) output: String,
}

/// The output that was received.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Transcript {
    /// Tests that have begun, by name.
    pub(super) tests: BTreeMap<String, Ending>,
    /// The failures of init.
    pub(super) faults: Vec<String>,
    /// True if it is complete.
    pub(super) is_whole: bool,
}

impl Transcript {
    /// Parses any output, without panics.
    pub(super) fn read(text: &str) -> Self {
        let text = text.replace('\r', "");
        let mut transcript = Self::default();
        for record in text.split(MARK).skip(1) {
            let (mark, said) = record.split_once('\n').unwrap_or((record, ""));
            transcript.take(mark, said);
        }
        transcript
    }

    fn take(&mut self, mark: &str, said: &str) {
        match mark.split_once(' ').unwrap_or((mark, "")) {
            ("begin", name) => {
                let failure = Some("the machine ended before it did".to_owned());
                self.tests.insert(name.to_owned(), Ending { failure, output: said.to_owned() });
            }
            ("end", rest) => {
                let (name, verdict) = rest.split_once(' ').unwrap_or((rest, ""));
                if let Some(ending) = self.tests.get_mut(name) {
                    ending.failure = (verdict != PASSED).then(|| verdict.to_owned());
                }
            }
            ("fault", text) => self.faults.push(text.to_owned()),
            ("done", _) => self.is_whole = true,
            _ => {}
        }
    }
}

/// The verdict on a test that has passed.
pub(super) const PASSED: &str = "passed";

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn endings_are_kept_apart() {
        let text = "boot\r\n\x1ebegin a\r\none\r\ntwo\x1eend a passed\n\x1ebegin b\nthree\n\x1eend b exit status: 101\n\
                    \x1efault cannot mount /x\n\x1ebegin c\nfour\n";
        let heard = Transcript::read(text);
        let ending = |name: &str| heard.tests[name].clone();
        assert_eq!(ending("a"), Ending { failure: None, output: "one\ntwo".into() });
        assert_eq!(ending("b"), Ending { failure: Some("exit status: 101".into()), output: "three\n".into() });
        assert!(ending("c").failure.is_some_and(|why| why.contains("ended before")));
        assert_eq!(heard.faults, ["cannot mount /x"]);
        assert!(!heard.is_whole);
        assert!(Transcript::read("\x1edone\n").is_whole);
    }

    proptest! {
        #[test]
        fn noise_passes_no_test(noise in "[\x1e a-e\n]{0,64}") {
            let heard = Transcript::read(&noise);
            prop_assert!(heard.tests.values().all(|ending| ending.failure.is_some()));
        }
    }
}
