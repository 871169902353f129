//! A slice in which some messages are stamped.

use super::found::{Found, Messages, Times};
use super::{EVERY, Stamping};
use crate::measure::{Bench, FAREWELLS, LOOK_UP, Target, settling_time};
use crate::message::{Header, filled};
use crate::path::Medium;
use crate::peer::protocol::Reply;
use crate::transport::Transport;
use sidestep_socket::stream::{Backend, Waiting, is_retry};
use sidestep_sys::Problem;
use sidestep_sys::timestamping::{self, HardwareStamps, Station};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// An answer that takes longer is lost.
const LOST_AFTER: Duration = Duration::from_millis(200);
/// Losses in a row after which the peer counts as gone.
const LOSSES_MAX: u64 = 15;
/// Stamps of sent messages are mostly there before the answer is; a device's may come by an interrupt or a work queue of its own.
const STAMPS_WITHIN: Duration = Duration::from_millis(2);
/// Messages of a slice, so that its memory is bounded.
const MESSAGES_MAX: usize = 1 << 18;

/// The reason why paths of other kinds have no stages.
const OTHER_PATHS: &str = "stages are taken of UDP over blocking and spinning sockets of the kernel (kernel-default, kernel-pinned, kernel-spin)";
/// That of paths over AF_XDP.
const PAST_THE_KERNEL: &str = "past the kernel only a device can stamp, by bpf_xdp_metadata_rx_timestamp (Linux 6.3), for a program that is \
                               bound to the device; the steering program is not, and a veth has no clock of its own";

/// Takes stages over one interface.
#[derive(Debug)]
pub(crate) struct Stamper {
    /// The device's clock, if it stamps on the wire.
    device: Option<String>,
    /// Reasons for what is not there.
    unavailable: Vec<String>,
    /// Switched back when the run is over.
    _switched: Option<HardwareStamps>,
}

impl Stamper {
    /// Asks the device what it can stamp, and switches it on if that was asked for.
    pub(crate) fn new(interface: &str, stamping: Stamping) -> Self {
        let mut stamper = Self { device: None, unavailable: Vec::new(), _switched: None };
        let reason = match timestamping::capabilities(interface) {
            Err(error) => Some(format!("{interface} does not tell what it can stamp: {error}")),
            Ok(found) if !found.has_hardware() => {
                Some(format!("{interface} has no hardware timestamps of all packets"))
            }
            Ok(_) if stamping == Stamping::AsItIs => Some(format!(
                "{interface} has hardware timestamps, which are left as they are; add --hardware-timestamps to have them switched on, and back"
            )),
            Ok(found) => match HardwareStamps::switch_on(interface) {
                Ok(switched) => {
                    stamper._switched = Some(switched);
                    stamper.device =
                        Some(found.phc.map_or_else(|| interface.to_owned(), |phc| format!("/dev/ptp{phc}")));
                    stamper.unavailable.push(
                        "driver to wire and wire to network stack: they lie between two clocks, whose distance is not measured".into(),
                    );
                    None
                }
                Err(problem) => Some(problem.to_string()),
            },
        };
        stamper.unavailable.extend(reason.map(|reason| format!("stages on the wire: {reason}")));
        stamper
    }

    /// The reason why a path has no stages, if it has none.
    pub(crate) fn refusal(target: &Target) -> Option<&'static str> {
        let path = target.path;
        let is_kernel = path.medium == Medium::Inet && path.backend == Backend::Kernel;
        let waits = matches!(path.waiting, Waiting::Block | Waiting::Spin);
        match path.medium {
            Medium::Stack | Medium::Frames => Some(PAST_THE_KERNEL),
            _ if is_kernel && waits && target.transport == Transport::Udp => None,
            _ => Some(OTHER_PATHS),
        }
    }

    /// For the result.
    pub(crate) fn device(&self) -> Option<&str> {
        self.device.as_deref()
    }

    /// For the result.
    pub(crate) fn unavailable(&self) -> &[String] {
        &self.unavailable
    }
}

impl Bench {
    /// Measures one slice of `target` with stamps, and adds it to `found`.
    pub(crate) fn stamped(
        &mut self,
        target: Target,
        duration: Duration,
        stamper: &Stamper,
        found: &mut Found,
    ) -> Result<(), Problem> {
        self.place_thread(target.path.pinned)?;
        let way = self.ends().way(target.path)?;
        let failed = |error| Problem::failed("cannot take timestamps", error);
        let socket = UdpSocket::bind(SocketAddr::new(way.client, 0)).map_err(failed)?;
        let port = socket.local_addr().map_err(failed)?.port();
        let ready = self.ask_echo(target, port)?;
        let open = || {
            socket.connect(SocketAddr::new(way.server, ready.port))?;
            socket.set_nonblocking(target.path.waiting == Waiting::Spin)?;
            socket.set_read_timeout(Some(LOOK_UP))?;
            timestamping::enable(socket.as_fd())
        };
        let mut talk = Talk {
            socket: &socket,
            message: filled(target.size),
            answer: vec![0; target.size as usize],
            sequence: 0,
            id: 0,
            with_device: stamper.device.is_some(),
        };
        let measured = open().map_err(failed).and_then(|()| talk.measure(settling_time(target.path.waiting), duration));
        self.leave(talk)?;
        found.take(&measured?);
        Ok(())
    }

