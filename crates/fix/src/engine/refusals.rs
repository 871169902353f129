//! Counts of the connections that did not become sessions' connections.

/// Connections that did not become sessions' connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refusals {
    /// From a host that may not connect, or without a certificate that its session takes.
    pub address: u64,
    /// They gave up their place to others that came later: see [`PENDING_MAX`](super::PENDING_MAX).
    pub crowd: u64,
    /// They said nothing in time, or ended first.
    pub silent: u64,
    /// Connections whose first bytes were no Logon, or no TLS.
    pub no_logon: u64,
    /// No session has that name.
    pub unknown: u64,
    /// Their session is connected already, or cannot go on.
    pub taken: u64,
    /// A template would have made a session for them, but their Logon was refused. They get no answer.
    pub refused: u64,
    /// As many sessions are kept as templates may make: see `SessionPlan::kept_max`. They get a Logout.
    pub sessions: u64,
}

impl Refusals {
    /// Each reason's name and count.
    pub fn by_reason(self) -> [(&'static str, u64); 8] {
        [
            ("address", self.address),
            ("crowd", self.crowd),
            ("silent", self.silent),
            ("no_logon", self.no_logon),
            ("unknown", self.unknown),
            ("taken", self.taken),
            ("refused", self.refused),
            ("sessions", self.sessions),
        ]
    }
}
