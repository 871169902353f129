//! Connecting and accepting datagram sockets over shared memory.

use super::DatagramSocket;
use super::shm::ShmDatagrams;
use crate::stream::shm::{Acceptor, Kind, Refusals, Settings, dial};
use crate::stream::{Credentials, Options};
use sidestep_sys::Problem;
use std::io;
use std::path::Path;
use std::time::Duration;

/// Connects to a [`ShmListener`] at `path` and hands it two rings. It need not have accepted when this returns.
///
/// # Errors
/// Nobody listens there, another user does, or `options` ask for what shared memory cannot do.
pub fn connect_shm(path: &Path, settings: &Settings, options: &Options) -> Result<DatagramSocket, Problem> {
    Ok(DatagramSocket::Shm(ShmDatagrams::new(dial(path, Kind::Datagram, settings, options)?)))
}

/// Accepts datagram sockets over shared memory.
pub struct ShmListener {
    acceptor: Acceptor,
    options: Options,
}

impl ShmListener {
    /// Listens at `path`.
    ///
    /// # Errors
    /// The path cannot be had, or `options` ask for what shared memory cannot do.
    pub fn bind(path: &Path, settings: Settings, options: &Options) -> Result<Self, Problem> {
        Ok(Self { acceptor: Acceptor::bind(path, Kind::Datagram, settings, options)?, options: *options })
    }

    /// Waits for a connector, and returns its socket and who it is.
    ///
    /// # Errors
    /// `WouldBlock` when none came within `timeout`; accepting failed.
    pub fn accept_within(&mut self, timeout: Duration) -> io::Result<(DatagramSocket, Option<Credentials>)> {
        let (mut rings, who) = self.acceptor.accept(timeout)?;
        rings.set_waiting(&self.options)?;
        Ok((DatagramSocket::Shm(ShmDatagrams::new(rings)), who))
    }

    /// Returns the connectors refused so far.
    pub fn refusals(&self) -> Refusals {
        self.acceptor.refusals().copy()
    }
}
