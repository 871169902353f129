//! Single slices of round trips, for a process that measures all day: each asks for one, and goes on when the peer has been away.

use crate::bypass::Consent;
use crate::cpus_of_ends::{choose_cpus, cpus_beside};
use crate::fit::fit;
use crate::measure::Bench;
use crate::message;
use crate::path::Path;
use crate::place::{Ends, PeerProgram, Place};
use crate::run::check_duration;
use crate::scenario::Arm;
use crate::stats::Slice;
use crate::transport::Transport;
use sidestep_sys::Problem;
use sidestep_sys::clock::{Choice, Clock};
use sidestep_sys::cpu;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Age at which the clock is calibrated again: a virtual machine may have moved to a host whose TSC has another rate.
const CALIBRATED_MAX: Duration = Duration::from_secs(3600);

/// One thing to probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The path.
    pub path: &'static Path,
    /// The transport that it has.
    pub transport: Transport,
}

/// The circumstances of probes.
#[derive(Clone, Debug)]
pub struct Circumstances {
    /// `sidestep bench serve` on another machine; none for loopback.
    pub peer: Option<SocketAddr>,
    /// What this end may do past the kernel. A control plane that runs is used; none is started.
    pub consent: Consent,
    /// The program of the peer on this machine.
    pub program: PeerProgram,
    /// CPU of the measuring end; chosen if none.
    pub client_cpu: Option<u32>,
    /// CPU of the peer; chosen if none (by the peer itself, if it is on another machine).
    pub server_cpu: Option<u32>,
    /// Message size, bytes.
    pub size: u32,
    /// The counted time of a slice.
    pub slice: Duration,
    /// The clock.
    pub clock: Choice,
    /// Set when the process is to end.
    pub stop: Arc<AtomicBool>,
}

/// Takes slices. It stays on the thread that made it, which it pins.
pub struct Prober {
    around: Circumstances,
    /// The CPUs that the thread began with.
    cpus: Vec<u32>,
    bench: Option<Bench>,
    calibrated: Instant,
    /// Set while the peer of `bench` can be asked for a slice.
    is_open: bool,
}

/// The result of one slice.
#[derive(Debug)]
pub struct Answers {
    slice: Slice,
    /// Messages without an answer, also while the connection settled.
    pub lost: u64,
    /// The number of times that another task took the CPU from one of the two ends.
    pub involuntary_switches: u64,
}

/// The reason why there are no answers.
#[derive(Debug)]
pub enum Failure {
    /// The peer cannot be had.
    NoPeer(Problem),
    /// The path cannot be measured between these ends.
    Refused(String),
    /// The slice was begun and is not whole. The peer is asked again from the start.
    Broken(Problem),
}

impl Circumstances {
    /// Checks what can be known before the first slice.
    ///
    /// # Errors
    /// A size, a duration or a CPU that cannot be.
    pub fn check(&self, probes: &[Probe]) -> Result<(), Problem> {
        let limit = probes.iter().map(|probe| probe.transport.size_max()).min().unwrap_or(u32::MAX);
        message::check_size(self.size, limit)?;
        check_duration(self.slice)?;
        self.client_cpu.map_or(Ok(()), cpu::check)?;
        self.server_cpu.filter(|_| self.peer.is_none()).map_or(Ok(()), cpu::check)
    }

    /// `loopback` or `remote`.
    pub fn place(&self) -> &'static str {
        if self.peer.is_some() { "remote" } else { "loopback" }
    }
}

impl Prober {
    /// A prober on the calling thread. Nothing is connected yet.
    pub fn new(around: Circumstances) -> Self {
        Self { around, cpus: cpu::allowed(), bench: None, calibrated: Instant::now(), is_open: false }
    }

    /// Takes one slice.
    ///
    /// # Errors
    /// See [`Failure`]; another slice may be asked for.
    pub fn slice(&mut self, probe: Probe) -> Result<Answers, Failure> {
        self.open().map_err(Failure::NoPeer)?;
        let Some(bench) = &mut self.bench else {
            return Err(Failure::NoPeer(Problem::failed("cannot probe", "there is no measuring end")));
        };
        let arm = fit(Arm::new("rr", probe.path, probe.transport, self.around.size, "rtt"), bench);
        if let Some(reason) = arm.refusal() {
            return Err(Failure::Refused(reason.to_owned()));
        }
        match bench.round_trips(arm.target, self.around.slice) {
            Ok(trips) => Ok(Answers {
                slice: trips.slice,
                lost: trips.lost,
                involuntary_switches: trips.noise.involuntary_switches,
            }),
            Err(problem) => {
                // What the peer says next belongs to the broken slice.
                self.is_open = false;
                Err(Failure::Broken(problem))
            }
        }
    }

    /// Ends a group of slices. A peer on another machine is left, as it has few sessions; one on this machine stays.
    pub fn rest(&mut self) {
        // Threads that are started from here on inherit it.
        let _ = cpu::restrict(&self.cpus);
        if self.around.peer.is_some() {
            self.is_open = false;
            if let Some(bench) = &mut self.bench {
                bench.hang_up();
            }
        }
    }