    /// Ends the slice at the peer's end.
    fn leave(&mut self, mut talk: Talk<'_>) -> Result<(), Problem> {
        Header { sequence: talk.sequence, last: true }.write(&mut talk.message);
        for _ in 0..FAREWELLS {
            // One that gets lost is repeated.
            let _ = talk.socket.send(&talk.message);
            if self.control().has_word(LOOK_UP) {
                break;
            }
        }
        match self.control().reply()? {
            Reply::Done(_) => Ok(()),
            _ => {
                Err(Problem::failed("lost the peer", "it did not say that the slice is over").next("restart the peer"))
            }
        }
    }
}

/// The conversation of a slice.
struct Talk<'a> {
    socket: &'a UdpSocket,
    message: Vec<u8>,
    answer: Vec<u8>,
    sequence: u64,
    /// Messages that asked for stamps.
    id: u32,
    with_device: bool,
}

impl Talk<'_> {
    fn measure(&mut self, settle: Duration, duration: Duration) -> Result<Messages, Problem> {
        let mut messages = Messages::default();
        let (begin, mut losses, mut number, mut counted) = (Instant::now(), 0, 0, false);
        while begin.elapsed() < settle + duration && messages.unstamped.len() < MESSAGES_MAX {
            let counts = begin.elapsed() >= settle;
            // The first one that counts is stamped, however few a slow path has in a slice.
            number = if counts == counted { number + 1 } else { 0 };
            counted = counts;
            let is_stamped = number % EVERY == 0;
            let times = self.round_trip(is_stamped)?;
            self.sequence += 1;
            losses = if times.is_some() { 0 } else { losses + 1 };
            if losses >= LOSSES_MAX {
                return Err(Problem::failed(
                    "the peer stopped answering",
                    format!("{losses} messages in a row were not answered"),
                )
                .next("see what the peer printed, and whether its host is up"));
            }
            match times {
                _ if !counts => {}
                None => messages.lost += 1,
                Some(times) if is_stamped => messages.stamped.push(times),
                Some(times) => messages.unstamped.extend(times.end.checked_sub(times.begin)),
            }
        }
        Ok(messages)
    }

    /// One message and its answer; none if it is lost.
    fn round_trip(&mut self, is_stamped: bool) -> Result<Option<Times>, Problem> {
        Header { sequence: self.sequence, last: false }.write(&mut self.message);
        let failed = |error| Problem::failed("cannot exchange stamped messages", error);
        let socket = self.socket.as_fd();
        let begin = now();
        let sent = if is_stamped {
            timestamping::send(socket, &self.message)
        } else {
            self.socket.send(&self.message).map(drop)
        };
        match sent {
            Err(error) if is_retry(&error) => return Ok(None),
            sent => sent.map_err(failed)?,
        }
        self.id += u32::from(is_stamped);
        let mut times = Times { begin, ..Times::default() };
        if !self.receive(is_stamped, &mut times).map_err(failed)? {
            return Ok(None);
        }
        if is_stamped {
            self.collect(&mut times).map_err(failed)?;
        }
        Ok(Some(times))
    }

    /// Receives the answer; false if it is lost.
    fn receive(&mut self, is_stamped: bool, times: &mut Times) -> std::io::Result<bool> {
        let deadline = Instant::now() + LOST_AFTER;
        loop {
            let received = match is_stamped {
                true => timestamping::receive(self.socket.as_fd(), &mut self.answer),
                false => self.socket.recv(&mut self.answer).map(|count| (count, timestamping::Stamp::default())),
            };
            times.end = now();
            match received {
                Ok((count, stamp)) => {
                    let header = Header::read(&self.answer[..count.min(self.answer.len())]);
                    if header.is_some_and(|header| header.sequence == self.sequence) {
                        (times.answer, times.answer_wire) = (stamp.software, stamp.hardware);
                        return Ok(true);
                    }
                }
                Err(error) if is_retry(&error) => {}
                Err(error) => return Err(error),
            }
            if Instant::now() > deadline {
                return Ok(false);
            }
        }
    }

    /// Takes the stamps of the message from the error queue; those of earlier ones came too late.
    fn collect(&self, times: &mut Times) -> std::io::Result<()> {
        let deadline = Instant::now() + STAMPS_WITHIN;
        let is_complete = |times: &Times| {
            times.scheduled.is_some() && times.driver.is_some() && (times.wire.is_some() || !self.with_device)
        };
        while !is_complete(times) && Instant::now() < deadline {
            let Some(sent) = timestamping::next_sent(self.socket.as_fd())? else { continue };
            if sent.id.wrapping_add(1) != self.id {
                continue;
            }
            match sent.station {
                Station::Scheduled => times.scheduled = sent.stamp.software,
                Station::Driver => {
                    times.driver = times.driver.or(sent.stamp.software);
                    times.wire = times.wire.or(sent.stamp.hardware);
                }
            }
        }
        Ok(())
    }
}

/// CLOCK_REALTIME, the clock of software stamps.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}
