//! One slice of the exchange: datagrams leave when they are due, whatever the trader does; its orders are taken with their times.

use super::play::{Gaps, Plan, Play, Step};
use super::slice::{Record, TickSlice, Times};
use super::text::{Front, Reader, fix_field, fix_message};
use super::wire::{Door, Wire};
use super::{OrderForm, Work};
use crate::cpu_time::{BothSpent, Spent, SpentSince};
use crate::measure::{Bench, FAREWELLS, LOOK_UP, Meter};
use crate::path::{Medium, Path};
use crate::peer::protocol::{Done, Ready, Reply, Request, Trade};
use sidestep_report::schema::Noise;
use sidestep_socket::stream::is_retry;
use sidestep_sys::Problem;
use sidestep_sys::clock::Clock;
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

/// The time at the beginning of a slice whose ticks are judged and are no samples: connections and caches are cold.
pub(super) const SETTLE: Duration = Duration::from_millis(30);
/// The time after a slice in which datagrams that were due in it may still leave, and the longest wait for orders after that.
const GRACE: Duration = Duration::from_millis(200);
/// The longest wait for a Logon.
const LOGON_MAX: Duration = Duration::from_secs(3);
/// A Logon, or a login of SoupBinTCP, is shorter.
const LOGON_BYTES_MAX: usize = 1024;
/// LoginRequest of SoupBinTCP: length 2, type 1, payload 46.
const LOGIN_BYTES: usize = 49;
/// Between two datagrams that end the session.
const FAREWELL_WAIT: Duration = LOOK_UP;

/// What is measured in a slice.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    pub(super) path: &'static Path,
    pub(super) work: Work,
    pub(super) form: OrderForm,
    pub(super) lines: u8,
    pub(super) speed: u32,
    /// Datagrams of line A that are left out, per cent.
    pub(super) gap_on_a: f64,
    /// Group of line A; that of line B is the next one.
    pub(super) group: Ipv4Addr,
    pub(super) plan: Plan,
}

impl Target {
    fn reader(&self) -> Reader {
        if self.work == Work::Reflex { Reader::of_written(self.form) } else { Reader::new(self.form) }
    }
}

impl Bench {
    /// Plays for `duration` to a trader that is connected for it.
    pub(super) fn tick(&mut self, target: &Target, play: &Play, duration: Duration) -> Result<TickSlice, Problem> {
        let (IpAddr::V4(local), trader) = (self.ends().client, self.ends().server) else {
            return Err(Problem::usage("cannot send to a group", "the ends talk IPv6").next("leave -6 out"));
        };
        let own = exchange_path(target.path)?;
        let door = if own.medium == Medium::Stack {
            // The threads that an engine starts shall not be where this one spins.
            self.place_thread(false)?;
            self.need_plane()?;
            Door::past_kernel(&self.device()?, local.into())?
        } else {
            Door::by_kernel(local.into(), own)?
        };
        self.place_thread(true)?;
        let ready = self.ask_trade(target, door.port())?;
        // From here on the peer sends one more reply, whatever happens to the slice.
        let link_note = door.note();
        let note = match &link_note {
            Some(link) => Some(self.stack_note(link, ready.note.as_deref())),
            None => self.kernel_note(ready.note.as_deref()),
        };
        let meter = Meter::start(self.watched_cpus());
        let clock = self.clock.clone();
        let played = door
            .meet((local, trader), &ready.groups, self.ends().is_one_namespace())
            .and_then(|mut wire| log_on(&mut wire, target.form).map(|()| wire))
            .map(|wire| Exchange::new(wire, &clock, target, play));
        let mut exchange = played.inspect_err(|_| drop(self.control().reply()))?;
        let run = exchange.run(duration);
        let noise = meter.stop();
        let done = self.end_trade(&mut exchange);
        exchange.wire.close();
        let done = done?;
        run.map(|spent| exchange.record.slice(&clock, target.reader(), spent)).map(|slice| TickSlice {
            noise: Noise { involuntary_switches: noise.involuntary_switches + done.involuntary_switches, ..noise },
            cpu: BothSpent { peer: done.cpu, ..slice.cpu },
            done,
            note,
            ..slice
        })
    }

