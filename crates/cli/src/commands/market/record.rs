//! `sidestep market record`.
//!
//! ```text
//!  lines ── this thread ──> ring, --memory ──> writer's thread ──> file
//! ```
//!
//! The receiving thread never waits for the disk: a datagram that finds no room in the ring is counted, and told. What this host has
//! dropped before is told of each line, too, and stands in the file (interface statistics blocks).

use super::lines::{apply_thread, line_options, tell_paths};
use crate::args::{MarketRecord as Args, Sync};
use crate::{exit, output, signal};
use sidestep_feed_handler::{Arrival, Drops, LINES_MAX, LineOptions, Lines, name};
use sidestep_market::capture::{Counts, InterfaceId, LinkType, Writer};
use sidestep_ring::Waking;
use sidestep_ring::spsc::{Consumer, Producer, pair};
use sidestep_sys::idle::{Idle, IdleStrategy};
use sidestep_sys::problem::say;
use sidestep_sys::{Problem, signals};
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Bytes of the file that are kept before they are written: what a crash of this process may lose, beside the ring.
const BUFFER_BYTES: usize = 1 << 20;
/// Between two flushes and syncs.
const FLUSH_EVERY: Duration = Duration::from_secs(1);
/// The longest wait of either thread before it looks for the end.
const NAP: Duration = Duration::from_millis(50);

/// Before each datagram in the ring: line, 1 if it came by the twin, port, time, address (of IPv4 as ::ffff:a.b.c.d).
const HEAD_BYTES: usize = 2 + 2 + 8 + 16;

pub(super) fn run(args: &Args) -> Result<u8, Problem> {
    let stop = signal::stop_flag()?;
    let idle = apply_thread(&args.lines)?;
    let options = LineOptions { times: true, ..line_options(&args.lines) };
    let mut lines = Lines::open(&args.lines.line, &options)?;
    tell_paths(&lines);
    let names: Vec<String> = args.lines.line.iter().map(ToString::to_string).collect();
    let groups: Vec<SocketAddr> = args.lines.line.iter().map(|line| line.group).collect();
    let (producer, consumer) = pair((args.memory as usize) << 20, Waking::Fence)?;
    let is_over = Arc::new(AtomicBool::new(false));
    let recorder = Recorder::new(args, names, groups, consumer, Arc::clone(&is_over))?;
    let thread = signals::with_all_blocked(|| {
        std::thread::Builder::new().name("recorder".into()).spawn(move || recorder.work())
    });
    let thread = thread.map_err(|error| {
        Problem::failed("cannot start the writer's thread", error).next("see the limit of processes: ulimit -u")
    })?;
    let mut receiver = Receiver { producer, counts: [0; LINES_MAX], lost: [0; LINES_MAX] };
    let received = receiver.work(&mut lines, idle, args.duration, &stop, &is_over);
    receiver.producer.close();
    let (recorder, written) = thread.join().map_err(|_| {
        Problem::failed("cannot record", "the writer's thread has ended").next("see the message before this one")
    })?;
    let drops: Vec<Drops> = (0..lines.len()).map(|line| lines.drops(line)).collect();
    let bytes = recorder.end(written, &receiver.counts_of(&drops));
    receiver.tell(&args.file, bytes.as_ref().ok().copied(), &drops);
    received?;
    bytes?;
    let is_whole = receiver.lost.iter().all(|lost| *lost == 0) && drops.iter().all(|dropped| dropped.total() == 0);
    Ok(if is_whole { exit::GOOD } else { exit::FAILED })
}

struct Receiver {
    producer: Producer,
    /// Datagrams of each line.
    counts: [u64; LINES_MAX],
    /// Datagrams of each line that found no room.
    lost: [u64; LINES_MAX],
}

impl Receiver {
    fn work(
        &mut self,
        lines: &mut Lines,
        idle: IdleStrategy,
        duration: Option<Duration>,
        stop: &AtomicBool,
        is_over: &AtomicBool,
    ) -> Result<(), Problem> {
        let begin = Instant::now();
        let (mut idle, mut looked) = (Idle::new(idle), begin);
        while !stop.load(Ordering::Relaxed) && !is_over.load(Ordering::Relaxed) {
            let now = Instant::now();
            if duration.is_some_and(|longest| now.duration_since(begin) >= longest) {
                break;
            }
            if now.duration_since(looked) >= FLUSH_EVERY {
                looked = now;
                lines.look_at_paths();
            }
            if lines.poll(&mut |arrival| self.take(&arrival))? > 0 {
                idle.reset();
                continue;
            }
            let mut slept = Ok(());
            idle.next_pause().take(|longest| slept = lines.sleep(longest.min(NAP)));
            slept?;
        }
        Ok(())
    }

