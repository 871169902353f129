//! The account of an opening: what was read back, what was lost.

use super::Journal;
use crate::store::Store;
use std::path::PathBuf;

/// The account of an opening.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Intact records read back.
    pub records: u64,
    /// Bytes of a torn write that were dropped: what was not acknowledged, or what a power cut took from the page cache.
    pub torn_bytes: u64,
    /// The machine was restarted while the journal was open: what the disk did not have by then is missing, and numbers may
    /// have gone back as far as that.
    pub restarted: bool,
    /// Damage was accepted (`Options::accept_loss`): the files as they were found are in this folder now.
    pub damaged: Option<PathBuf>,
}

impl Recovery {
    /// Returns the lines that the user should read; none where nothing was lost.
    pub fn words(&self, journal: &Journal) -> Vec<String> {
        let next = format!("next outbound {}, next inbound {}", journal.next_outbound(), journal.next_inbound());
        let mut lines = Vec::new();
        if let Some(folder) = &self.damaged {
            lines.push(format!("loss accepted: the damaged journal is in {}; {next}", folder.display()));
        }
        if self.torn_bytes > 0 {
            lines.push(format!("{} bytes of a torn write were dropped; {next}", self.torn_bytes));
        }
        if self.restarted {
            lines.push(format!(
                "the machine was restarted while the journal was open: what the disk did not have is missing; {next}"
            ));
        }
        lines
    }
}
