//! The program that measures.

use super::wire::Wire;
use super::{Found, Program, READY_MAX, await_acceleration, failed};
use crate::measure::{Exchange, FAREWELLS, LOOK_UP, SAMPLES_MAX};
use crate::message::check_size;
use crate::transport::Transport;
use sidestep_sys::clock::Clock;
use sidestep_sys::{Problem, cpu};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

/// The program that measures.
#[derive(Clone, Debug)]
pub struct Client {
    /// TCP or UDP.
    pub transport: Transport,
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

impl Client {
    /// Measures one slice, and writes what it has found to standard output: six lines, then ticks of 8 bytes.
    pub fn run(&self) -> Result<(), Problem> {
        check_size(self.size, self.transport.size_max())?;
        let wire = Wire::connect(self.transport, self.remote, READY_MAX).map_err(failed("cannot connect"))?;
        wire.set(LOOK_UP).map_err(failed("cannot set options"))?;
        let (kind, is_datagram) = (wire.kind(), self.transport.is_datagram());
        if is_datagram {
            // Until then the kernel carries its datagrams. A connection stays where it has begun.
            await_acceleration(kind)?;
        }
        // From here on: the library's threads may go anywhere else.
        cpu::restrict(&[self.cpu])?;
        let clock = Clock::like(&self.clock.0, self.clock.1);
        let switches = cpu::involuntary_switches();
        let mut samples = vec![0; SAMPLES_MAX];
        samples.clear();
        let exchange = Exchange { clock: &clock, settle: self.settle, duration: self.duration };
        let (trips, mut talk) = exchange.over(Box::new(wire), (self.size, is_datagram), &mut samples)?;
        let switches = cpu::involuntary_switches() - switches;
        await_acceleration(kind)?;
        for _ in 0..if is_datagram { FAREWELLS } else { 1 } {
            // The other end of datagrams may have gone after the first one.
            let ended = talk.finish();
            if !is_datagram {
                ended.map_err(failed("cannot end the connection"))?;
            }
        }
        let spent = trips.cpu.here;
        let ticks: Vec<u8> = samples.iter().flat_map(|ticks| ticks.to_le_bytes()).collect();
        let mut output = io::stdout().lock();
        let head = format!(
            "{}\n{}\n{switches}\n{}\n{}\n{}\n",
            trips.settling,
            trips.lost,
            spent.ns,
            spent.messages,
            samples.len()
        );
        output.write_all(head.as_bytes()).and_then(|()| output.write_all(&ticks)).map_err(failed("cannot report"))
    }

    /// Starts it, and waits for what it finds.
    pub(crate) fn start(&self, program: &Path) -> Result<Found, Problem> {
        let arguments = [
            ["--transport".to_owned(), self.transport.to_string()],
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
