//! The program that answers.

use super::wire::Wire;
use super::{PAUSE, Program, READY_MAX, await_acceleration, failed};
use crate::cpu_time::SpentSince;
use crate::link::{Link, send_all};
use crate::message::{Header, check_size};
use crate::transport::Transport;
use sidestep_sys::{Problem, cpu};
use sidestep_unmodified::status::SocketKind;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::time::{Duration, Instant};

/// Silence after which the answering program ends.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// The program that answers.
#[derive(Clone, Debug)]
pub struct Server {
    /// TCP or UDP.
    pub transport: Transport,
    /// Address to listen at, at a port of the kernel's choice.
    pub local: IpAddr,
    /// The only address that is answered.
    pub remote: IpAddr,
    /// Message size, bytes.
    pub size: u32,
    /// The CPU that its thread is pinned to.
    pub cpu: u32,
}

impl Server {
    /// Answers one peer; prints the port first, the count of messages at the end.
    pub fn run(&self) -> Result<(), Problem> {
        check_size(self.size, self.transport.size_max())?;
        let mut wire = match self.transport.is_datagram() {
            true => self.receive_first().map(Wire::Datagrams),
            false => self.accept().map(Wire::Stream),
        }?;
        wire.set(SILENCE_MAX).map_err(failed("cannot set options"))?;
        let kind = wire.kind();
        cpu::restrict(&[self.cpu])?;
        let (switches, since) = (cpu::involuntary_switches(), SpentSince::now());
        let mut message = vec![0; self.size as usize];
        let mut received: u64 = 0;
        while self.receive(&mut wire, &mut message).map_err(failed("cannot receive"))? {
            send_all(&mut wire, &message).map_err(failed("cannot answer"))?;
            received += 1;
        }
        let (switches, spent) = (cpu::involuntary_switches() - switches, since.on(received));
        await_acceleration(kind)?;
        println!("{switches}\n{}\n{received}", spent.ns);
        Ok(())
    }

    fn accept(&self) -> Result<TcpStream, Problem> {
        let listener = TcpListener::bind((self.local, 0)).map_err(failed("cannot listen"))?;
        await_acceleration(SocketKind::TcpListener)?;
        println!("{}", listener.local_addr().map_err(failed("cannot listen"))?.port());
        listener.set_nonblocking(true).map_err(failed("cannot listen"))?;
        let deadline = Instant::now() + READY_MAX;
        while Instant::now() < deadline {
            match listener.accept() {
                Ok((stream, peer)) if peer.ip() == self.remote => {
                    stream.set_nonblocking(false).map_err(failed("cannot accept"))?;
                    return Ok(stream);
                }
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(PAUSE),
                Err(error) => return Err(failed("cannot accept")(error)),
            }
        }
        Err(Problem::failed("no peer connected for the slice", "the time is over"))
    }

    /// Binds a socket of datagrams, and connects it to whom the first one has come from. That one is left in the socket.
    fn receive_first(&self) -> Result<UdpSocket, Problem> {
        let bind = || -> io::Result<UdpSocket> {
            let socket = UdpSocket::bind((self.local, 0))?;
            socket.set_read_timeout(Some(READY_MAX))?;
            Ok(socket)
        };
        let socket = bind().map_err(failed("cannot bind"))?;
        await_acceleration(SocketKind::UdpSocket)?;
        println!("{}", socket.local_addr().map_err(failed("cannot bind"))?.port());
        let deadline = Instant::now() + READY_MAX;
        while Instant::now() < deadline {
            let (_, peer) = socket.peek_from(&mut [0]).map_err(failed("no peer sent for the slice"))?;
            if peer.ip() == self.remote {
                socket.connect(peer).map_err(failed("cannot connect"))?;
                return Ok(socket);
            }
            let _ = socket.recv_from(&mut [0]).map_err(failed("cannot receive"))?;
        }
        Err(Problem::failed("no peer sent for the slice", "the time is over"))
    }

    /// Fills `message`; false when the other end has finished.
    fn receive(&self, wire: &mut Wire, message: &mut [u8]) -> io::Result<bool> {
        let mut filled = 0;
        while filled < message.len() {
            match wire.receive(&mut message[filled..]) {
                Ok(0) => return Ok(false),
                Ok(count) => filled += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_end(&error) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(!self.transport.is_datagram() || Header::read(message).is_none_or(|header| !header.last))
    }

    /// Starts it; returns its port, and the program.
    pub(crate) fn start(&self, program: &Path) -> Result<(u16, Program), Problem> {
        let arguments = [
            ["--transport".to_owned(), self.transport.to_string()],
            ["--local".to_owned(), self.local.to_string()],
            ["--remote".to_owned(), self.remote.to_string()],
            ["--size".to_owned(), self.size.to_string()],
            ["--cpu".to_owned(), self.cpu.to_string()],
        ];
        let mut started = Program::start(program, "server", &arguments)?;
        match started.number() {
            Ok(port) => Ok((port as u16, started)),
            Err(error) => started.end().and(Err(failed("cannot answer under the library")(error))),
        }
    }
}

/// Returns whether an error means that the other end has closed its socket.
fn is_end(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::ConnectionRefused | ErrorKind::BrokenPipe)
}
