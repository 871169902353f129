//! A feed against the venue of this repository, which shares no code with the handler: past the kernel between the two hosts of a lab,
//! and with a re-request server that is killed.

mod paths;
mod process;
mod queues;
mod servers;
mod users;
mod venue;

use crate::venue::Venue;
use sidestep_feed_handler::{Application, FeedHandler, Line, Options, Update};
use sidestep_lab::{Host, Lab};
use sidestep_market::book::{self, Books};
use sidestep_market::feed::{Action, Counters, State};
use sidestep_market::mold64::Session;
use sidestep_market::units::{LineId, Side};
use sidestep_socket::Path;
use sidestep_sys::process::is_root;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// A watchdog, not a measurement: what takes longer hangs.
const WATCHDOG: Duration = Duration::from_secs(60);
const GROUPS: [&str; 2] = ["239.192.0.1:26400", "239.192.0.2:26400"];

/// A level: instrument, true of a bid, price, shares. All levels of a feed: by instrument, bids first, best first.
type Level = (u16, bool, i64, u64);

/// A lab, if this process may make one.
fn lab(options: &sidestep_lab::Options) -> Option<Lab> {
    if !is_root() {
        eprintln!("skipped: needs root");
        return None;
    }
    Some(Lab::up(options).expect("root can make a lab"))
}

/// What is counted of a feed.
#[derive(Default)]
struct Seen {
    is_over: bool,
    messages: u64,
    skipped: u64,
}

impl Application for Seen {
    fn message(&mut self, update: &Update<'_>) {
        self.messages += u64::from(!update.is_snapshot);
    }

    fn notice(&mut self, action: &Action<Session>, _: &Books) {
        match action {
            Action::SessionEnded { .. } => self.is_over = true,
            Action::Skipped { count, .. } => self.skipped += count,
            _ => {}
        }
    }
}

/// Options for lines of these interfaces, with room for the venue's books.
fn options(interfaces: [&str; 2]) -> Options {
    let lines = [0, 1].map(|line| Line::new(interfaces[line], GROUPS[line].parse::<SocketAddr>().unwrap()));
    let mut options = Options::of(lines);
    options.channel.books = book::Limits { instruments: 100, orders: 20_000, levels: 10_000, side_levels: 2_000 };
    options.channel.held.held_messages = 1 << 16;
    options.channel.held.held_bytes = 4 << 20;
    options.line.frames = 1024;
    // Tests share the CPUs: a datagram by the kernel may wait for ksoftirqd.
    options.channel.policy.gap_wait_ns = 200_000_000;
    options
}

/// A handler on a host, and what it has shown.
struct Desk {
    handler: FeedHandler,
    seen: Seen,
}

impl Desk {
    fn open(options: &Options) -> Self {
        Self { handler: FeedHandler::open(options).unwrap(), seen: Seen::default() }
    }

    fn on(host: &Host, options: &Options) -> Self {
        host.within(|| Ok(Self::open(options))).unwrap()
    }

    /// Polls until nothing is there.
    fn drain(&mut self) {
        while self.handler.poll(&mut self.seen).unwrap() > 0 {}
    }

    /// Polls until something is so; the venue answers requests and connections meanwhile.
    fn until(&mut self, venue: &mut Venue, what: &str, mut is_so: impl FnMut(&mut Self) -> bool) {
        let begin = Instant::now();
        while !is_so(self) {
            let feed = self.handler.channel().feed();
            assert!(
                begin.elapsed() < WATCHDOG,
                "{what}: {:?} at {:?}, {:?}",
                feed.state(),
                feed.next(),
                feed.counters()
            );
            venue.serve();
            if self.handler.poll(&mut self.seen).unwrap() == 0 {
                self.handler.sleep(Duration::from_millis(1)).unwrap();
            }
        }
    }

    /// Waits until the paths of both lines are so.
    fn until_paths(&mut self, venue: &mut Venue, is_so: fn(Path) -> bool) {
        self.until(venue, "the paths", |desk| [0, 1].iter().all(|line| is_so(desk.handler.sockets().path(*line))));
    }

    /// The venue does so many steps, and each is taken at once.
    fn trade_on(&mut self, venue: &mut Venue, steps: usize) {
        for _ in 0..steps {
            venue.step();
            self.drain();
        }
    }

    /// The same until everything has come.
    fn trade(&mut self, venue: &mut Venue, steps: usize) {
        self.trade_on(venue, steps);
        self.catch_up(venue);
    }

    fn catch_up(&mut self, venue: &mut Venue) {
        let next = venue.next();
        self.until(venue, "what was sent", |desk| desk.handler.channel().feed().next().0 == next);
    }

    /// The session is over: everything has come, and the books are the venue's.
    fn ends_like(&mut self, venue: &mut Venue) -> Counters {
        self.follow_to_the_end(venue);
        let channel = self.handler.channel();
        assert_eq!((channel.feed().next().0, self.seen.skipped), (venue.next(), 0));
        assert_eq!(levels(&self.handler), venue.levels());
        assert!(channel.books().all().all(|book| book.suspect().is_none()));
        channel.feed().counters().clone()
    }

    fn follow_to_the_end(&mut self, venue: &mut Venue) {
        venue.end();
        self.until(venue, "the end of the session", |desk| desk.seen.is_over);
    }

    /// Packets of a line: past the kernel, and by its twin.
    fn packets(&self, line: u8) -> [u64; 2] {
        [line, 2 + line].map(|line| self.handler.channel().feed().line(LineId(line)).unwrap().packets)
    }

    fn state(&self) -> State {
        self.handler.channel().feed().state()
    }
}

fn levels(handler: &FeedHandler) -> Vec<Level> {
    let mut levels = Vec::new();
    for book in handler.channel().books().all() {
        for side in [Side::Buy, Side::Sell] {
            let of = |level: book::PriceLevel| (book.locate().0, side == Side::Buy, level.price.0, level.shares);
            levels.extend(book.levels(side).map(of));
        }
    }
    levels
}
