//! The path `run`: both ends are programs of their own that know blocking sockets alone, each started under libsidestep.so.
//!
//! The two programs are this one, called as `sidestep bench unmodified ...`; what they do is what any program does with std's sockets.
//! Each looks at its own status page before it ends: a slice that the kernel has carried is refused.

use crate::link::Link;
use crate::measure::{Exchange, LOOK_UP, SAMPLES_MAX};
use crate::message::check_size;
use crate::transport::Transport;
use sidestep_sys::clock::Clock;
use sidestep_sys::process::die_with_parent;
use sidestep_sys::{Problem, cpu};
use sidestep_unmodified::library;
use sidestep_unmodified::status::{PathNow, SocketKind, processes};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Time for the peer to connect, and for a socket to go past the kernel: the interfaces restart after their programs were attached.
const READY_MAX: Duration = Duration::from_secs(5);
/// Silence after which the answering program ends.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(2);
/// The longest number that either program prints, with its line feed.
const NUMBER_BYTES_MAX: usize = 21;

/// The program that measures.
#[derive(Clone, Debug)]
pub struct Client {
    /// The answering program.
    pub remote: SocketAddr,
    /// Message size, bytes.
    pub size: u32,
    /// The CPU that its thread is pinned to.
    pub cpu: u32,
    /// Settling time.
    pub settle: Duration,
    /// Time to measure.
    pub duration: Duration,
    /// The clock of the measuring end: its name, and nanoseconds per tick.
    pub clock: (String, f64),
}

/// The program that answers.
#[derive(Clone, Debug)]
pub struct Server {
    /// Address to listen at, at a port of the kernel's choice.
    pub local: IpAddr,
    /// The only address that is answered.
    pub remote: IpAddr,
    /// Message size, bytes.
    pub size: u32,
    /// The CPU that its thread is pinned to.
    pub cpu: u32,
}

/// What the measuring program has found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) settling: u64,
    pub(crate) involuntary_switches: u64,
    pub(crate) samples: Vec<u64>,
}

/// A blocking socket.
struct Blocking(TcpStream);

impl Link for Blocking {
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }

    fn shutdown(&mut self) -> io::Result<()> {
        self.0.shutdown(Shutdown::Write)
    }
}

fn failed(what: &str) -> impl Fn(io::Error) -> Problem {
    let what = what.to_owned();
    move |error| Problem::failed(&what, error)
}

impl Client {
    /// Measures one slice, and writes what it has found to standard output: three lines, then ticks of 8 bytes.
    pub fn run(&self) -> Result<(), Problem> {
        check_size(self.size, Transport::Tcp.size_max())?;
        let stream = TcpStream::connect_timeout(&self.remote, READY_MAX).map_err(failed("cannot connect"))?;
        let set = stream.set_nodelay(true).and_then(|()| stream.set_read_timeout(Some(LOOK_UP)));
        set.map_err(failed("cannot set options"))?;
        // From here on: the library's threads may go anywhere else.
        cpu::restrict(&[self.cpu])?;
        let clock = Clock::like(&self.clock.0, self.clock.1);
        let switches = cpu::involuntary_switches();
        let mut samples = vec![0; SAMPLES_MAX];
        samples.clear();
        let exchange = Exchange { clock: &clock, settle: self.settle, duration: self.duration };
        let (trips, mut talk) = exchange.over(Box::new(Blocking(stream)), self.size, &mut samples)?;
        let switches = cpu::involuntary_switches() - switches;
        await_acceleration(SocketKind::TcpStream)?;
        talk.finish().map_err(failed("cannot end the connection"))?;
        let ticks: Vec<u8> = samples.iter().flat_map(|ticks| ticks.to_le_bytes()).collect();
        let mut output = io::stdout().lock();
        let head = format!("{}\n{switches}\n{}\n", trips.settling, samples.len());
        output.write_all(head.as_bytes()).and_then(|()| output.write_all(&ticks)).map_err(failed("cannot report"))
    }

    /// Starts it, and waits for what it finds.
    pub(crate) fn start(&self, program: &Path) -> Result<Found, Problem> {
        let arguments = [
            ["--remote".to_owned(), self.remote.to_string()],
            ["--size".to_owned(), self.size.to_string()],
            ["--cpu".to_owned(), self.cpu.to_string()],
            ["--settle".to_owned(), format!("{}ns", self.settle.as_nanos())],
            ["--duration".to_owned(), format!("{}ns", self.duration.as_nanos())],
            ["--clock".to_owned(), self.clock.0.clone()],
            ["--ns-per-tick".to_owned(), self.clock.1.to_string()],
        ];
        let mut started = Program::start(program, "client", &arguments)?;
        let found = started.found();
        // What it says of its failure is on standard error; its end tells that there is one.
        started.end().and_then(|()| found.map_err(failed("cannot read what the measuring program has found")))
    }
}

