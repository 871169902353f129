//! One slice of a stream: how long each message takes at full speed, as this end hands it over or has received it.

use super::packets::PacketMeter;
use super::round_trip::{Target, Trips, Work};
use super::{Bench, Meter, SAMPLES_MAX};
use crate::bypass::{Load, connect_past_kernel, engine_with};
use crate::congestion;
use crate::cpu_time::{BothSpent, Spent, SpentSince};
use crate::link::{Link, StreamLink, send_all};
use crate::message::filled;
use crate::path::Medium;
use crate::peer::protocol::{Bulk, Done, Ready, Reply, Request};
use sidestep_report::schema::Noise;
use sidestep_socket::stream::{Endpoint, Options, is_retry};
use sidestep_sys::Problem;
use std::net::SocketAddr;
use std::time::Duration;

/// Streamed before counting begins: buffers are full and windows open then, so that what is handed over in a time is what
/// arrives in it.
const SETTLE: Duration = Duration::from_millis(10);
/// The same over an impaired wire: slow start takes many of its round trips.
const SETTLE_IMPAIRED: Duration = Duration::from_millis(250);
/// Time to drain the few megabytes in buffers at the end of a slice: a peer that takes longer is stopped, or gone.
const END_WITHIN: Duration = Duration::from_secs(10);

/// The measuring end's connection of a slice.
struct Opened {
    link: StreamLink,
    note: Option<String>,
    /// Its congestion control.
    congestion: Option<String>,
}

impl Bench {
    /// Streams for `duration`, over a connection made for it.
    pub(super) fn bulk(&mut self, target: Target, duration: Duration) -> Result<Trips, Problem> {
        let sends = target.work == Work::Send;
        let send_for_ns = (!sends).then_some((self.stream_settle() + duration).as_nanos() as u64);
        let path = target.path.at_peer().into();
        let (cpu, congestion) = (self.cpus.server, self.congestion.clone());
        let request = Request::Bulk(Bulk { path, size: target.size, cpu, send_for_ns, congestion });
        let Opened { mut link, note, congestion } = self.open_bulk(target, &request)?;
        let packets = self.packet_meter(target);
        let meter = Meter::start(self.watched_cpus());
        let streamed = if sends {
            self.pour(&mut link, target.size, duration)
        } else {
            self.drain(&mut link, target.size, duration)
        };
        let noise = meter.stop();
        let ended = self.end_bulk(link);
        let ((settling, here), done) = (streamed?, ended?);
        let packets = packets.map(PacketMeter::stop).transpose()?;
        Ok(Trips {
            slice: self.take_slice(),
            settling,
            note,
            packets,
            // Of the end that sends.
            congestion: if sends { congestion } else { done.congestion },
            cpu: BothSpent { here, peer: done.cpu },
            noise: Noise { involuntary_switches: noise.involuntary_switches + done.involuntary_switches, ..noise },
            ..Trips::default()
        })
    }

    fn open_bulk(&mut self, target: Target, request: &Request) -> Result<Opened, Problem> {
        let way = self.ends.way(target.path)?;
        let opened = match target.path.medium {
            Medium::Stack => {
                self.place_thread(false)?;
                self.need_plane()?;
                let settings = congestion::of_stack(self.congestion.as_deref())?;
                let congestion = Some(settings.congestion.name().into());
                let engine = engine_with(&self.device_toward()?, Load::Stream, settings)?;
                self.place_thread(true)?;
                let ready = self.ask_ready(request)?;
                let link = connect_past_kernel(engine, SocketAddr::new(way.server, ready.port));
                link.map(|link| {
                    let note = Some(self.stack_note(&link.note(), ready.note.as_deref()));
                    Opened { note, link: link.waiting(target.path), congestion }
                })
            }
            _ => {
                let options = Options {
                    waiting: target.path.waiting,
                    backend: target.path.backend,
                    timeout: self.patience(false),
                    ..Options::default()
                };
                let ready = self.ask_ready(request)?;
                StreamLink::connect(&Endpoint::from(SocketAddr::new(way.server, ready.port)), &options).and_then(
                    |link| {
                        let congestion = congestion::of_kernel(link.descriptor(), self.congestion.as_deref())?;
                        Ok(Opened { link, note: self.kernel_note(ready.note.as_deref()), congestion })
                    },
                )
            }
        };
        opened.inspect_err(|_| {
            // The peer gives up the slice that it was ready for, and reports that.
            let _ = self.control().reply();
        })
    }

