//! Options of engines and sockets. Plain values, as the C interface needs them.

use sidestep_control_api::message::{BusyPoll, Mode, Queues};
use sidestep_frame::xdp::Kick;
use std::path::PathBuf;
use std::time::Duration;

/// Frames of an engine: 8 MiB of 2 KiB each.
const FRAMES_DEFAULT: u32 = 4096;

/// A dropped engine stays so long at the most: enough for a dozen retransmissions on a local network, and a second of outage
/// to spare. The kernel would go on for 100 s, but in the background.
const LINGER_DEFAULT: Duration = Duration::from_secs(2);

/// The verification of checksums in received frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checksums {
    /// Verified, except for those that senders of this machine left unfinished on a veth, where no device computes them.
    #[default]
    Auto,
    /// Always verified: what senders of this machine have left unfinished on a veth is refused.
    Verify,
    /// Never.
    Trust,
}

/// Options of an engine.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// The interface.
    pub interface: String,
    /// The queues. A port or a group is received past the kernel only by who has every queue that may bring it.
    pub queues: Queues,
    /// Frames of 2 KiB for each queue (eight times as many at the most), a power of two: half are lent to the device, half hold
    /// what is unread or being sent.
    pub frames: u32,
    /// Entries of each ring: a power of two.
    pub ring_entries: u32,
    /// The thread that has the device send frames.
    pub kick: Kick,
    /// The best mode that is wanted.
    pub mode: Mode,
    /// Frames that one kick may send in copy mode (Linux 6.17).
    pub tx_budget: Option<u32>,
    /// Frames lent to the device for receiving by each queue. Few of them stay in the cache. If none is given, half of all; in copy mode
    /// down to 256 while frames come one by one, until a burst needs more. Who receives a feed gives half of all: the first burst after a calm
    /// loses what does not fit otherwise.
    pub fill: Option<u32>,
    /// Poll the device by this thread's calls.
    pub busy_poll: Option<BusyPoll>,
    /// Frames longer than one of ours past the kernel, too, where the interface's MTU has such, and kernel and driver can have them
    /// (Linux 6.6). They are copied once more, and take 4 MiB.
    pub jumbo_frames: bool,
    /// Control's socket; that of this network namespace if none is given.
    pub control: Option<PathBuf>,
    /// The engine's name in `sidestep ps`.
    pub name: String,
    /// The verification of checksums.
    pub checksums: Checksums,
    /// True if datagrams get the time at which they were taken from the ring: a reading of the clock
    /// for each, some 25 ns.
    pub timestamps: bool,
    /// CPU of the control agent, which sleeps nearly always; that of the opening thread if none is given.
    pub control_agent_cpu: Option<u32>,
    /// The settings of TCP: `sidestep_stack::tcp::Config::latency()` by default ([`crate::tcp::profile`]).
    pub tcp: sidestep_stack::tcp::Config,
    /// The time for which a dropped engine stays for streams with unacknowledged data; zero: they are reset at once,
    /// as by SO_LINGER with zero seconds. [`crate::Engine::finish`] says what was lost; else it is said on stderr.
    pub linger: Duration,
    /// Past the kernel where possible; false for the kernel's path alone.
    pub accelerate: bool,
}

impl EngineOptions {
    /// Any queue of `interface`, with everything else as it serves latency on an ordinary host.
    pub fn on(interface: impl Into<String>) -> Self {
        let program = std::env::args_os().next().map(PathBuf::from);
        let name =
            program.as_deref().and_then(std::path::Path::file_name).map(|name| name.to_string_lossy().into_owned());
        Self {
            interface: interface.into(),
            queues: Queues::Any,
            frames: FRAMES_DEFAULT,
            ring_entries: FRAMES_DEFAULT / 2,
            kick: Kick::Caller,
            mode: Mode::ZeroCopy,
            tx_budget: None,
            fill: None,
            busy_poll: None,
            jumbo_frames: true,
            control: None,
            name: name.unwrap_or_else(|| "program".into()),
            checksums: Checksums::Auto,
            timestamps: false,
            control_agent_cpu: None,
            tcp: sidestep_stack::tcp::Config::latency(),
            linger: LINGER_DEFAULT,
            accelerate: true,
        }
    }
}

/// The interface by which datagrams to groups leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MulticastOut {
    /// The engine's interface.
    #[default]
    Engine,
    /// The interface of the route.
    Routes,
    /// The interface of this number: IP_MULTICAST_IF.
    Interface(u32),
}

/// Options of a UDP socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpOptions {
    /// SO_REUSEADDR: several sockets may bind a group's port.
    pub reuse_address: bool,
    /// SO_REUSEPORT. Steering gives a port to one program: the others receive by the kernel what is not steered.
    pub reuse_port: bool,
    /// IPV6_V6ONLY, for the unspecified address of IPv6.
    pub only_v6: bool,
    /// Hops that datagrams to hosts may make.
    pub hop_limit: u8,
    /// Hops that datagrams to groups may make.
    pub multicast_hop_limit: u8,
    /// DSCP and ECN.
    pub type_of_service: u8,
    /// The interface by which datagrams to groups leave.
    pub multicast_out: MulticastOut,
    /// True if members on this host get the datagrams that this socket sends to groups (IP_MULTICAST_LOOP): then the kernel
    /// sends them. Off by default, unlike the kernel's.
    pub multicast_loop: bool,
    /// IP_MULTICAST_ALL: datagrams to groups that other sockets have joined. Off by default, unlike the kernel's.
    pub multicast_all: bool,
    /// True if the kernel may cut datagrams that exceed the path's MTU; else they are refused.
    pub may_fragment: bool,
    /// IP_RECVERR: errors about datagrams to anybody are kept for [`crate::Engine::next_error`]. Without it a socket that has no
    /// peer learns of none, as on Linux.
    pub keep_errors: bool,
    /// The twin's receive buffer, bytes: for datagrams that come by the kernel. 0 for the kernel's default. Beside a program's own socket
    /// it bounds what is unread of those that come past the kernel; 0 for no such bound.
    pub receive_buffer: u32,
}

impl Default for UdpOptions {
    fn default() -> Self {
        Self {
            reuse_address: false,
            reuse_port: false,
            only_v6: false,
            hop_limit: sidestep_stack::udp::HOP_LIMIT_DEFAULT,
            multicast_hop_limit: 1,
            type_of_service: 0,
            multicast_out: MulticastOut::Engine,
            multicast_loop: false,
            multicast_all: false,
            may_fragment: true,
            keep_errors: false,
            receive_buffer: 0,
        }
    }
}
