//! The state of a setting on its way back.

use serde::Serialize;

/// The state of a changed setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RevertState {
    /// The setting has our value; revert writes the old one.
    Ours,
    /// The setting has its old value already.
    Back,
    /// Another program has changed the setting since: this is its value, and it stays.
    Foreign(String),
    /// The setting does not exist any more: its interface was removed.
    Gone,
    /// The host has rebooted since: nothing is left to revert.
    Rebooted,
    /// The setting belongs to another network namespace, this one.
    Elsewhere(String),
    /// The setting cannot be reverted, with the reason.
    Failed(String),
}

impl RevertState {
    /// Returns whether the setting still has to be reverted.
    pub fn is_left_to_do(&self) -> bool {
        matches!(self, Self::Failed(_) | Self::Elsewhere(_))
    }

    /// Returns a short description.
    pub fn words(&self) -> String {
        match self {
            Self::Ours => "in force".into(),
            Self::Back => "at its old value".into(),
            Self::Foreign(now) => format!("changed since by another program to {now:?}, left alone"),
            Self::Gone => "no longer there".into(),
            Self::Rebooted => "gone with the reboot".into(),
            Self::Elsewhere(there) => format!("of the network namespace {there}, to be put back there"),
            Self::Failed(why) => format!("cannot be put back: {why}"),
        }
    }
}
