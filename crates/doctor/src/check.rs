//! One check, and the verdict on a verb.

use serde::Serialize;

/// How far something works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It works.
    Ok,
    /// It works in part, or worse than it could.
    Partly,
    /// It does not work.
    Missing,
}

impl State {
    /// Returns the word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Partly => "partly",
            Self::Missing => "missing",
        }
    }
}

/// What a check concerns: the host as a whole, or a verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Group {
    /// Every verb.
    Host,
    /// `demo`, `bench`, `compare`, `lab`.
    Measure,
    /// `tune`.
    Tune,
    /// `control`, `run`, rings of the kernel, the library.
    Bypass,
    /// `fix`, and engines of one's own.
    Trade,
}

impl Group {
    /// All groups in the order of the output.
    pub const ALL: [Self; 5] = [Self::Host, Self::Measure, Self::Tune, Self::Bypass, Self::Trade];
    /// Those with a verdict.
    pub const VERBS: [Self; 4] = [Self::Measure, Self::Tune, Self::Bypass, Self::Trade];

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Measure => "measure",
            Self::Tune => "tune",
            Self::Bypass => "bypass",
            Self::Trade => "trade",
        }
    }
}

/// The beginning of the names of checks of interfaces.
pub const INTERFACE: &str = "interface-";

/// One check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What it concerns.
    pub group: Group,
    /// Its name for scripts ("af-xdp", "interface-eth0").
    pub id: String,
    /// How far it works.
    pub state: State,
    /// What was found, or why it does not work.
    pub reason: String,
    /// The next command; none where nothing is to be done.
    pub next: Option<String>,
    /// True if the verb does not work without it.
    pub essential: bool,
}

impl Check {
    /// Makes a check without a next step.
    pub fn new(group: Group, id: impl Into<String>, state: State, reason: impl Into<String>) -> Self {
        Self { group, id: id.into(), state, reason: reason.into(), next: None, essential: false }
    }

    /// Adds the next command.
    #[must_use]
    pub fn next(self, next: impl Into<String>) -> Self {
        let next = next.into();
        Self { next: (!next.is_empty()).then_some(next), ..self }
    }

    /// Makes the verb depend on it.
    #[must_use]
    pub fn essential(self) -> Self {
        Self { essential: true, ..self }
    }
}

/// The verdict on a verb.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// The verb.
    pub verb: Group,
    /// How far it works.
    pub state: State,
    /// The verdict in a sentence.
    pub sentence: String,
    /// The next command: that of the first check which keeps the verb from working.
    pub next: Option<String>,
}

impl Verdict {
    /// Of a verb by its checks: missing if one on which it depends is, partly if any is not ok.
    pub fn of(verb: Group, checks: &[Check]) -> Self {
        let own: Vec<&Check> = checks.iter().filter(|check| check.group == verb).collect();
        let blocking = own.iter().find(|check| check.essential && check.state == State::Missing);
        if let Some(check) = blocking {
            let sentence = format!("does not work here: {}", check.reason);
            return Self { verb, state: State::Missing, sentence, next: check.next.clone() };
        }
        let lacking: Vec<&&Check> = own.iter().filter(|check| check.state != State::Ok).collect();
        let works = own.iter().filter(|check| check.essential).map(|check| check.reason.as_str());
        let mut works = works.collect::<Vec<_>>().join("; ");
        let interfaces = own.iter().filter(|check| check.state == State::Ok);
        let interfaces: Vec<&str> = interfaces.filter_map(|check| check.id.strip_prefix(INTERFACE)).collect();
        if !interfaces.is_empty() {
            works.push_str(&format!("; ready for it: {}", interfaces.join(", ")));
        }
        if lacking.is_empty() {
            return Self { verb, state: State::Ok, sentence: format!("works: {works}"), next: None };
        }
        let names: Vec<&str> = lacking.iter().map(|check| check.id.as_str()).collect();
        let sentence = format!("works: {works}; not all ok: {}", names.join(", "));
        // What is missing is the nearer step than what could be better.
        let worst = lacking.iter().max_by_key(|check| (check.state, check.next.is_some()));
        Self { verb, state: State::Partly, sentence, next: worst.and_then(|check| check.next.clone()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(id: &str, state: State) -> Check {
        Check::new(Group::Tune, id, state, format!("reason of {id}")).next(format!("do {id}"))
    }

    #[test]
    fn a_verb_is_missing_only_if_it_depends_on_what_is() {
        let of = |checks: &[Check]| Verdict::of(Group::Tune, checks);
        let base = check("read", State::Ok).essential();
        assert_eq!(of(std::slice::from_ref(&base)).state, State::Ok);
        let partly = of(&[base.clone(), check("write", State::Missing), check("more", State::Partly)]);
        assert_eq!((partly.state, partly.next.as_deref()), (State::Partly, Some("do write")));
        assert!(partly.sentence.contains("reason of read") && partly.sentence.contains("write, more"), "{partly:?}");
        let missing = of(&[check("read", State::Missing).essential(), check("write", State::Ok)]);
        assert_eq!((missing.state, missing.next.as_deref()), (State::Missing, Some("do read")));
        let other = Check { group: Group::Trade, ..check("x", State::Missing).essential() };
        assert_eq!(of(&[base, other]).state, State::Ok, "another verb's check");
    }
}