impl Server {
    /// Answers one connection; prints the port first, the count of messages at the end.
    pub fn run(&self) -> Result<(), Problem> {
        check_size(self.size, Transport::Tcp.size_max())?;
        let listener = TcpListener::bind((self.local, 0)).map_err(failed("cannot listen"))?;
        await_acceleration(SocketKind::TcpListener)?;
        println!("{}", listener.local_addr().map_err(failed("cannot listen"))?.port());
        let mut stream = self.accept(&listener)?;
        let set = stream.set_nodelay(true).and_then(|()| stream.set_read_timeout(Some(SILENCE_MAX)));
        set.map_err(failed("cannot set options"))?;
        cpu::restrict(&[self.cpu])?;
        let switches = cpu::involuntary_switches();
        let mut message = vec![0; self.size as usize];
        let mut received: u64 = 0;
        while receive(&mut stream, &mut message).map_err(failed("cannot receive"))? {
            stream.write_all(&message).map_err(failed("cannot answer"))?;
            received += 1;
        }
        let switches = cpu::involuntary_switches() - switches;
        await_acceleration(SocketKind::TcpStream)?;
        println!("{received}\n{switches}");
        Ok(())
    }

    fn accept(&self, listener: &TcpListener) -> Result<TcpStream, Problem> {
        let deadline = Instant::now() + READY_MAX;
        listener.set_nonblocking(true).map_err(failed("cannot listen"))?;
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

    /// Starts it; returns its port, and the program.
    pub(crate) fn start(&self, program: &Path) -> Result<(u16, Program), Problem> {
        let arguments = [
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

/// Fills `message`; false when the other end has finished.
fn receive(stream: &mut TcpStream, message: &mut [u8]) -> io::Result<bool> {
    match stream.read_exact(message) {
        Ok(()) => Ok(true),
        Err(error) if matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Waits until a socket of this process goes past the kernel, as its status page shows.
fn await_acceleration(kind: SocketKind) -> Result<(), Problem> {
    let deadline = Instant::now() + READY_MAX;
    loop {
        let page = processes().into_iter().find(|found| found.pid == std::process::id());
        let sockets = page.map(|page| page.view.snapshot().sockets).unwrap_or_default();
        let Some(socket) = sockets.into_iter().find(|socket| socket.kind == kind) else {
            return Err(Problem::failed("the library is not there", "this process has no status page"));
        };
        match socket.path {
            PathNow::Accelerated { .. } => return Ok(()),
            PathNow::Kernel { description, .. } if Instant::now() > deadline => {
                return Err(Problem::failed("the kernel carries the slice", description));
            }
            PathNow::Undecided if Instant::now() > deadline => {
                return Err(Problem::failed("the kernel carries the slice", "its path is not decided"));
            }
            _ => std::thread::sleep(PAUSE),
        }
    }
}

/// One of the two programs, under the library.
pub(crate) struct Program {
    child: Child,
    output: ChildStdout,
}

impl Program {
    fn start(program: &Path, role: &str, arguments: &[[String; 2]]) -> Result<Self, Problem> {
        let library = library::find(std::env::var_os(library::VARIABLE))?;
        let preload = library::preload(&library, std::env::var_os(library::LD_PRELOAD).as_deref());
        let mut command = Command::new(program);
        command.args(["bench", "unmodified", role]).args(arguments.iter().flatten());
        command.env(library::LD_PRELOAD, preload).stdin(Stdio::null()).stdout(Stdio::piped());
        die_with_parent(&mut command);
        let mut child = command.spawn().map_err(failed("cannot start a program under the library"))?;
        let output = child.stdout.take().ok_or(ErrorKind::BrokenPipe).map_err(io::Error::from);
        Ok(Self { child, output: output.map_err(failed("cannot start a program"))? })
    }

    fn number(&mut self) -> io::Result<u64> {
        let mut number = String::new();
        for _ in 0..NUMBER_BYTES_MAX {
            let mut byte = [0];
            self.output.read_exact(&mut byte)?;
            if byte == *b"\n" {
                return number.parse().map_err(|_| ErrorKind::InvalidData.into());
            }
            number.push(byte[0].into());
        }
        Err(ErrorKind::InvalidData.into())
    }

    fn found(&mut self) -> io::Result<Found> {
        let (settling, involuntary_switches) = (self.number()?, self.number()?);
        let count = self.number()?.min(SAMPLES_MAX as u64);
        let mut bytes = vec![0; count as usize * size_of::<u64>()];
        self.output.read_exact(&mut bytes)?;
        let samples = bytes.chunks_exact(8).filter_map(|chunk| Some(u64::from_le_bytes(chunk.try_into().ok()?)));
        Ok(Found { settling, involuntary_switches, samples: samples.collect() })
    }

    /// What the answering program has counted: messages, and involuntary context switches.
    pub(crate) fn counted(mut self) -> Result<(u64, u64), Problem> {
        let counted = self.number().and_then(|received| Ok((received, self.number()?)));
        self.end()?;
        counted.map_err(failed("cannot read what the answering program has counted"))
    }

    /// Waits for its end, which must be a good one.
    fn end(&mut self) -> Result<(), Problem> {
        let status = self.child.wait().map_err(failed("lost a program under the library"))?;
        if status.success() {
            return Ok(());
        }
        Err(Problem::failed("a program under the library failed", status)
            .next("see what it printed above, and sidestep ps"))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // One that has ended is not there any more.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