    fn ask_trade(&mut self, target: &Target, port: u16) -> Result<Ready, Problem> {
        let request = Request::Trade(Trade {
            path: trader_path(target.path).into(),
            cpu: self.cpus.server,
            port,
            group: target.group,
            lines: target.lines,
            work: target.work,
            form: target.form,
            plan: target.plan,
        });
        match self.control().ask(&request)? {
            Reply::Ready(ready) if ready.groups.len() == usize::from(target.lines) => Ok(ready),
            _ => Err(Problem::failed("lost the peer", "it did not get ready for a slice").next("restart the peer")),
        }
    }

    /// Ends the session on the trader's side, and receives its counts.
    fn end_trade(&mut self, exchange: &mut Exchange<'_>) -> Result<Done, Problem> {
        for _ in 0..FAREWELLS {
            exchange.say_end();
            let end = Instant::now() + FAREWELL_WAIT;
            while Instant::now() < end && !self.control().has_word_now() {
                // Orders that come now are judged, too: late is not wrong, but wrong is wrong. And an engine has to acknowledge them.
                let _ = exchange.receive();
            }
            if self.control().has_word_now() {
                break;
            }
        }
        match self.control().reply()? {
            Reply::Done(done) => Ok(done),
            _ => {
                Err(Problem::failed("lost the peer", "it did not say that the slice is over").next("restart the peer"))
            }
        }
    }
}

/// The exchange's path where the trader's end is `path`: kernel-spin where only one end goes past the kernel.
pub(super) fn exchange_path(path: &'static Path) -> Result<&'static Path, Problem> {
    path.peer.map_or(Ok(path), Path::named)
}

/// The trader's path: it is the end that a trader has in its hands.
fn trader_path(path: &Path) -> &'static str {
    match path.medium {
        // At both ends it is `xdp`; here the exchange is not.
        Medium::Stack if path.peer.is_some() => "xdp",
        _ => path.name,
    }
}

/// Takes the login of a session, and accepts it.
fn log_on(wire: &mut Wire, form: OrderForm) -> Result<(), Problem> {
    let refused = |why: &dyn std::fmt::Display| Problem::failed("the trader did not log on", why);
    if form == OrderForm::Raw {
        return Ok(());
    }
    let (mut bytes, mut filled) = ([0; LOGON_BYTES_MAX], 0);
    let deadline = Instant::now() + LOGON_MAX;
    while Instant::now() < deadline && filled < bytes.len() {
        match wire.receive(&mut bytes[filled..]) {
            Ok(0) => return Err(refused(&"it closed the connection")),
            Ok(count) => filled += count,
            Err(error) if is_retry(&error) => {}
            Err(error) => return Err(refused(&error)),
        }
        let Some(answer) = answer_to_logon(form, &bytes[..filled]).map_err(|why| refused(&why))? else { continue };
        return wire.answer(&answer).map_err(|error| refused(&error));
    }
    Err(refused(&"there was no Logon within three seconds"))
}

/// The answer to a login that has come whole.
fn answer_to_logon(form: OrderForm, bytes: &[u8]) -> Result<Option<Vec<u8>>, String> {
    let mut answer = Vec::new();
    if form == OrderForm::Ouch {
        if bytes.len() < LOGIN_BYTES {
            return Ok(None);
        }
        if bytes[..3] != [0, 47, b'L'] {
            return Err("its first packet is no LoginRequest".into());
        }
        answer.extend([0, 31, b'A']);
        answer.extend(b"SIDESTEP01                   1");
        return Ok(Some(answer));
    }
    match Reader::logon().front(bytes)? {
        Front::Incomplete => Ok(None),
        Front::Session(length) if length == bytes.len() && fix_field(bytes, b"35") == Some(b"A") => {
            let interval = fix_field(bytes, b"108").unwrap_or(b"30");
            let reset: &[(u32, &[u8])] = if fix_field(bytes, b"141") == Some(b"Y") { &[(141, b"Y")] } else { &[] };
            let fields = [&[(98, &b"0"[..]), (108, interval)], reset].concat();
            fix_message(&mut answer, b"A", 1, false, &fields);
            Ok(Some(answer))
        }
        _ => Err("its first message is no Logon".into()),
    }
}

