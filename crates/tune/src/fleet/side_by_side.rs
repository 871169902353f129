//! Audits of many hosts by one profile or policy.

use crate::audit::{Audit, Finding, Status};
use crate::check::Check;
use crate::table;

/// One host.
#[derive(Debug)]
pub struct Member {
    /// The host's name.
    pub name: String,
    /// The file it was read from.
    pub source: String,
    /// What was found.
    pub audit: Audit,
}

/// The hosts, in the order in which they were named.
#[derive(Debug)]
pub struct Fleet {
    /// The profile or policy.
    pub profile: String,
    /// The hosts.
    pub members: Vec<Member>,
}

impl Fleet {
    /// Returns the findings of a check, one for each host; `None` where the policy says nothing of it.
    pub fn findings(&self, check: &Check) -> Vec<Option<&Finding>> {
        self.members.iter().map(|member| member.audit.finding(check.id)).collect()
    }

    /// Returns the checks that some host has a finding of, in the order of the documents.
    pub fn checks(&self) -> impl Iterator<Item = &'static Check> {
        table::checks().filter(|check| self.findings(check).iter().any(Option::is_some))
    }

    /// Returns the worst status of all hosts.
    pub fn worst(&self) -> Option<Status> {
        self.members.iter().flat_map(|member| &member.audit.findings).map(|finding| finding.status).min()
    }
}
