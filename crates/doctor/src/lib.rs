//! What of sidestep works on this host for this user, what is missing for each verb, and the next command.
//!
//! Three steps, so that every situation can be tested without being in it:
//!
//! * [`facts`] reads: /proc, /sys, limits, interfaces. Other roots can be given for /proc, /sys and /etc.
//! * [`trials`] tries what no file tells, in a way that leaves nothing: sockets on loopback, a network namespace without a name in which
//!   a frame goes past the kernel, a file without a name. No interface of the host is touched.
//! * [`rules`] make checks and verdicts of both; they read nothing themselves.
//!
//! [`show`] has the forms for a terminal and for scripts. Decision 40 has the reasons.
#![forbid(unsafe_code)]

pub mod check;
pub mod facts;
pub mod rules;
pub mod show;
pub mod trials;

use check::{Check, Group, State, Verdict};
use facts::{Facts, Sources};
use sidestep_sys::{Problem, interface};
use trials::Trials;

/// The checks of a host, and a verdict for each verb.
#[derive(Clone, Debug)]
pub struct Examination {
    /// The checks, in the order of the groups.
    pub checks: Vec<Check>,
    /// A verdict for each verb.
    pub verdicts: Vec<Verdict>,
}

impl Examination {
    /// Examines this host; only these interfaces, if any are named.
    ///
    /// # Errors
    /// Fails if there is no interface of a name.
    pub fn of_this_host(interfaces: &[String]) -> Result<Self, Problem> {
        interfaces.iter().try_for_each(|name| interface::check(name))?;
        let facts = Facts::read(&Sources::default(), interfaces);
        let trials = Trials::run(&facts);
        Ok(Self::of(&facts, &trials))
    }

    /// Makes checks and verdicts of facts and trials.
    pub fn of(facts: &Facts, trials: &Trials) -> Self {
        let checks = rules::checks(facts, trials);
        let verdicts = Group::VERBS.iter().map(|verb| Verdict::of(*verb, &checks)).collect();
        Self { checks, verdicts }
    }

    /// Returns whether something of every verb works.
    pub fn is_usable(&self) -> bool {
        self.verdicts.iter().all(|verdict| verdict.state != State::Missing)
    }
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
