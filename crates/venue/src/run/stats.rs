//! What an exchange has done.

use super::Exchange;
use crate::feed::{LineCounters, RerequestCounters};
use crate::fix::FixCounters;
use crate::glimpse::GlimpseCounters;
use crate::load::{Fault, Recording, RecordingCounters};
use crate::matching::Totals;
use crate::ouch::OuchCounters;
use sidestep_sys::clock;
use std::net::SocketAddr;

/// Counts of an exchange.
#[derive(Debug, Clone)]
pub struct Stats {
    /// Time since it was opened, ns.
    pub elapsed_ns: u64,
    /// Messages that were published; the last sequence number.
    pub messages: u64,
    /// Messages of the load since the start of market hours; of a recording, since its times are waited for.
    pub load: u64,
    /// Of a recorded load.
    pub recording: Option<RecordingCounters>,
    /// How late a message of the load was at most, ns.
    pub late_max_ns: u64,
    /// Live orders.
    pub live: usize,
    /// Orders, trades and shares.
    pub totals: Totals,
    /// Of each line.
    pub lines: Vec<LineStats>,
    /// Of the re-request server.
    pub rerequest: Option<RerequestCounters>,
    /// Of the snapshot server.
    pub glimpse: Option<GlimpseCounters>,
    /// Of the OUCH server, and its connections now.
    pub ouch: Option<(OuchCounters, usize)>,
    /// Of FIX orders.
    pub fix: Option<FixCounters>,
}

/// Counts of a line and its socket.
#[derive(Debug, Clone)]
pub struct LineStats {
    /// Where it sends.
    pub group: SocketAddr,
    /// What it sent.
    pub counters: LineCounters,
    /// Datagrams that the kernel did not take.
    pub failed: u64,
    /// Why the last of them was not taken.
    pub last_error: Option<String>,
}

impl Exchange {
    /// Why a recorded load has ended before its end.
    pub fn fault(&self) -> Option<&Fault> {
        self.day.recording()?.fault()
    }

    /// What it has done so far.
    pub fn stats(&self) -> Stats {
        let matching = &self.day.core.matching;
        let line = |sender: &super::Sender| LineStats {
            group: sender.group(),
            counters: sender.line.counters(),
            failed: sender.failed(),
            last_error: sender.last_error(),
        };
        Stats {
            elapsed_ns: clock::monotonic_ns().saturating_sub(self.started_ns),
            messages: self.day.core.output.history.next() - 1,
            load: self.day.steps(),
            recording: self.day.recording().map(Recording::counters),
            late_max_ns: self.day.late_max_ns(),
            live: matching.live(),
            totals: matching.totals(),
            lines: self.senders.iter().map(line).collect(),
            rerequest: self.requests.as_ref().map(|requests| requests.server.counters()),
            glimpse: self.glimpse.as_ref().map(|door| door.service.counters()),
            ouch: self.ouch.as_ref().map(|door| (door.service.counters(), door.connections())),
            fix: self.fix.as_ref().map(super::Fix::counters),
        }
    }
}
