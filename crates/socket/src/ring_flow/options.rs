//! Options of a flow.

use crate::options::{Checksums, EngineOptions};
use std::path::PathBuf;

/// Options of a flow.
#[derive(Clone, Debug)]
pub struct FlowOptions {
    /// The interface.
    pub interface: String,
    /// The feed's name: flows of this user that give the same name on this interface share its rings, and each of them receives the
    /// packets of all. Empty for rings of its own.
    pub feed: String,
    /// True if the flow is to be able to sleep until a packet comes ([`super::Flow::wait`] with a strategy that parks). Each packet then
    /// costs the steering program a look at this flow's flag, and a wake-up where the flow sleeps.
    pub doorbell: bool,
    /// The verification of checksums, which nobody has verified before.
    pub checksums: Checksums,
    /// Control's socket; that of this network namespace if none is given.
    pub control: Option<PathBuf>,
    /// The flow's name in `sidestep ps`.
    pub name: String,
    /// The receive buffer of each kernel socket, bytes: for what comes by the kernel. 0 for the kernel's default.
    pub receive_buffer: u32,
    /// By rings where possible; false for kernel sockets alone.
    pub accelerate: bool,
}

impl FlowOptions {
    /// Rings of its own on `interface`, without a doorbell.
    pub fn on(interface: impl Into<String>) -> Self {
        let EngineOptions { interface, name, .. } = EngineOptions::on(interface);
        Self {
            interface,
            feed: String::new(),
            doorbell: false,
            checksums: Checksums::Auto,
            control: None,
            name,
            receive_buffer: 0,
            accelerate: true,
        }
    }

    /// Shares the rings of the feed of this name.
    #[must_use]
    pub fn feed(self, name: impl Into<String>) -> Self {
        Self { feed: name.into(), ..self }
    }

    /// Makes the flow able to sleep.
    #[must_use]
    pub fn doorbell(self, doorbell: bool) -> Self {
        Self { doorbell, ..self }
    }

    /// Verifies checksums in this way.
    #[must_use]
    pub fn checksums(self, checksums: Checksums) -> Self {
        Self { checksums, ..self }
    }
}
