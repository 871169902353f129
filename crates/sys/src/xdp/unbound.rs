//! A socket is made and bound here: the privileged half. Between the two its rings are mapped by their user.

use super::bind::{self, Bound, Sharing, Target};
use super::busy;
use super::device::{Device, device};
use super::errno::explain;
use super::facts::{BusyPoll, Geometry, Mode, Pages, RingSizes, XskFacts};
use super::options::{is_zero_copy, set_busy_poll, set_option, set_tx_budget};
use super::umem::Umem;
use crate::Problem;
use crate::socket::{bind_to_interface, incoming_napi_id};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// The default number of TX descriptors per kick in copy mode (TX_BATCH_SIZE in net/xdp/xsk.c).
const TX_BUDGET_DEFAULT: u32 = 32;

/// The options that a socket is made and bound with.
#[derive(Clone, Debug)]
pub struct XskOptions {
    /// Entries of the rings. FILL and COMPLETION are 0 to share those of the UMEM's first socket on the same queue.
    pub rings: RingSizes,
    /// The best mode to try. [`Mode::Generic`] if the XDP program is attached in generic mode.
    pub best: Mode,
    /// The worst mode to accept.
    pub least: Mode,
    /// TX descriptors that one kick may send in copy mode (Linux 6.17; ignored before).
    pub tx_budget: Option<u32>,
    /// Busy polling of the device by our own calls, if it supports that.
    pub busy_poll: Option<BusyPoll>,
    /// Receives and sends frames of several buffers (XDP_USE_SG, Linux 6.6), if supported. Without it the kernel drops
    /// a frame that is longer than a buffer.
    pub multi_buffer: bool,
    /// The time for which binding is tried again while another socket holds the queue.
    pub patience: Duration,
}

impl Default for XskOptions {
    fn default() -> Self {
        Self {
            rings: RingSizes::default(),
            best: Mode::ZeroCopy,
            least: Mode::Generic,
            tx_budget: None,
            busy_poll: None,
            multi_buffer: false,
            patience: Duration::from_secs(1),
        }
    }
}

/// A socket that has frames and rings but no queue yet. Any Linux lets the rings be mapped in this state
/// ([`Rings::map`]); those of a bound socket only since 6.4.
///
/// [`Rings::map`]: super::Rings::map
#[derive(Debug)]
pub struct Unbound {
    socket: OwnedFd,
    rings: RingSizes,
    geometry: Geometry,
    pages: Pages,
}

impl Unbound {
    /// Makes a socket with `umem` and rings. Needs CAP_NET_RAW, and CAP_IPC_LOCK or an RLIMIT_MEMLOCK that holds the
    /// UMEM. The memory stays registered as long as the socket exists, independently of `umem`.
    pub fn new(umem: &Umem, rings: RingSizes) -> Result<Self, Problem> {
        let unbound = Self::without_frames(umem, rings)?;
        register(unbound.socket(), umem).map_err(|error| not_registered(umem, &error))?;
        Ok(unbound)
    }

    /// Makes a socket that will share the UMEM of another one.
    pub(super) fn without_frames(umem: &Umem, rings: RingSizes) -> Result<Self, Problem> {
        rings.check()?;
        let socket = new_socket().map_err(|error| no_socket(&error))?;
        set_rings(socket.as_fd(), rings)
            .map_err(|error| Problem::failed("cannot make the rings of an AF_XDP socket", explain(&error)))?;
        Ok(Self { socket, rings, geometry: umem.geometry(), pages: umem.pages().clone() })
    }

    /// The descriptor: to map the rings, to hand over.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Returns the descriptor alone.
    pub(crate) fn into_socket(self) -> OwnedFd {
        self.socket
    }

    /// Prevents holders of the descriptor from binding it to another interface: bind(2) of AF_XDP needs no capability.
    /// The kernel respects this since 2023 (xsk_bind of net/xdp/xsk.c), and in stable series with the backport.
    pub fn confine(&self, interface: &str) -> Result<(), Problem> {
        let index = device(interface)?.index;
        bind_to_interface(self.socket(), index).map_err(|error| {
            Problem::failed(format!("cannot confine an AF_XDP socket to {interface}"), explain(&error))
        })
    }

    /// Binds the socket to a queue of an interface of the calling thread's namespace; `options.rings` are those it was
    /// made with. After a failure it can be tried again, also on another queue: xsk_bind of net/xdp/xsk.c then leaves
    /// frames and rings unchanged.
    pub fn bind(&self, interface: &str, queue: u32, options: &XskOptions) -> Result<XskFacts, Problem> {
        self.bind_as(interface, queue, options, None)
    }

