//! Results of many hosts beside each other: which host differs from the others, and what goes with it.
//!
//! `files` finds the result files, `run` keeps of each what is compared (a result may have megabytes), `rows` puts the runs of every
//! host together, `outlier` has the rule by which a host differs, `overall` judges a host over all of its rows, `common` lists the facts
//! that hosts which differ have and others have not, `baseline` compares each host with one of them by the rules of `compare`.
//! [`text`] shows all of it. Decision 41 has the reasons.

mod baseline;
mod common;
mod files;
mod outlier;
mod overall;
mod rows;
mod run;
pub mod text;

pub use common::Common;
pub use files::{Found, LeftOut, gather};
pub use outlier::{HOSTS_MIN, Standing};
pub use overall::{Figure, Overall};
pub use rows::{HostValue, RowOfHosts, Spread};

use serde::Serialize;
use sidestep_report::schema::SCHEMA;
use sidestep_sys::Problem;

/// The hosts of a folder beside each other.
#[derive(Debug, Serialize)]
pub struct Fleet {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The number of runs.
    pub runs: usize,
    /// The hosts over all of their rows, the slowest first.
    pub hosts: Vec<Overall>,
    /// One entry for each row and statistic that some host has.
    pub rows: Vec<RowOfHosts>,
    /// What hosts that are slower have in common and others have not.
    pub common: Vec<Common>,
    /// The host that the others are compared with.
    pub baseline: Option<String>,
    /// Files that were found and not read.
    pub left_out: Vec<LeftOut>,
    /// Files that hold a run that another one holds, too; they do not count.
    pub copies: Vec<String>,
}

impl Fleet {
    /// Compares the hosts that were found with each other, and with one of them, or a result file, if `baseline` names one.
    ///
    /// # Errors
    /// Fails if there is no such host or file.
    pub fn of(mut found: Found, baseline: Option<&str>) -> Result<Self, Problem> {
        let baseline = baseline.map(|name| baseline::find(&mut found, name)).transpose()?;
        let mut rows = rows::of(&found);
        outlier::judge(&mut rows);
        let hosts = overall::of(&found, &rows);
        let common = common::of(&found, &hosts, &rows);
        if let Some(baseline) = &baseline {
            baseline.compare(&found, &mut rows);
        }
        let runs = found.runs.iter().filter(|run| !run.is_reference).count();
        Ok(Self {
            schema: SCHEMA,
            runs,
            hosts,
            rows,
            common,
            baseline: baseline.map(|baseline| baseline.name),
            left_out: found.left_out,
            copies: found.copies,
        })
    }

    /// Returns whether a host is slower than the others.
    pub fn has_outlier(&self) -> bool {
        let of_rows = self.rows.iter().flat_map(|row| &row.hosts).map(|host| host.standing);
        let of_hosts = self.hosts.iter().flat_map(|host| &host.figures).map(|figure| figure.standing);
        of_rows.chain(of_hosts).any(|standing| standing == Standing::Slower)
    }

    /// Returns whether a host is worse than the baseline.
    pub fn has_regression(&self) -> bool {
        let against = self.rows.iter().flat_map(|row| &row.hosts).filter_map(|host| host.against_baseline.as_ref());
        against.into_iter().any(|against| against.verdict == crate::compare::Verdict::Worse)
    }

    /// Returns whether nothing could be judged: too few hosts or samples, or no row in common.
    pub fn lacks_data(&self) -> bool {
        let hosts = || self.rows.iter().flat_map(|row| &row.hosts);
        let is_judged = hosts().any(|host| host.standing.is_judged())
            || hosts().filter_map(|host| host.against_baseline.as_ref()).any(|against| against.verdict.is_judged());
        !is_judged
    }
}

#[cfg(test)]
mod tests;
