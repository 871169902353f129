//! Events, readiness, errors, options and facts of streams and listeners.

use crate::error::Error;
use crate::fallback::tcp::apply;
use crate::reason::{Path, Reason};
use crate::tcp::Tcp;
use crate::tcp::data::Found;
use crate::tcp::error::TcpError;
use crate::tcp::streams::StreamState;
use crate::tcp::table::{TcpEvent, TcpListener, TcpStream};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sidestep_stack::tcp::{Counter, Event, Facts, Options, Readiness};
use std::net::SocketAddr;

impl Tcp<'_> {
    /// Returns the next stream past the kernel, or listener, that has changed; each once. Of a stream by
    /// the kernel there is one event, when its connection begins there: ask [`Tcp::readiness`] from then on, or try.
    pub fn next_event(&mut self) -> Option<TcpEvent> {
        if let Some(event) = self.engine.streams.events.pop() {
            return Some(event);
        }
        let bypass = self.engine.bypass()?;
        loop {
            let event = match bypass.stack.tcp_mut().next_event()? {
                Event::Connection(id) => bypass.handles.stream(id).map(TcpEvent::Stream),
                Event::Listener(id) => bypass.handles.listener(id).map(TcpEvent::Listener),
            };
            if event.is_some() {
                return event;
            }
        }
    }

    /// Returns the calls that would not block. A system call where the kernel carries the stream.
    pub fn readiness(&mut self, stream: TcpStream) -> Result<Readiness, TcpError> {
        match self.find(stream) {
            Ok(Found::Accelerated(bypass, _, id)) => Ok(bypass.stack.tcp().readiness(id)),
            Ok(Found::Kernel(socket, _)) => of_kernel(socket),
            Ok(Found::Opening(_)) => Ok(Readiness::NONE),
            Err(TcpError::Refused(error)) => Err(error.into()),
            // On its way to the kernel.
            Err(error) if error.is_would_block() => Ok(Readiness::NONE),
            // Lost, or failed.
            Err(_) => Ok(Readiness::READABLE | Readiness::HANGUP | Readiness::ERROR),
        }
    }

    /// The error that has ended a stream, or the ICMP error of a peer that cannot be reached; told once.
    pub fn take_error(&mut self, stream: TcpStream) -> Result<Option<TcpError>, TcpError> {
        if let StreamState::Failed(error, is_told) = &mut self.engine.streams.streams.at(stream.0)?.state {
            return Ok((!std::mem::replace(is_told, true)).then_some(*error));
        }
        match self.find(stream) {
            Ok(Found::Accelerated(bypass, _, id)) => Ok(bypass.stack.tcp_mut().take_error(id)?.map(TcpError::Stack)),
            Ok(Found::Kernel(socket, _)) => Ok(socket.take_error()?.map(TcpError::from)),
            Ok(Found::Opening(_)) => Ok(None),
            Err(lost @ TcpError::Lost(_)) => Ok(Some(lost)),
            Err(error) if error.is_would_block() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A stream's options; of the kernel's the ones that were never asked of it are not known: `None`.
    pub fn options(&mut self, stream: TcpStream) -> Result<Option<Options>, TcpError> {
        match self.find(stream)? {
            Found::Accelerated(bypass, _, id) => Ok(Some(bypass.stack.tcp().options(id)?)),
            Found::Kernel(..) => Ok(None),
            Found::Opening(opening) => Ok(Some(opening.options)),
        }
    }

    /// Changes a stream's options; what they held back leaves at once. By the kernel: no-delay, cork, keep-alive, user
    /// timeout, abort on close and segment size; buffers, quick ACKs and congestion control stay as the host is set up.
    pub fn set_options(&mut self, stream: TcpStream, options: Options) -> Result<(), TcpError> {
        match self.find(stream)? {
            Found::Accelerated(bypass, counters, id) => {
                bypass.headers.set_service(id, options.service);
                Ok(bypass.with_tcp(counters, |tcp, now, output| tcp.set_options(now, id, options, output))?)
            }
            Found::Kernel(socket, _) => Ok(apply(socket, &options)?),
            Found::Opening(opening) => {
                opening.options = options;
                Ok(())
            }
        }
    }

    /// The stack's facts about a stream; `None` of the kernel's.
    pub fn facts(&mut self, stream: TcpStream) -> Result<Option<Facts>, TcpError> {
        match self.find(stream)? {
            Found::Accelerated(bypass, _, id) => Ok(Some(bypass.stack.tcp().facts(id)?)),
            Found::Kernel(..) | Found::Opening(_) => Ok(None),
        }
    }

    /// The path of a stream's bytes, with the reason. It does not change while the stream is open, once the connection is made:
    /// before it begins, or begins again, it is [`Reason::Opening`].
    pub fn path(&mut self, stream: TcpStream) -> Result<Path, TcpError> {
        self.check()?;
        let best = self.engine.best_path();
        match self.engine.streams.streams.at(stream.0)?.state {
            StreamState::Kernel(_, reason) | StreamState::Lost(reason) | StreamState::Detour(reason) => {
                Ok(Path::Kernel(reason))
            }
            StreamState::Opening(_) => Ok(Path::Kernel(Reason::Opening)),
            StreamState::Failed(error, _) => Err(error),
            StreamState::Accelerated { .. } | StreamState::HandingOver => Ok(best),
        }
    }

    /// Returns whether the kernel has taken the connection over from the stack.
    pub fn is_handed_over(&mut self, stream: TcpStream) -> bool {
        let stream = self.engine.streams.streams.at(stream.0);
        stream.is_ok_and(|stream| matches!(stream.state, StreamState::Kernel(_, Reason::HandedOver)))
    }

    /// Returns whether a hand-over has begun that control has not answered yet: calls on the stream would block until then.
    pub fn is_handing_over(&mut self, stream: TcpStream) -> bool {
        self.engine.streams.streams.at(stream.0).is_ok_and(|stream| matches!(stream.state, StreamState::HandingOver))
    }

    /// The reason why a connection of [`Tcp::connect_beside`] did not begin: the caller connects its own socket.
    pub fn detour(&mut self, stream: TcpStream) -> Result<Option<Reason>, TcpError> {
        self.check()?;
        match self.engine.streams.streams.at(stream.0)?.state {
            StreamState::Detour(reason) => Ok(Some(reason)),
            _ => Ok(None),
        }
    }

    /// The best path of a listener's connections, with the reason.
    pub fn listener_path(&mut self, listener: TcpListener) -> Result<Path, Error> {
        self.check()?;
        let best = self.engine.best_path();
        let detour: Option<Reason> = self.engine.streams.listeners.at(listener.0)?.detour;
        Ok(detour.map_or(best, Path::Kernel))
    }

    /// The address and port that a listener is bound to.
    pub fn local(&mut self, listener: TcpListener) -> Result<SocketAddr, Error> {
        self.check()?;
        Ok(self.engine.streams.listeners.at(listener.0)?.local)
    }

    /// The value of a counter of connections past the kernel, since the present stack was opened. A stream that was
    /// closed has no error any more: [`Counter::LostStreams`] and [`Counter::LostBytes`] count for all of them.
    pub fn count(&self, counter: Counter) -> u64 {
        self.engine.bypass.as_ref().map_or(0, |bypass| bypass.stack.tcp().counters().value(counter))
    }

    /// Closed streams whose data is not all acknowledged, and the memory that they hold, bytes.
    pub fn orphans(&self) -> (u32, u64) {
        self.engine.bypass.as_ref().map_or((0, 0), |bypass| bypass.stack.tcp().orphans())
    }

    /// Connections past the kernel: those there are, and of them in TIME-WAIT.
    pub fn connections(&self) -> (u32, u32) {
        self.engine.bypass.as_ref().map_or((0, 0), |bypass| bypass.stack.tcp().connections())
    }
}

fn of_kernel(socket: &socket2::Socket) -> Result<Readiness, TcpError> {
    let mut asked = [PollFd::new(socket, PollFlags::IN | PollFlags::OUT | PollFlags::RDHUP)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut asked, Some(&now)).map_err(|errno| TcpError::Kernel(errno.raw_os_error()))?;
    let told = asked[0].revents();
    let bits = [
        (PollFlags::IN, Readiness::READABLE),
        (PollFlags::OUT, Readiness::WRITABLE),
        (PollFlags::RDHUP, Readiness::PEER_CLOSED),
        (PollFlags::HUP, Readiness::HANGUP),
        (PollFlags::ERR, Readiness::ERROR),
    ];
    let ready = bits.into_iter().filter(|(flag, _)| told.contains(*flag));
    Ok(ready.fold(Readiness::NONE, |all, (_, bit)| all | bit))
}
