//! TCP past the kernel: the stack's connections, and who holds them.

use super::headers::{Answered, Headers, Sink};
use super::{Deliver, TcpListener, TcpStream};
use crate::control_agent::ControlAgent;
use crate::engine::Fast;
use crate::route_cache::RouteCache;
use sidestep_control_api::counters::{Counter, Counters};
use sidestep_control_api::heartbeat::monotonic_ns;
use sidestep_frame::xdp::Sending;
use sidestep_stack::Segment;
use sidestep_stack::tcp::{Config, ConnectionId, Incoming, Instant, ListenerId, Received, Secret, Tcp};
use sidestep_sys::Problem;
use std::fmt;

/// Ethernet with two tags: what a frame holds beside the IP packet.
const ETHERNET_BYTES_MAX: usize = 22;

/// A segment, and the frame that it came in, which the way back can be told from.
pub(crate) struct Arrived<'a> {
    pub(crate) segment: &'a Segment<'a>,
    pub(crate) frame: &'a [u8],
}

/// The least MTU that TCP is told of ([`Config::mtu_bytes`]).
const MTU_LEAST: u32 = 576;

/// Everything of TCP that goes past the kernel.
pub(crate) struct Segments {
    /// The longest IP packet that a frame holds.
    room: u16,
    pub(super) tcp: Tcp,
    pub(super) headers: Headers,
    /// By the connection's index: the handle of its holder.
    owners: Vec<Option<TcpStream>>,
    /// By the listener's index.
    listeners: Vec<Option<TcpListener>>,
    /// Listeners there are.
    listening: usize,
}

impl Segments {
    /// An empty one; frames and interface limit the packets, the settings those of an interface of which nothing is known.
    pub(crate) fn new(config: &Config, mtu: Option<u32>, frame_bytes: u32) -> Result<Self, Problem> {
        let room = u16::try_from(frame_bytes.saturating_sub(ETHERNET_BYTES_MAX as u32)).unwrap_or(u16::MAX);
        let mtu_bytes = u32::from(fitting(mtu.unwrap_or(config.mtu_bytes), room));
        let secret = secret().map_err(|error| Problem::failed("cannot begin TCP without random numbers", error))?;
        let tcp = Tcp::new(Config { mtu_bytes, ..config.clone() }, secret, now());
        let (owners, listeners) = (Vec::new(), Vec::new());
        Ok(Self { room, tcp, headers: Headers::default(), owners, listeners, listening: 0 })
    }

    /// The interface has this MTU now: what is begun from here on asks for it, as far as the frames hold it.
    pub(crate) fn follow_mtu(&mut self, mtu: u32) {
        self.tcp.set_interface_mtu(fitting(mtu, self.room));
    }

    /// Whether TCP has to be polled: for what waits to leave at once, for its timers when the time has been looked at.
    #[inline]
    pub(crate) fn has_work(&self, has_time: bool) -> bool {
        self.tcp.has_due() || has_time && (self.listening != 0 || self.tcp.connections().0 != 0)
    }

    /// A segment that has come.
    #[inline]
    pub(crate) fn receive(
        &mut self,
        Arrived { segment, frame }: Arrived<'_>,
        sending: Sending<'_>,
        routes: &RouteCache,
        device: u32,
        counters: &Counters,
        deliver: Deliver<'_>,
    ) {
        let Self { tcp, headers, owners, .. } = self;
        let answered = Some(Answered { frame, addresses: &segment.addresses });
        let mut sink = Sink { sending, headers, routes, device, counters, answered };
        let mut show = |id: ConnectionId, bytes: &[u8]| match owners.get(id.index()) {
            Some(Some(stream)) => deliver(*stream, bytes),
            _ => 0,
        };
        let incoming =
            Incoming { addresses: &segment.addresses, segment: segment.view, is_verified: segment.is_verified };
        let counter = match tcp.receive(now(), &incoming, &mut sink, &mut show) {
            Received::Damaged => Counter::DroppedChecksum,
            Received::Nobody => Counter::DroppedNoSocket,
            _ => Counter::Delivered,
        };
        sink.flush();
        counters.add(counter, 1);
    }

