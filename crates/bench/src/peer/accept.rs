//! The peer of `bench connect`: answers one message per connection, and closes it.

use super::protocol::Done;
use super::watch::Watch;
use crate::bypass::StackListener;
use crate::cpu_time::SpentSince;
use crate::link::{Link, StreamLink};
use crate::message::Header;
use sidestep_socket::stream::{Options, Stream, Waiting, is_retry};
use sidestep_sys::{Problem, cpu};
use socket2::{Domain, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr};

/// The longest answer that a new connection sends at once, bytes.
const FITS_ANY_BUFFER: usize = 4096;

/// Connections not yet accepted that the kernel keeps; one is made at a time.
const BACKLOG: i32 = 16;

/// Returns a listening kernel socket, which waits in the same way as the connections.
pub(super) fn listen(local: IpAddr, options: &Options) -> io::Result<Socket> {
    let local = SocketAddr::new(local, 0);
    let socket = Socket::new(Domain::for_address(local), Type::STREAM, None)?;
    socket.bind(&local.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(options.waiting == Waiting::Spin)?;
    socket.set_read_timeout(Some(options.timeout))?;
    Ok(socket)
}

/// Serves one slice of the kernel's connections.
pub(super) fn run(
    listener: &Socket,
    options: &Options,
    remote: IpAddr,
    size: u32,
    mut watch: Watch<'_>,
) -> Result<Done, Problem> {
    let (switches, spent) = (cpu::involuntary_switches(), SpentSince::now());
    let (mut message, mut received) = (vec![0; size as usize], 0);
    loop {
        match listener.accept() {
            // A connection from another host is closed unread.
            Ok((_, peer)) if peer.as_socket().is_none_or(|peer| peer.ip() != remote) => {}
            Ok((socket, _)) => {
                received += 1;
                socket.set_tcp_nodelay(true).map_err(|error| Problem::failed("cannot set TCP_NODELAY", error))?;
                if serve(&mut StreamLink::new(Stream::waiting(socket, options)?), &mut message, &mut watch)? {
                    break;
                }
            }
            Err(error) if is_retry(&error) => watch.waited()?,
            Err(error) => return Err(Problem::failed("cannot accept", error)),
        }
    }
    let involuntary_switches = cpu::involuntary_switches() - switches;
    Ok(Done { received, involuntary_switches, cpu: spent.on(received), ..Done::default() })
}

/// The same on our stack.
pub(super) fn run_past_kernel(
    mut listener: StackListener,
    remote: IpAddr,
    size: u32,
    mut watch: Watch<'_>,
) -> Result<Done, Problem> {
    let (switches, spent) = (cpu::involuntary_switches(), SpentSince::now());
    let (mut message, mut received) = (vec![0; size as usize], 0);
    loop {
        let Some(stream) = listener.poll(remote)? else {
            watch.waited()?;
            continue;
        };
        received += 1;
        let (back, is_last) = listener.with(stream, |link| serve(link, &mut message, &mut watch))?;
        listener = back;
        if is_last {
            break;
        }
    }
    let involuntary_switches = cpu::involuntary_switches() - switches;
    Ok(Done { received, involuntary_switches, cpu: spent.on(received), ..Done::default() })
}

/// Serves one connection: a message, its answer, our FIN, the other's. Returns true for the last one.
fn serve(link: &mut dyn Link, message: &mut [u8], watch: &mut Watch<'_>) -> Result<bool, Problem> {
    let failed = |error| Problem::failed("a connection broke", error);
    let mut filled = 0;
    while filled < message.len() {
        match link.receive(&mut message[filled..]) {
            Ok(0) => return Ok(false),
            Ok(count) => filled += count,
            Err(error) if is_retry(&error) => watch.waited()?,
            Err(error) => return Err(failed(error)),
        }
    }
    watch.heard()?;
    if message.len() > FITS_ANY_BUFFER {
        Watch::bound_sends(link)?;
    }
    watch.send_all(link, message)?;
    link.flush().and_then(|()| link.shutdown()).map_err(failed)?;
    loop {
        match link.receive(&mut [0; 1]) {
            Err(error) if is_retry(&error) => watch.waited()?,
            // The answer has been sent, however the connection ended.
            _ => break,
        }
    }
    Ok(Header::read(message).is_some_and(|header| header.last))
}