    fn take(&mut self, arrival: &Arrival<'_>) {
        self.counts[arrival.line] += 1;
        let Ok(mut claim) = self.producer.try_claim(HEAD_BYTES + arrival.payload.len()) else {
            self.lost[arrival.line] += 1;
            return;
        };
        claim[..HEAD_BYTES].copy_from_slice(&head(arrival));
        claim[HEAD_BYTES..].copy_from_slice(arrival.payload);
        claim.commit();
    }

    /// For the file. What was dropped of an interface is told of each of its lines: nobody knows whose it was.
    fn counts_of(&self, drops: &[Drops]) -> Vec<Counts> {
        let of = |(line, drops): (usize, &Drops)| Counts {
            received: self.counts[line] + drops.own(),
            dropped_by_interface: drops.interface,
            dropped_by_system: drops.own(),
            delivered: self.counts[line] - self.lost[line],
        };
        drops.iter().enumerate().map(of).collect()
    }

    fn tell(&self, file: &Path, bytes: Option<u64>, drops: &[Drops]) {
        let of_lines = |count: &dyn Fn(usize) -> u64| {
            let counted = (0..drops.len()).map(|line| (name(line), count(line))).filter(|(_, count)| *count > 0);
            counted.map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ")
        };
        let counts: Vec<String> =
            (0..drops.len()).map(|line| format!("{} {}", name(line), self.counts[line])).collect();
        if let Some(bytes) = bytes {
            say(format!("{}: {bytes} bytes; datagrams: {}", file.display(), counts.join(", ")));
        }
        let told =
            |counted: String, rest: &str| (!counted.is_empty()).then(|| say(format!("{counted} datagrams {rest}")));
        told(of_lines(&|line| self.lost[line]), "found no room while the disk was busy: raise --memory");
        told(
            of_lines(&|line| drops[line].own()),
            "were not fetched in time: raise net.core.rmem_max, or give the thread a CPU of its own (--spin --cpu N)",
        );
        told(
            of_lines(&|line| drops[line].interface),
            "found no frame at the interface of the line: give the thread a CPU of its own (--spin --cpu N)",
        );
    }
}

fn head(arrival: &Arrival<'_>) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    (head[0], head[1]) = (arrival.line as u8, u8::from(arrival.by_twin));
    head[2..4].copy_from_slice(&arrival.source.port().to_ne_bytes());
    head[4..12].copy_from_slice(&arrival.time_ns.to_ne_bytes());
    let address = match arrival.source.ip() {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    };
    head[12..].copy_from_slice(&address.octets());
    head
}