    /// The process of the peer on this machine, while there is one.
    pub fn peer_process(&self) -> Option<u32> {
        self.bench.as_ref().filter(|_| self.is_open).and_then(|bench| bench.ends().peer_process())
    }

    fn open(&mut self) -> Result<(), Problem> {
        if self.calibrated.elapsed() > CALIBRATED_MAX {
            if let Some(bench) = &mut self.bench {
                bench.clock = Clock::calibrate(self.around.clock);
            }
            self.calibrated = Instant::now();
        }
        if self.is_open {
            return Ok(());
        }
        // A CPU may be gone, or back.
        cpu::restrict(&self.cpus)?;
        let (client, server) = (self.around.client_cpu, self.around.server_cpu);
        let (ends, cpus) = match self.around.peer {
            Some(peer) => {
                let ends = self.ends(&Place::Remote(peer, self.around.consent.clone()), 0)?;
                let cpus = cpus_beside((client, server), ends.same_machine, ends.peer_cpu)?;
                (ends, cpus)
            }
            None => {
                // The one that is replaced ends before another one starts.
                if let Some(bench) = &mut self.bench {
                    bench.hang_up();
                }
                let cpus = choose_cpus(client, server, true)?;
                (self.ends(&Place::Loopback, cpus.server.unwrap_or(cpus.client))?, cpus)
            }
        };
        match &mut self.bench {
            Some(bench) => bench.renew(ends, cpus),
            None => {
                let clock = Clock::calibrate(self.around.clock);
                self.bench = Some(Bench::new(ends, clock, cpus, self.around.stop.clone()));
            }
        }
        self.is_open = true;
        Ok(())
    }

    fn ends(&self, place: &Place, cpu: u32) -> Result<Ends, Problem> {
        place.open(false, &self.around.program, cpu)
    }
}

impl Answers {
    /// Calls `each` with every time (ns, three significant digits) and how often it was measured.
    pub fn each(&self, mut each: impl FnMut(u64, u64)) {
        self.slice.each(&mut each);
    }

    /// Round trips.
    pub fn count(&self) -> u64 {
        self.slice.len()
    }

    /// The longest round trip, ns.
    pub fn max_ns(&self) -> u64 {
        if self.slice.is_empty() { 0 } else { self.slice.longest_ns() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn around(peer: Option<SocketAddr>) -> Circumstances {
        Circumstances {
            peer,
            consent: Consent::Nothing,
            program: PeerProgram::Thread,
            client_cpu: None,
            server_cpu: None,
            size: 64,
            slice: Duration::from_millis(5),
            clock: Choice::Auto,
            stop: Arc::default(),
        }
    }

    fn probe(path: &str, transport: Transport) -> Probe {
        let path = Path::named(path).expect("it is known");
        Probe { path, transport: path.transport(transport) }
    }

    #[test]
    fn slices_come_one_after_the_other_and_each_sample_is_told() {
        let mut prober = Prober::new(around(None));
        for _ in 0..3 {
            for (path, transport) in [("kernel-pinned", Transport::Tcp), ("kernel-pinned", Transport::Udp)] {
                let answers = prober.slice(probe(path, transport)).expect("loopback works");
                let (mut count, mut max) = (0, 0);
                answers.each(|ns, times| {
                    count += times;
                    max = max.max(ns);
                });
                assert_eq!((count, answers.lost), (answers.count(), 0));
                assert!(count > 0 && answers.max_ns() > 0 && max.abs_diff(answers.max_ns()) <= max / 500, "{max}");
            }
            prober.rest();
        }
        let refused = prober.slice(probe("xdp", Transport::Tcp));
        assert!(matches!(refused, Err(Failure::Refused(reason)) if reason.contains("loopback")));
        prober.slice(probe("kernel-pinned", Transport::Tcp)).expect("a refusal ends nothing");
    }

    #[test]
    fn a_peer_that_is_away_is_tried_again() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback");
        let address = listener.local_addr().expect("bound");
        drop(listener);
        let mut prober = Prober::new(around(Some(address)));
        for _ in 0..2 {
            let failure = prober.slice(probe("kernel-pinned", Transport::Tcp));
            assert!(matches!(failure, Err(Failure::NoPeer(_))), "{failure:?}");
            prober.rest();
        }
    }

    #[test]
    fn what_cannot_be_is_refused_at_once() {
        let probes = [probe("kernel-pinned", Transport::Udp)];
        assert!(around(None).check(&probes).is_ok());
        assert!(Circumstances { size: 65_508, ..around(None) }.check(&probes).is_err());
        assert!(Circumstances { slice: Duration::ZERO, ..around(None) }.check(&probes).is_err());
        assert!(Circumstances { client_cpu: Some(1021), ..around(None) }.check(&probes).is_err());
    }
}
