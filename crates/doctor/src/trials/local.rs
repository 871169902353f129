//! Trials on this host that touch no interface but loopback.

use super::Outcome;
use rustix::fs::{Access, access, ftruncate};
use sidestep_sys::memory;
use sidestep_sys::perf::{Recorder, Tracefs, Tracepoint};
use sidestep_sys::uring::SocketRing;
use sidestep_sys::{Problem, interface};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::time::Duration;

/// The longest wait for a message over loopback.
const WAIT: Duration = Duration::from_secs(2);
/// The memory that is tried, bytes.
const MEMORY_BYTES: usize = 1 << 20;

/// Sends a message over UDP and over TCP.
pub(super) fn loopback() -> Outcome {
    interface::check_loopback()?;
    let failed = |what: &str, error: io::Error| {
        Problem::failed(format!("cannot send over {what} on 127.0.0.1"), error)
            .next("see what filters loopback: nft list ruleset")
    };
    datagram().map_err(|error| failed("UDP", error))?;
    stream().map_err(|error| failed("TCP", error))?;
    Ok("UDP and TCP work on loopback".into())
}

fn datagram() -> io::Result<()> {
    let one = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let other = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    other.set_read_timeout(Some(WAIT))?;
    one.send_to(b"hello", other.local_addr()?)?;
    let mut buffer = [0; 8];
    other.recv(&mut buffer).map(drop)
}

fn stream() -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let mut client = TcpStream::connect_timeout(&listener.local_addr()?, WAIT)?;
    let (mut server, _) = listener.accept()?;
    server.set_read_timeout(Some(WAIT))?;
    client.write_all(b"hello")?;
    server.read_exact(&mut [0; 5])
}

/// Makes an io_uring as the paths `uring` and `uring-spin` do.
pub(super) fn io_uring() -> Outcome {
    let failed = |error: io::Error| Problem::failed("cannot make an io_uring", error);
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
    SocketRing::new(socket.as_fd(), false, true, WAIT).map_err(failed)?;
    Ok("io_uring works".into())
}

/// Opens a tracepoint on one CPU, and records nothing.
pub(super) fn tracepoints(cpus: &[u32]) -> Outcome {
    const NAME: &str = "sched/sched_switch";
    let tracefs = Tracefs::open()?;
    let format =
        tracefs.format(NAME).map_err(|error| Problem::failed(format!("cannot read the tracepoint {NAME}"), error))?;
    let tracepoint = Tracepoint { name: NAME.into(), id: format.id, filter: String::new() };
    let cpu = cpus.first().copied().unwrap_or(0);
    Recorder::open(&[cpu], &[tracepoint], 64 << 10)?;
    Ok("the kernel's tracepoints can be recorded".into())
}

/// Maps memory without a name, and asks whether names can be made in /dev/shm.
pub(super) fn shared_memory() -> Outcome {
    let failed = |error: io::Error| {
        Problem::failed("cannot make shared memory", error)
            .next("raise the memory limit of this process: systemctl show -p MemoryMax, ulimit -v")
    };
    let memory = memory::memfd("sidestep-doctor", false).map_err(failed)?;
    ftruncate(&memory, MEMORY_BYTES as u64).map_err(|error| failed(error.into()))?;
    memory::Mapping::shared(memory.as_fd(), MEMORY_BYTES, memory::Access::ReadWrite).map_err(failed)?;
    access("/dev/shm", Access::WRITE_OK).map_err(|error| {
        Problem::failed("cannot make rings in /dev/shm", io::Error::from(error))
            .next("mount it: mount -t tmpfs -o mode=1777 tmpfs /dev/shm")
    })?;
    Ok("shared memory works".into())
}