    pub(super) fn own(&mut self, id: ConnectionId, stream: TcpStream) {
        put(&mut self.owners, id.index(), stream);
    }

    pub(super) fn disown(&mut self, id: ConnectionId) {
        self.owners.get_mut(id.index()).into_iter().for_each(|owner| *owner = None);
    }

    pub(super) fn owner(&self, id: ConnectionId) -> Option<TcpStream> {
        self.owners.get(id.index()).copied().flatten()
    }

    pub(super) fn begin_listening(&mut self, id: ListenerId, listener: TcpListener) {
        put(&mut self.listeners, id.index(), listener);
        self.listening += 1;
    }

    pub(super) fn end_listening(&mut self, id: ListenerId) {
        self.listeners.get_mut(id.index()).into_iter().for_each(|owner| *owner = None);
        self.listening -= 1;
    }

    pub(super) fn listener(&self, id: ListenerId) -> Option<TcpListener> {
        self.listeners.get(id.index()).copied().flatten()
    }
}

fn fitting(mtu: u32, room: u16) -> u16 {
    mtu.min(room.into()).max(MTU_LEAST) as u16
}

fn put<T: Clone>(places: &mut Vec<Option<T>>, index: usize, value: T) {
    if places.len() <= index {
        places.resize(index + 1, None);
    }
    places[index] = Some(value);
}

impl fmt::Debug for Segments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Segments").field("connections", &self.tcp.connections()).finish_non_exhaustive()
    }
}

impl Fast {
    /// Does something on TCP, and makes leave what comes of it.
    #[inline]
    pub(crate) fn with_tcp<T>(
        &mut self,
        counters: &Counters,
        work: impl FnOnce(&mut Tcp, Instant, &mut Sink<'_>) -> T,
    ) -> T {
        let Self { link, segments, routes, device, .. } = self;
        let headers = &mut segments.headers;
        let mut sink = Sink { sending: link.sending(), headers, routes, device: *device, counters, answered: None };
        let result = work(&mut segments.tcp, now(), &mut sink);
        sink.flush();
        result
    }

    /// Has control ask for neighbours of connections, and keep them fresh: the kernel does not see that they are in use.
    pub(crate) fn ask_for_neighbours(&mut self, agent: &ControlAgent, now_ns: u64) {
        for (address, interface) in self.segments.headers.take_asked(now_ns) {
            agent.resolve(address, interface);
        }
    }

    /// How connections have ended: for who looks from outside.
    pub(crate) fn count_ends(&self, counters: &Counters) {
        use sidestep_stack::tcp::Counter as Of;
        let ends = [
            (Counter::LostStreams, Of::LostStreams),
            (Counter::LostBytes, Of::LostBytes),
            (Counter::OrphansDropped, Of::OrphansDropped),
            (Counter::GivenUp, Of::AbortedByTimeout),
        ];
        ends.into_iter().for_each(|(shown, of)| counters.set(shown, self.segments.tcp.counters().value(of)));
    }

    /// Timers, ACKs that waited for data to ride on, segments that found no room.
    #[inline]
    pub(crate) fn poll_tcp(&mut self, counters: &Counters) {
        self.with_tcp(counters, |tcp, now, sink| tcp.poll(now, sink));
    }
}

/// The stack's time: CLOCK_MONOTONIC.
#[inline]
fn now() -> Instant {
    Instant::from_nanos(monotonic_ns())
}

fn secret() -> std::io::Result<Secret> {
    let mut numbers = [0; 4];
    for number in &mut numbers {
        let mut bytes = [0; 8];
        // Eight bytes come whole (getrandom(2): up to 256 do).
        rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
        *number = u64::from_ne_bytes(bytes);
    }
    Ok(Secret(numbers))
}
