//! The path past the kernel: the link, the stack upon it, and the mirrored routes.

use crate::control_agent::ControlAgent;
use crate::engine::entries::Entries;
use crate::engine::queues::OurQueues;
use crate::reason::Reason;
use crate::route_cache::RouteCache;
use crate::tcp::handles::Handles;
use crate::tcp::header_cache::HeaderCache;
use crate::tcp::output::SegmentOutput;
use crate::tcp::setup::{now, usable_mtu};
use crate::tcp::table::TcpStream;
use crate::udp::room::Rooms;
use sidestep_control_api::counters::{Counter, Counters};
use sidestep_control_api::message::Mode;
use sidestep_frame::xdp::XdpLink;
use sidestep_frame::{FrameLink, Received};
use sidestep_stack::tcp::{ConnectionId, Counter as TcpCounter, Instant, Tcp};
use sidestep_stack::{Checksums, Stack, Verdict};

/// The program's view of payload in a frame: returns the number of bytes that it has taken.
pub(crate) type Deliver<'a> = &'a mut dyn FnMut(TcpStream, &[u8]) -> usize;

/// Everything that carries traffic past the kernel.
#[derive(Debug)]
pub(crate) struct Bypass {
    pub(crate) link: XdpLink,
    pub(crate) stack: Stack,
    pub(crate) routes: RouteCache,
    /// The number of the link's interface.
    pub(crate) device: u32,
    pub(crate) queues: OurQueues,
    pub(crate) mode: Mode,
    pub(crate) checksums: Checksums,
    /// The headers of TCP's segments.
    pub(crate) headers: HeaderCache,
    /// The streams and listeners of the stack's connections.
    pub(crate) handles: Handles,
    /// By the stack's number of a UDP socket: its index in the engine's table.
    pub(crate) owners: Vec<u32>,
    /// The longest IP packet in a frame.
    pub(crate) packet_bytes_max: u16,
    /// The room for datagrams that are unread, or with the program.
    pub(crate) rooms: Rooms,
    pub(crate) entries: Entries,
    /// Set when control has taken the stack back: frames that are held stay readable, nothing new comes or goes.
    pub(crate) lost: Option<Reason>,
}

impl Bypass {
    /// Hands a frame to the stack; returns the owners of UDP sockets, the frame's bytes, and the verdict. Payload of TCP goes
    /// to `deliver`.
    #[inline]
    pub(crate) fn receive<'s>(
        &'s mut self,
        frame: &Received,
        counters: &Counters,
        deliver: Deliver<'_>,
    ) -> (&'s [u32], &'s [u8], Verdict<'s>) {
        let Self { link, stack, routes, device, checksums, headers, handles, owners, .. } = self;
        let (bytes, sending) = link.read_and_send(frame);
        let received = Some(bytes);
        let mut output = SegmentOutput { sending, headers, routes, device: *device, counters, received };
        let mut show = |id: ConnectionId, payload: &[u8]| match handles.stream(id) {
            Some(stream) => deliver(stream, payload),
            None => 0,
        };
        let verdict = stack.receive(now, bytes, *checksums, &mut output, &mut show);
        output.flush();
        (owners, bytes, verdict)
    }

    /// Does something on TCP, and has the segments sent that come of it.
    #[inline]
    pub(crate) fn with_tcp<T>(
        &mut self,
        counters: &Counters,
        work: impl FnOnce(&mut Tcp, Instant, &mut SegmentOutput<'_>) -> T,
    ) -> T {
        let Self { link, stack, headers, routes, device, .. } = self;
        let sending = link.sending();
        let mut output = SegmentOutput { sending, headers, routes, device: *device, counters, received: None };
        let result = work(stack.tcp_mut(), now(), &mut output);
        output.flush();
        result
    }

    /// Drives the stack, if it has anything to do: timers, when the time has been looked at, ACKs that waited for data to ride
    /// on, segments that found no room.
    #[inline]
    pub(crate) fn poll(&mut self, has_time: bool, counters: &Counters) {
        let tcp = self.stack.tcp();
        let has_timers = self.handles.has_listeners() || tcp.connections().0 != 0;
        if tcp.has_due() || has_time && has_timers {
            self.with_tcp(counters, |tcp, now, output| tcp.poll(now, output));
        }
    }

    /// Takes over the interface's MTU for new connections, as far as frames hold it.
    pub(crate) fn set_interface_mtu(&mut self, mtu: u32) {
        let mtu = usable_mtu(mtu, self.packet_bytes_max);
        self.stack.tcp_mut().set_interface_mtu(mtu);
    }

    /// Has control resolve neighbours of connections, and keep them fresh: the kernel does not see that they are in use.
    pub(crate) fn resolve_neighbours(&mut self, agent: &ControlAgent, now_ns: u64) {
        for (address, interface) in self.headers.take_asked(now_ns) {
            agent.resolve(address, interface);
        }
    }

    /// Publishes how connections have ended, and what the link has counted.
    pub(crate) fn publish_counters(&self, counters: &Counters) {
        let ends = [
            (Counter::LostStreams, TcpCounter::LostStreams),
            (Counter::LostBytes, TcpCounter::LostBytes),
            (Counter::OrphansDropped, TcpCounter::OrphansDropped),
            (Counter::GivenUp, TcpCounter::AbortedByTimeout),
        ];
        ends.into_iter().for_each(|(shown, of)| counters.set(shown, self.stack.tcp().counters().value(of)));
        let link = self.link.counters();
        counters.set(Counter::Kicks, link.calls);
        counters.set(Counter::DroppedLong, link.long_dropped);
    }
}

/// The parts of a lost stack that the next one takes over.
#[derive(Debug)]
pub(crate) struct LostStack {
    pub(crate) routes: RouteCache,
    /// Number of its interface.
    pub(crate) device: u32,
    pub(crate) checksums: Checksums,
}
