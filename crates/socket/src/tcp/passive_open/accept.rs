//! Accepting connections, past the kernel and from the kernel twin.

use crate::error::Error;
use crate::fallback::tcp::Twin;
use crate::reason::Reason;
use crate::tcp::Tcp;
use crate::tcp::error::TcpError;
use crate::tcp::streams::{Steered, Stream, StreamState};
use crate::tcp::table::{TcpListener, TcpStream};
use rustix::io::Errno;
use sidestep_control_api::message::{Entry, Protocol};
use sidestep_stack::tcp::{self, ListenerId};
use std::os::fd::AsFd;
use std::sync::Arc;

impl Tcp<'_> {
    /// The next connection; `None` when none waits. Those past the kernel come first.
    pub fn accept(&mut self, handle: TcpListener) -> Result<Option<TcpStream>, TcpError> {
        self.check()?;
        if let Some(stream) = self.engine.streams.listeners.at(handle.0)?.accepted.pop_front() {
            return Ok(Some(stream));
        }
        match self.accept_accelerated(handle)? {
            Some(stream) => Ok(Some(stream)),
            None => self.accept_by_kernel(handle),
        }
    }

    /// The next connection past the kernel.
    pub(crate) fn accept_accelerated(&mut self, handle: TcpListener) -> Result<Option<TcpStream>, TcpError> {
        let listener = self.engine.streams.listeners.at(handle.0)?;
        let (id, twin, entry) = (listener.id, Arc::clone(&listener.twin), listener.entry);
        id.map_or(Ok(None), |id| self.accept_past_kernel(handle, id, &twin, entry))
    }

    fn accept_past_kernel(
        &mut self,
        handle: TcpListener,
        listener: ListenerId,
        twin: &Arc<Twin>,
        entry: Option<Entry>,
    ) -> Result<Option<TcpStream>, TcpError> {
        let counters = &self.engine.counters;
        let Some(bypass) = self.engine.bypass.as_mut() else { return Ok(None) };
        let id = match bypass.stack.tcp_mut().accept(listener) {
            Err(tcp::Error::WouldBlock) => return Ok(None),
            accepted => accepted?,
        };
        let facts = bypass.stack.tcp().facts(id)?;
        let mtu = bypass.headers.mtu(id).unwrap_or(u32::MAX).min(bypass.stack.tcp().config().mtu_bytes);
        if mtu != u32::from(facts.path_mtu) {
            bypass.with_tcp(counters, |tcp, now, output| tcp.set_path_mtu(now, id, mtu as u16, output))?;
        }
        let (local, remote) = (facts.flow.local(), facts.flow.remote());
        let vlan = entry.and_then(|entry| entry.vlan());
        let flow = Entry::Flow { protocol: Protocol::Tcp, local, remote, vlan };
        let steered = Some(Steered { entry: None, flow, twin: Arc::clone(twin), listener: Some(handle) });
        let kept = self.register(Stream {
            local,
            remote,
            asked: None,
            is_beside: false,
            state: StreamState::Accelerated { id, steered },
            twin: None,
        });
        kept.map(Some).ok_or(TcpError::Stack(tcp::Error::TooManyConnections))
    }

    fn accept_by_kernel(&mut self, handle: TcpListener) -> Result<Option<TcpStream>, TcpError> {
        let listener = self.engine.streams.listeners.at(handle.0)?;
        if listener.is_beside || listener.is_twin_watched && !listener.is_twin_ready {
            return Ok(None);
        }
        let (socket, remote) = match listener.kernel.accept(&listener.options) {
            Ok(accepted) => accepted,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                self.rearm_twin(handle)?;
                return Ok(None);
            }
            // The peer is gone already: the next one, at the next call (accept(2) names these errors).
            Err(error) if error.raw_os_error() == Some(Errno::CONNABORTED.raw_os_error()) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let reason = listener.detour.unwrap_or(Reason::CameByKernel);
        let local = socket.local_addr()?.as_socket().unwrap_or(listener.local);
        let stream = Stream {
            local,
            remote,
            asked: None,
            is_beside: false,
            state: StreamState::Kernel(socket, reason),
            twin: None,
        };
        let key = self.engine.streams.streams.insert(stream);
        key.map(|key| Some(TcpStream(key))).ok_or(TcpError::Stack(tcp::Error::TooManyConnections))
    }

    /// The kernel twin is empty: the control agent watches it again.
    fn rearm_twin(&mut self, handle: TcpListener) -> Result<(), Error> {
        let listener = self.engine.streams.listeners.at(handle.0)?;
        if let (true, Some(agent)) = (listener.is_twin_watched, &self.engine.agent) {
            listener.is_twin_watched = agent.watch_again(listener.kernel.as_fd(), handle.token()).is_ok();
        }
        listener.is_twin_ready = false;
        Ok(())
    }
}