/// Line, 1 if by the twin, time, sender.
fn of_head(head: &[u8; HEAD_BYTES]) -> (usize, bool, u64, SocketAddr) {
    let [line, by_twin, low, high, time @ .., _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _] = *head;
    let [.., a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = *head;
    let address = Ipv6Addr::from([a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p]).to_canonical();
    let port = u16::from_ne_bytes([low, high]);
    (line.into(), by_twin != 0, u64::from_ne_bytes(time), SocketAddr::new(address, port))
}

/// The file, with its bytes counted.
struct Counted {
    file: BufWriter<Box<dyn Write + Send>>,
    bytes: u64,
}

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// The writer's thread.
struct Recorder {
    writer: Writer<Counted>,
    /// To be synchronised; none of standard output.
    file: Option<File>,
    interfaces: Vec<InterfaceId>,
    /// Of kernel twins, from the first datagram on.
    twins: Vec<Option<InterfaceId>>,
    names: Vec<String>,
    groups: Vec<SocketAddr>,
    consumer: Consumer,
    sync: Sync,
    bytes_max: u64,
    is_over: Arc<AtomicBool>,
    path: String,
}

impl Recorder {
    fn new(
        args: &Args,
        names: Vec<String>,
        groups: Vec<SocketAddr>,
        consumer: Consumer,
        is_over: Arc<AtomicBool>,
    ) -> Result<Self, Problem> {
        let (out, file) = create(&args.file)?;
        let counted = Counted { file: BufWriter::with_capacity(BUFFER_BYTES, out), bytes: 0 };
        let failed = |error: io::Error| output::unwritable(&args.file, error);
        let mut writer = Writer::new(counted, "sidestep market record").map_err(failed)?;
        let add = |(line, name_of): (usize, &String)| writer.interface(&interface(line, false, name_of), LinkType::RAW);
        let interfaces = names.iter().enumerate().map(add).collect::<io::Result<_>>().map_err(failed)?;
        Ok(Self {
            writer,
            file,
            interfaces,
            twins: vec![None; names.len()],
            names,
            groups,
            consumer,
            sync: args.sync,
            bytes_max: args.bytes.unwrap_or(u64::MAX),
            is_over,
            path: args.file.display().to_string(),
        })
    }

    /// Writes until the ring is closed and empty, or the file is as long as it may be.
    fn work(mut self) -> (Self, io::Result<()>) {
        let written = self.write();
        self.is_over.store(true, Ordering::Relaxed);
        self.consumer.close();
        (self, written)
    }

    fn write(&mut self) -> io::Result<()> {
        let mut flushed = Instant::now();
        while self.writer.get_mut().bytes < self.bytes_max {
            if !self.write_next()? {
                match self.consumer.wait(IdleStrategy::SPIN_THEN_PARK, Some(Instant::now() + NAP)) {
                    Err(sidestep_ring::WaitError::TimedOut) | Ok(()) => {}
                    Err(_) => return Ok(()),
                }
            }
            if flushed.elapsed() >= FLUSH_EVERY {
                flushed = Instant::now();
                self.writer.get_mut().flush()?;
                if self.sync == Sync::Second {
                    self.synchronise()?;
                }
            }
        }
        Ok(())
    }

    /// Writes the next datagram; returns false if there is none.
    fn write_next(&mut self) -> io::Result<bool> {
        let Self { writer, interfaces, twins, names, groups, consumer, .. } = self;
        let Ok(message) = consumer.try_read() else { return Ok(false) };
        let Some((head, payload)) = message.split_first_chunk() else { return Ok(true) };
        let (line, by_twin, time_ns, source) = of_head(head);
        let interface = match (by_twin, twins[line]) {
            (false, _) => interfaces[line],
            (true, Some(twin)) => twin,
            (true, None) => {
                let twin = writer.interface(&interface(line, true, &names[line]), LinkType::RAW)?;
                *twins[line].insert(twin)
            }
        };
        writer.datagram(interface, time_ns, source, groups[line], payload)?;
        Ok(true)
    }

    /// Ends the file with the counts of each line, if it could be written; returns its bytes.
    fn end(mut self, written: io::Result<()>, counts: &[Counts]) -> Result<u64, Problem> {
        let ended = written.and_then(|()| self.write_end(counts));
        ended.map_err(|error| {
            Problem::failed(format!("cannot write {}", self.path), error)
                .next("what was written before can be read; make room on the disk")
        })
    }

    fn write_end(&mut self, counts: &[Counts]) -> io::Result<u64> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64);
        for (interface, counts) in self.interfaces.iter().zip(counts) {
            self.writer.statistics(*interface, now, counts)?;
        }
        self.writer.get_mut().flush()?;
        if self.sync != Sync::Never {
            self.synchronise()?;
        }
        Ok(self.writer.get_mut().bytes)
    }

    fn synchronise(&self) -> io::Result<()> {
        self.file.as_ref().map_or(Ok(()), File::sync_data)
    }
}

/// The name of a line's interface in the capture; replays find lines by it.
pub(super) fn interface(line: usize, is_twin: bool, place: &str) -> String {
    format!("{}{} {place}", name(line), if is_twin { " kernel" } else { "" })
}

/// The line of an interface of this name, and whether it is the line's kernel twin.
pub(super) fn line_of(interface: &str) -> Option<(usize, bool)> {
    let (name, rest) = interface.split_once(' ')?;
    let [letter @ b'A'..=b'Z'] = *name.as_bytes() else { return None };
    let line = usize::from(letter - b'A');
    (line < LINES_MAX).then_some((line, rest.starts_with("kernel ")))
}

type Out = Box<dyn Write + Send>;

fn create(path: &Path) -> Result<(Out, Option<File>), Problem> {
    if path == Path::new("-") {
        return Ok((Box::new(io::stdout()), None));
    }
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::AlreadyExists => {
            Problem::usage(format!("cannot write {}", path.display()), "it exists").next("name a new file")
        }
        _ => output::unwritable(path, error),
    };
    let file = OpenOptions::new().write(true).create_new(true).open(path).map_err(failed)?;
    let out = file.try_clone().map_err(failed)?;
    Ok((Box::new(out), Some(file)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_as_it_was_written() {
        for source in ["192.0.2.1:7", "[2001:db8::1]:65535"] {
            let source: SocketAddr = source.parse().unwrap();
            let arrival =
                Arrival { line: 3, by_twin: true, arrived_ns: 1, time_ns: u64::MAX - 1, source, payload: b"" };
            assert_eq!(of_head(&head(&arrival)), (3, true, u64::MAX - 1, source));
        }
    }

    #[test]
    fn lines_are_found_by_the_names_of_their_interfaces() {
        let place = "eth1:239.192.0.1:26400";
        assert_eq!(line_of(&interface(1, false, place)), Some((1, false)));
        assert_eq!(line_of(&interface(0, true, place)), Some((0, true)));
        for other in ["", "eth0", "A", "AB eth0", "a eth0", "Z eth0"] {
            assert_eq!(line_of(other), None, "{other}");
        }
    }
}