/// The exchange of one slice.
struct Exchange<'a> {
    wire: Wire,
    clock: &'a Clock,
    target: &'a Target,
    record: Record<'a>,
}

impl<'a> Exchange<'a> {
    fn new(wire: Wire, clock: &'a Clock, target: &'a Target, play: &'a Play) -> Self {
        Self { wire, clock, target, record: Record::new(play, clock.ticks(SETTLE)) }
    }

    /// Plays, and waits for the orders.
    fn run(&mut self, duration: Duration) -> Result<Spent, Problem> {
        let length = SETTLE + duration;
        let steps = self.record.play.steps(self.target.speed, length.as_nanos() as u64);
        let mut gaps = Gaps::new(self.target.plan.seed, self.target.gap_on_a);
        let per_ns = 1.0 / self.clock.ns_per_tick() / f64::from(self.target.speed);
        let spent = SpentSince::now();
        let start = self.clock.stop();
        self.record.start = start;
        let last = start + self.clock.ticks(length + GRACE);
        let mut now = start;
        for step in steps {
            let due = start + (step.due_ns as f64 * per_ns) as u64;
            if now > last {
                // An exchange that is so far behind owes the rest of its slice: their ticks are lost, not forgotten.
                if !gaps.leaves_out(step) {
                    self.record.withheld(step, due);
                }
                continue;
            }
            // At least once for each datagram, also where the exchange is behind.
            loop {
                self.receive()?;
                now = self.clock.stop();
                if now >= due {
                    break;
                }
            }
            if gaps.leaves_out(step) {
                self.record.left_out += 1;
            } else {
                self.send(step, due)?;
            }
        }
        self.record.end = self.clock.stop();
        let spent = spent.on(self.record.sent);
        self.await_orders()?;
        Ok(spent)
    }

    #[inline]
    fn send(&mut self, step: &Step, due: u64) -> Result<(), Problem> {
        let bytes = self.record.play.bytes(step);
        let mut left = self.clock.stop();
        while let Err(error) = self.wire.send(step.line.into(), bytes) {
            if !is_retry(&error) {
                return Err(Problem::failed("cannot send the feed", error));
            }
            self.receive()?;
            left = self.clock.stop();
        }
        let handed_over = self.clock.stop();
        self.record.sent(step, Times { due, left, handed_over });
        Ok(())
    }

    #[inline]
    fn receive(&mut self) -> Result<(), Problem> {
        let spare = self.record.intake.spare();
        if spare.is_empty() {
            return Ok(());
        }
        match self.wire.receive(spare) {
            Ok(0) => Err(stopped("it closed the connection")),
            Ok(count) => {
                let now = self.clock.stop();
                self.record.intake.took(count, now);
                Ok(())
            }
            Err(error) if is_retry(&error) => Ok(()),
            Err(error) => Err(stopped(error)),
        }
    }

    /// Waits until every tick has its order, but no longer than [`GRACE`].
    fn await_orders(&mut self) -> Result<(), Problem> {
        let sent = self.record.ticks_sent();
        let end = self.clock.stop() + self.clock.ticks(GRACE);
        while self.clock.stop() < end {
            self.receive()?;
            if self.record.orders(self.target.reader()) >= sent {
                break;
            }
            let pause = self.clock.stop() + self.clock.ticks(Duration::from_millis(1));
            while self.clock.stop() < pause {
                self.receive()?;
            }
        }
        Ok(())
    }

    /// Sends the datagram that ends the session on every line.
    fn say_end(&mut self) {
        let end = self.record.play.end();
        for line in 0..usize::from(self.target.lines) {
            // It is sent again.
            let _ = self.wire.send(line, &end);
        }
    }
}

fn stopped(why: impl std::fmt::Display) -> Problem {
    Problem::failed("the trader stopped", why).next("see what the peer printed, and whether its host is up")
}

#[cfg(test)]
mod tests {
    use super::super::play::tests::PLAN;
    use super::super::text::raw_order;
    use super::*;
    use sidestep_socket::datagram::UdpPort;
    use sidestep_socket::stream::{Io, Options};
    use sidestep_sys::clock::Choice;
    use std::io::{Read, Write};
    use std::net::SocketAddrV4;

