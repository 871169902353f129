//! The part of streams that a thread has once: the engine past the kernel, and the buffer for reads.

use super::unread::ReadBuffer;
use crate::{Engine, EngineOptions, Error, Queues};
use sidestep_sys::{Problem, cpu};
use std::io::{self, ErrorKind};
use std::time::Duration;

/// The longest sleep of a call between two polls of the engine: far below the deadline of its heartbeat.
const POLL_EVERY: Duration = Duration::from_millis(1);

/// The engine that the streams of one thread share; none before the first of them goes past the kernel.
///
/// Every call on a [`Stream`](super::Stream) takes it: the one that it was made with. Streams of the kernel and of shared memory use
/// only its read buffer, which all streams of the thread share. It has one [`Engine`], and so one interface: that of the first
/// endpoint that names one.
///
/// A call that sleeps does not poll the engine. A thread that has one reads its other streams with
/// [`Waiting::Spin`](super::Waiting::Spin); [`connect`](super::connect) to TCP and
/// [`Listener::accept_within`](super::Listener::accept_within) poll it while they wait.
///
/// A read of a stream past the kernel polls the engine, once for all streams that are read in turn: the first one gets its
/// payload where it stands in the frame, the payload of the others waits in their receive buffers. A program calls
/// [`Io::poll`] after each round of reads: it polls where no read has done so, for connections that are not read.
#[derive(Debug, Default)]
pub struct Io {
    engine: Option<Engine>,
    /// The name of the engine at the control plane.
    name: String,
    /// The number of times that reads have polled the engine.
    pub(super) polls: u64,
    /// A stream was read since the last [`Io::poll`].
    pub(super) was_read: bool,
    /// Bytes of streams that are not shown where they came.
    pub(super) buffer: ReadBuffer,
}

impl Io {
    /// Makes one whose engine, when it is needed, has this name at the control plane.
    pub fn named(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }

    /// Makes one over an engine that is open.
    pub fn over(engine: Engine) -> Self {
        Self { engine: Some(engine), ..Self::default() }
    }

    /// Returns the engine, if one is used.
    pub fn engine(&self) -> Option<&Engine> {
        self.engine.as_ref()
    }

    /// Returns the engine, if one is used.
    pub fn engine_mut(&mut self) -> Option<&mut Engine> {
        self.engine.as_mut()
    }

    /// Returns whether an engine is used: its events are told by no descriptor of a stream.
    #[inline]
    pub fn has_engine(&self) -> bool {
        self.engine.is_some()
    }

    /// Polls the engine, unless a read has done so since the last call. Without an engine it does nothing.
    ///
    /// # Errors
    /// The process is not the one that opened the engine.
    #[inline]
    pub fn poll(&mut self) -> Result<(), Error> {
        if std::mem::take(&mut self.was_read) {
            return Ok(());
        }
        self.engine.as_mut().map_or(Ok(()), |engine| engine.poll().map(drop))
    }

    /// Returns how long a call may sleep before the engine has to be polled again.
    pub(super) fn slice(&self, timeout: Duration) -> Duration {
        if self.has_engine() { timeout.min(POLL_EVERY) } else { timeout }
    }

    #[inline]
    pub(crate) fn connected_engine(&mut self) -> io::Result<&mut Engine> {
        self.engine.as_mut().ok_or_else(|| ErrorKind::NotConnected.into())
    }

    #[inline]
    pub(super) fn engine_and_buffer(&mut self) -> io::Result<(&mut Engine, &mut ReadBuffer)> {
        let Self { engine, buffer, .. } = self;
        Ok((engine.as_mut().ok_or(ErrorKind::NotConnected)?, buffer))
    }

    /// Returns the engine, opened at its first use. Whoever listens comes before those who connect, so its queues are those
    /// that a listener needs where there is one.
    pub(super) fn open_engine(&mut self, interface: &str, queues: Queues) -> Result<&mut Engine, Problem> {
        if self.engine.is_none() {
            // The control agent is not to wait for a thread that spins.
            let control_agent_cpu = cpu::helper_cpus(&cpu::allowed()).and_then(|others| others.first().copied());
            let mut options = EngineOptions { queues, control_agent_cpu, ..EngineOptions::on(interface) };
            if !self.name.is_empty() {
                options.name.clone_from(&self.name);
            }
            self.engine = Some(Engine::open(&options)?);
        }
        self.engine.as_mut().ok_or_else(|| Problem::failed("cannot bypass the kernel", "the engine is gone"))
    }
}