    pub(super) fn ask_ready(&mut self, request: &Request) -> Result<Ready, Problem> {
        match self.control().ask(request)? {
            Reply::Ready(ready) => Ok(ready),
            _ => Err(Problem::failed("lost the peer", "it did not get ready for a slice").next("restart the peer")),
        }
    }

    /// The time at full speed before counting begins.
    fn stream_settle(&self) -> Duration {
        if self.ends.wire.is_some() { SETTLE_IMPAIRED } else { SETTLE }
    }

    /// Sends until the time is over; returns the messages before counting began, and the CPU time of the others.
    fn pour(&mut self, link: &mut StreamLink, size: u32, duration: Duration) -> Result<(u64, Spent), Problem> {
        let message = filled(size);
        let mut send = || send_all(link, &message).and_then(|()| link.flush()).map_err(broken);
        let begin = self.clock.stop();
        let (start, mut settling) = (begin + self.clock.ticks(self.stream_settle()), 0);
        while self.clock.stop() < start {
            send()?;
            settling += 1;
        }
        let spent = SpentSince::now();
        let mut last = self.clock.stop();
        let end = last + self.clock.ticks(duration);
        while last < end && self.samples.len() < SAMPLES_MAX && !self.is_stopped() {
            send()?;
            let now = self.clock.stop();
            self.samples.push(now - last);
            last = now;
        }
        Ok((settling, spent.on(self.samples.len() as u64)))
    }

    /// Receives until the peer has finished; counts until the time is over. Returns the messages before, and the CPU time from
    /// there to the first message beyond the time.
    fn drain(&mut self, link: &mut StreamLink, size: u32, duration: Duration) -> Result<(u64, Spent), Problem> {
        let mut buffer = vec![0; size as usize];
        let begin = self.clock.stop();
        let start = begin + self.clock.ticks(self.stream_settle());
        let end = start + self.clock.ticks(duration);
        let (mut filled, mut settling, mut last) = (0, 0, begin);
        let (mut since, mut spent) = (None, Spent::default());
        loop {
            match link.receive(&mut buffer[filled..]) {
                Ok(0) => return Ok((settling, spent)),
                Ok(count) => filled += count,
                Err(error) if is_retry(&error) && !self.is_overdue(last) => continue,
                Err(error) => return Err(broken(error)),
            }
            if filled < buffer.len() {
                continue;
            }
            filled = 0;
            let now = self.clock.stop();
            if now < start {
                settling += 1;
            } else if since.is_none() {
                since = Some(SpentSince::now());
            } else if now >= end && spent == Spent::default() {
                // The message that reaches beyond the end is no sample, but it took CPU time until here.
                spent = since.map(|since| since.on(self.samples.len() as u64 + 1)).unwrap_or_default();
            }
            if now < end && last >= start && self.samples.len() < SAMPLES_MAX {
                self.samples.push(now - last);
            }
            last = now;
        }
    }

    fn is_overdue(&self, last: u64) -> bool {
        self.clock.stop() - last > self.clock.ticks(Duration::from_secs(3))
    }

    /// Closes the stream and waits for the peer's report.
    fn end_bulk(&mut self, mut link: StreamLink) -> Result<Done, Problem> {
        // A broken connection cannot be closed in order; the peer then sees it break.
        let _ = link.shutdown();
        // Our own stack sends and receives only while it is polled.
        let begin = self.clock.stop();
        while !self.control().has_word_now() && !self.is_stopped() {
            if self.clock.stop() - begin > self.clock.ticks(END_WITHIN) {
                return Err(Problem::failed(
                    "lost the peer",
                    format!("it was silent for {END_WITHIN:?} after the slice"),
                )
                .next("see whether it is stopped, and what it printed"));
            }
            let _ = link.receive(&mut [0; 64]);
        }
        drop(link);
        match self.control().reply()? {
            Reply::Done(done) => Ok(done),
            _ => Err(Problem::failed("lost the peer", "it did not say that the slice is over")),
        }
    }
}

fn broken(why: impl std::fmt::Display) -> Problem {
    Problem::failed("the stream broke", why).next("see what the peer printed, and whether its host is up")
}