    pub(super) fn bind_as(
        &self,
        interface: &str,
        queue: u32,
        options: &XskOptions,
        sharing: Option<Sharing<'_>>,
    ) -> Result<XskFacts, Problem> {
        let place = format!("queue {queue} of {interface}");
        let device = device(interface)?;
        let socket = self.socket();
        let tx_budget = options.tx_budget.filter(|budget| set_tx_budget(socket, *budget).is_ok());
        let target = Target {
            index: device.index,
            queue,
            sharing,
            multi_buffer: options.multi_buffer,
            patience: options.patience,
        };
        let Bound { mode, downgrades, multi_buffer } = bind::bind(socket, target, options.best, options.least)
            .map_err(|(mode, error)| not_bound(&place, mode, &device, &error))?;
        let mode = if is_zero_copy(socket).unwrap_or(false) { Mode::ZeroCopy } else { mode };
        let napi_id = incoming_napi_id(socket).unwrap_or(0);
        let facts = XskFacts {
            interface: interface.to_owned(),
            index: device.index,
            queue,
            mode,
            downgrades,
            rings: self.rings,
            geometry: self.geometry,
            pages: self.pages.clone(),
            tx_budget: tx_budget.unwrap_or(TX_BUDGET_DEFAULT),
            napi_id,
            multi_buffer,
            // Without a NAPI instance there is nothing to poll, and deferred interrupts would only delay frames.
            busy_poll: options.busy_poll.filter(|_| napi_id != 0),
        };
        if let Some(poll) = facts.busy_poll {
            set_busy_poll(socket, poll).map_err(|error| {
                Problem::failed(format!("cannot busy-poll {place}"), explain(&error))
                    .next("it needs CAP_NET_ADMIN: run as root, or leave busy polling out")
            })?;
        }
        Ok(facts)
    }
}

fn new_socket() -> io::Result<OwnedFd> {
    // SAFETY: socket takes no pointer.
    let descriptor = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just returned this descriptor and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

fn register(socket: BorrowedFd<'_>, umem: &Umem) -> io::Result<()> {
    let geometry = umem.geometry();
    let base = umem.locate(0, geometry.bytes()).ok_or(io::ErrorKind::InvalidInput)?;
    let registration = libc::xdp_umem_reg {
        addr: base.as_ptr() as u64,
        len: geometry.bytes() as u64,
        chunk_size: geometry.frame_bytes,
        headroom: geometry.headroom,
        flags: 0,
        tx_metadata_len: 0,
    };
    set_option(socket, libc::SOL_XDP, libc::XDP_UMEM_REG, &registration)
}

fn set_rings(socket: BorrowedFd<'_>, sizes: RingSizes) -> io::Result<()> {
    for (name, entries) in [
        (libc::XDP_UMEM_FILL_RING, sizes.fill),
        (libc::XDP_UMEM_COMPLETION_RING, sizes.completion),
        (libc::XDP_RX_RING, sizes.rx),
        (libc::XDP_TX_RING, sizes.tx),
    ] {
        if entries != 0 {
            set_option(socket, libc::SOL_XDP, name, &entries)?;
        }
    }
    Ok(())
}

fn no_socket(error: &io::Error) -> Problem {
    let next = match error.raw_os_error() {
        Some(libc::EPERM) => "it needs CAP_NET_RAW: run as root, or ask sidestep control for the socket",
        Some(libc::EAFNOSUPPORT) => "this kernel is built without CONFIG_XDP_SOCKETS: use another kernel",
        _ => "see what the kernel says about it: dmesg | tail",
    };
    Problem::failed("cannot make an AF_XDP socket", explain(error)).next(next)
}

fn not_registered(umem: &Umem, error: &io::Error) -> Problem {
    let kibibytes = umem.geometry().bytes().div_ceil(1024);
    let problem = |why: String| Problem::failed(format!("cannot register {kibibytes} KiB of frames"), why);
    if matches!(error.raw_os_error(), Some(libc::ENOBUFS | libc::ENOMEM | libc::EPERM)) {
        let limit = memlock_limit().map_or_else(|| "unknown".into(), |bytes| format!("{} KiB", bytes / 1024));
        return problem(format!("{}: RLIMIT_MEMLOCK is {limit} and CAP_IPC_LOCK is missing", explain(error)))
            .next("raise it (ulimit -l, LimitMEMLOCK= of systemd), give CAP_IPC_LOCK, or ask for fewer frames");
    }
    problem(explain(error)).next("ask for frames of 2048 or 4096 bytes")
}

/// RLIMIT_MEMLOCK, bytes.
fn memlock_limit() -> Option<u64> {
    // SAFETY: rlimit is plain data; all zeroes is valid.
    let mut limit: libc::rlimit = unsafe { std::mem::zeroed() };
    // SAFETY: `limit` is a valid rlimit to write to.
    let result = unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &raw mut limit) };
    (result == 0).then_some(limit.rlim_cur)
}

fn not_bound(place: &str, mode: Mode, device: &Device, error: &io::Error) -> Problem {
    let problem = |why: String| Problem::failed(format!("cannot bind an AF_XDP socket to {place} ({mode})"), why);
    match error.raw_os_error() {
        Some(libc::EBUSY) => problem(format!("{}: {}", explain(error), busy::holders()))
            .next("end that process, choose another queue, or share its UMEM"),
        Some(libc::ENETDOWN) => problem(format!("{}: the interface is down", explain(error)))
            .next(format!("bring it up: ip link set {} up", device.name)),
        Some(libc::EINVAL) => {
            problem(format!("{}: no such queue, or rings missing for the way it is shared", explain(error)))
                .next(format!("see how many queues there are: ethtool -l {}", device.name))
        }
        Some(libc::EOPNOTSUPP) => problem(format!("{}: the driver cannot do it", explain(error)))
            .next("accept copy mode, which every driver with XDP has"),
        _ => problem(explain(error)).next("see what the kernel says about it: dmesg | tail"),
    }
}
