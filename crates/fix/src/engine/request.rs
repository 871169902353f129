//! Requests of operators.

use std::sync::mpsc::SyncSender;

/// A request on its way to the engine.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) line: String,
    pub(super) answer: SyncSender<String>,
}
