//! Making and binding a socket: the privileged half.

use super::bind::{self, Target};
use super::busy;
use super::device::{Device, device};
use super::errno::explain;
use super::facts::{BusyPoll, Mode, RingSizes, XskFacts};
use super::options::{is_zero_copy, set_busy_poll, set_option, set_tx_budget};
use super::umem::Umem;
use crate::Problem;
use crate::socket::incoming_napi_id;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// TX descriptors per kick in copy mode unless told otherwise (TX_BATCH_SIZE in net/xdp/xsk.c).
const TX_BUDGET_DEFAULT: u32 = 32;

/// What a socket is made with.
#[derive(Clone, Debug)]
pub struct XskOptions {
    /// Entries of the rings; FILL and COMPLETION 0 to share those of the UMEM's first socket on the same queue.
    pub rings: RingSizes,
    /// The best mode to try. [`Mode::Generic`] where the XDP program is attached in generic mode.
    pub best: Mode,
    /// The worst mode to accept.
    pub least: Mode,
    /// TX descriptors that one kick may send in copy mode (Linux 6.17; ignored before).
    pub tx_budget: Option<u32>,
    /// Poll the device by our own calls, where it can be polled.
    pub busy_poll: Option<BusyPoll>,
    /// How long a queue that another socket still holds is tried for.
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
            patience: Duration::from_secs(1),
        }
    }
}

/// A bound AF_XDP socket.
#[derive(Debug)]
pub struct Xsk {
    socket: OwnedFd,
    facts: XskFacts,
}

impl Xsk {
    /// Makes a socket with `umem` and binds it to a queue of an interface of the calling thread's namespace. It needs
    /// CAP_NET_RAW, and CAP_IPC_LOCK or an RLIMIT_MEMLOCK that holds the UMEM.
    pub fn open(umem: &Umem, interface: &str, queue: u32, options: &XskOptions) -> Result<Self, Problem> {
        Self::make(umem, None, interface, queue, options)
    }

    /// Makes a socket that shares `umem` with its first socket, `owner`. On the queue of `owner` it must have neither FILL
    /// nor COMPLETION ring of its own, on any other it must have both (Linux 5.10).
    pub fn share(
        umem: &Umem,
        owner: &Self,
        interface: &str,
        queue: u32,
        options: &XskOptions,
    ) -> Result<Self, Problem> {
        Self::make(umem, Some(owner), interface, queue, options)
    }

    /// The descriptor: to poll, to put into an XSKMAP, to hand over.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// What is known of it.
    pub fn facts(&self) -> &XskFacts {
        &self.facts
    }

    /// Takes it apart, to hand both over.
    pub fn into_parts(self) -> (OwnedFd, XskFacts) {
        (self.socket, self.facts)
    }

    fn make(
        umem: &Umem,
        owner: Option<&Self>,
        interface: &str,
        queue: u32,
        options: &XskOptions,
    ) -> Result<Self, Problem> {
        options.rings.check()?;
        let place = format!("queue {queue} of {interface}");
        let device = device(interface)?;
        let socket = new_socket().map_err(|error| no_socket(&place, &error))?;
        if owner.is_none() {
            register(socket.as_fd(), umem).map_err(|error| not_registered(umem, &error))?;
        }
        set_rings(socket.as_fd(), options.rings)
            .map_err(|error| Problem::failed(format!("cannot make rings for {place}"), explain(&error)))?;
        let tx_budget = options.tx_budget.filter(|budget| set_tx_budget(socket.as_fd(), *budget).is_ok());
        let target = Target { index: device.index, queue, shared: owner.map(Self::socket), patience: options.patience };
        let best = owner.map_or(options.best, |owner| owner.facts.mode);
        let (mode, downgrades) = bind::bind(socket.as_fd(), target, best, options.least)
            .map_err(|(mode, error)| not_bound(&place, mode, &device, &error))?;
        let mode = if is_zero_copy(socket.as_fd()).unwrap_or(false) { Mode::ZeroCopy } else { mode };
        let napi_id = incoming_napi_id(socket.as_fd()).unwrap_or(0);
        let facts = XskFacts {
            interface: interface.to_owned(),
            index: device.index,
            queue,
            mode,
            downgrades,
            rings: options.rings,
            geometry: umem.geometry(),
            pages: umem.pages().clone(),
            tx_budget: tx_budget.unwrap_or(TX_BUDGET_DEFAULT),
            napi_id,
            // Without a NAPI instance there is nothing to poll, and deferred interrupts would only hold frames back.
            busy_poll: options.busy_poll.filter(|_| napi_id != 0),
        };
        if let Some(poll) = facts.busy_poll {
            set_busy_poll(socket.as_fd(), poll).map_err(|error| {
                Problem::failed(format!("cannot busy-poll {place}"), explain(&error))
                    .next("it needs CAP_NET_ADMIN: run as root, or leave busy polling out")
            })?;
        }
        Ok(Self { socket, facts })
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

fn no_socket(place: &str, error: &io::Error) -> Problem {
    let next = match error.raw_os_error() {
        Some(libc::EPERM) => "it needs CAP_NET_RAW: run as root, or ask sidestep control for the socket",
        Some(libc::EAFNOSUPPORT) => "this kernel is built without CONFIG_XDP_SOCKETS: use another kernel",
        _ => "see what the kernel says about it: dmesg | tail",
    };
    Problem::failed(format!("cannot make an AF_XDP socket for {place}"), explain(error)).next(next)
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