    #[test]
    fn a_logon_is_answered_when_it_is_whole() {
        let mut logon = Vec::new();
        fix_message(&mut logon, b"A", 1, true, &[(98, b"0"), (108, b"60"), (141, b"Y")]);
        let answer = answer_to_logon(OrderForm::Fix, &logon).unwrap().expect("it is whole");
        let shown = String::from_utf8_lossy(&answer).replace('\u{1}', "|");
        assert!(shown.contains("|35=A|34=1|49=EXCHANGE|") && shown.contains("|98=0|108=60|141=Y|"), "{shown}");
        assert_eq!(answer_to_logon(OrderForm::Fix, &logon[..30]), Ok(None));
        let mut other = Vec::new();
        fix_message(&mut other, b"0", 1, true, &[]);
        assert!(answer_to_logon(OrderForm::Fix, &other).is_err());
        let mut login = vec![0, 47, b'L'];
        login.extend([b' '; 46]);
        assert_eq!(answer_to_logon(OrderForm::Ouch, &login).unwrap().map(|answer| answer.len()), Some(33));
        assert_eq!(answer_to_logon(OrderForm::Ouch, &login[..48]), Ok(None));
        login[2] = b'U';
        assert!(answer_to_logon(OrderForm::Ouch, &login).is_err());
    }

    /// A trader that stands still while the whole slice is played: the exchange plays on, and each tick has its whole delay.
    #[test]
    fn a_trader_that_stalls_delays_no_tick_and_every_one_is_a_sample_or_lost() {
        const SLICE: Duration = Duration::from_millis(20);
        const STALL: Duration = Duration::from_millis(60);
        let (here, group) = (Ipv4Addr::LOCALHOST, Ipv4Addr::new(239, 192, 74, 77));
        let play = Play::new(&PLAN, 1);
        let path = Path::named("kernel-spin").unwrap();
        let door = Door::by_kernel(here.into(), path).unwrap();
        let (order_port, orders) = (door.port(), play.asked.clone());
        let feed = UdpPort::join(SocketAddrV4::new(group, 0), here).unwrap();
        let at = SocketAddrV4::new(group, feed.local().unwrap().port());
        let mut feed = feed.receiver(&Options { timeout: Duration::from_secs(5), ..Options::default() }).unwrap();
        let due = play.steps(1, (SETTLE + SLICE).as_nanos() as u64).iter().filter_map(|step| step.tick).count();
        let trader = std::thread::spawn(move || {
            let mut stream = std::net::TcpStream::connect((here, order_port)).unwrap();
            feed.receive(&mut Io::default(), &mut [0; 2048]).unwrap();
            std::thread::sleep(SETTLE + SLICE + STALL);
            let bytes: Vec<u8> = orders[..due].iter().flat_map(raw_order).collect();
            stream.write_all(&bytes).unwrap();
            // The stream stays until the exchange has ended it.
            let _ = stream.read(&mut [0; 1]);
        });
        let wire = door.meet((here, here.into()), &[at], true).unwrap();
        let target = Target {
            path,
            work: Work::Book,
            form: OrderForm::Raw,
            lines: 1,
            speed: 1,
            gap_on_a: 0.0,
            group,
            plan: PLAN,
        };
        let clock = Clock::calibrate(Choice::Auto);
        let mut exchange = Exchange::new(wire, &clock, &target, &play);
        let spent = exchange.run(SLICE).unwrap();
        let found = exchange.record.slice(&clock, target.reader(), spent);
        exchange.wire.close();
        trader.join().unwrap();
        assert!(found.judgement.fault.is_none(), "{:?}", found.judgement);
        assert!(found.counted > 0 && found.from_due.len() + found.lost == found.counted, "{found:?}");
        if !found.from_due.is_empty() {
            assert!(found.from_due.quantile(0.0) >= 0.99 * STALL.as_nanos() as f64, "{}", found.from_due.quantile(0.0));
            assert_eq!(found.judgement.late as usize, found.judgement.answered.len());
        }
    }
}
