//! The making of a connection, as connect(2) and poll(2) see it.

use super::Stream;
use crate::engine::Woken;
use crate::waiting::Waiting;
use sidestep_socket::tcp::Readiness;
use sidestep_socket::{Engine, Path, Reason};
use std::net::SocketAddr;
use std::sync::atomic::Ordering;

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// On its way.
    Opening,
    /// Made.
    Made,
    /// It has failed with an errno, told once; 0 where it was told.
    Failed(i32),
    /// It cannot go past the kernel, for this reason: nothing was sent.
    Detour(Reason),
}

impl Stream {
    /// Returns whether there is no path past the kernel: it has to begin the connection.
    pub(crate) fn is_detour(&self) -> bool {
        !self.is_connected() && matches!(self.engine.with(|engine| self.progress(engine)), Progress::Detour(_))
    }

    /// Returns whether the connection is being made.
    pub(crate) fn is_opening(&self) -> bool {
        !self.is_connected() && self.engine.with(|engine| self.progress(engine)) == Progress::Opening
    }

    /// Returns whether the connection is being made, and has no port yet.
    pub(crate) fn has_no_port(&self) -> bool {
        let is_unnamed = |engine: &mut Engine| engine.tcp().ends(self.handle).is_ok_and(|(local, _)| local.port() == 0);
        self.engine.with_polled(is_unnamed) && self.is_opening()
    }

    /// Both ends, once this one has a port: while it waits for a neighbour or for ports it has none. `None` where the kernel makes
    /// the connection.
    pub(crate) fn named_ends(&self, waiting: &mut Waiting<'_>) -> Option<(SocketAddr, SocketAddr)> {
        let is_named = |engine: &mut Engine| {
            let has_port = engine.tcp().ends(self.handle).map_or(true, |(local, _)| local.port() != 0);
            (has_port || self.progress(engine) != Progress::Opening).then_some(())
        };
        while self.ends()?.0.port() == 0 && self.is_opening() {
            // A signal is handled when the call is over.
            if !matches!(waiting.wait(&self.engine, &[], is_named), Woken::Ready(())) {
                break;
            }
        }
        self.ends().filter(|(local, _)| local.port() != 0)
    }

    /// How far the connection is. The failure stays to be told.
    pub(crate) fn progress(&self, engine: &mut Engine) -> Progress {
        if self.is_connected() {
            return Progress::Made;
        }
        let mut tcp = engine.tcp();
        if let Ok(Some(reason)) = tcp.detour(self.handle) {
            return Progress::Detour(reason);
        }
        if tcp.path(self.handle) == Ok(Path::Kernel(Reason::Opening)) {
            return Progress::Opening;
        }
        let readiness = tcp.readiness(self.handle).unwrap_or(Readiness::ERROR);
        if readiness.has(Readiness::ERROR) || readiness.has(Readiness::HANGUP) {
            return Progress::Failed(0);
        }
        if !readiness.has(Readiness::WRITABLE) {
            return Progress::Opening;
        }
        if !self.is_connected.swap(true, Ordering::AcqRel) {
            self.report_path(engine);
        }
        Progress::Made
    }
}
