//! The feed on a thread of its own, which takes looks at it when asked to.

use super::model::{BookView, Gaps, Instrument, LevelView, LineRow, QUEUE_MAX, Refused, Snapshot};
use crate::args::MarketWatch as Args;
use crate::commands::market::lines::{apply_thread, options, tell_paths};
use sidestep_feed_handler::{Application, FeedHandler, Publication, Update, name};
use sidestep_market::arbiter::LineStatistics;
use sidestep_market::book::{Book, Depth, PriceLevel, Refusal};
use sidestep_market::feed::{self, Why};
use sidestep_market::itch::{Message, PRICE_DECIMALS};
use sidestep_market::units::{LineId, Locate, Nanos, Price, Side, Symbol};
use sidestep_socket::Path;
use sidestep_sys::clock::monotonic_ns;
use sidestep_sys::idle::{Idle, IdleStrategy};
use sidestep_sys::{Problem, signals};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// The longest sleep of the feed's thread: how late it sees that it is asked.
const SLEEP_MAX: Duration = Duration::from_millis(5);
/// Polls of a busy feed between two looks for a question.
const POLLS_PER_QUESTION: u32 = 256;

/// What a look is to have.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wanted {
    /// The instrument whose book is wanted.
    pub(super) locate: Option<u16>,
    /// The same by name, which comes first.
    pub(super) symbol: Option<Symbol>,
    pub(super) levels: usize,
    pub(super) has_orders: bool,
}

impl Wanted {
    pub(super) fn of(args: &Args) -> Self {
        Self { symbol: args.symbol, levels: args.levels.into(), ..Self::default() }
    }
}

type Answer = Result<Snapshot, Problem>;

/// The thread.
pub(super) struct FeedThread {
    questions: Option<SyncSender<Wanted>>,
    answers: Receiver<Answer>,
    thread: Option<JoinHandle<()>>,
}

impl FeedThread {
    /// Opens the feed, and starts the thread that polls it.
    pub(super) fn start(args: &Args) -> Result<Self, Problem> {
        let mut options = options(&args.lines, &args.recovery)?;
        options.channel.depth = Depth::Orders;
        options.publish = args.publish.as_ref().map(Publication::within);
        let idle = apply_thread(&args.lines)?;
        let (questions, asked) = sync_channel(1);
        let (answer, answers) = sync_channel(1);
        let (opened, is_open) = sync_channel(1);
        // Opened where it is polled: an engine belongs to a thread.
        let work = move || match FeedHandler::open(&options) {
            Ok(handler) => {
                tell_paths(handler.sockets());
                let seen = Seen::new(options.channel.books.instruments);
                let _ = opened.send(Ok(()));
                Worker { handler, seen, asked, answer }.work(idle);
            }
            Err(problem) => _ = opened.send(Err(problem)),
        };
        let thread = signals::with_all_blocked(|| std::thread::Builder::new().name("feed".into()).spawn(work));
        let thread = thread.map_err(|error| {
            Problem::failed("cannot start the feed's thread", error).next("see the limit of processes: ulimit -u")
        })?;
        is_open.recv().map_err(gone)??;
        Ok(Self { questions: Some(questions), answers, thread: Some(thread) })
    }

    /// A look at the feed as it is now.
    pub(super) fn look(&self, wanted: &Wanted) -> Answer {
        self.questions.iter().for_each(|questions| _ = questions.send(*wanted));
        self.answers.recv().map_err(gone)?
    }
}

impl Drop for FeedThread {
    fn drop(&mut self) {
        // It ends when nobody can ask any more.
        self.questions = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn gone(_: std::sync::mpsc::RecvError) -> Problem {
    Problem::failed("cannot read the feed", "its thread has ended").next("see the message before this one")
}

/// Counted for each instrument.
struct Seen {
    messages: Box<[u64]>,
    executed: Box<[u64]>,
    last: Box<[Option<Price>]>,
    last_message: Option<Nanos>,
}

impl Seen {
    fn new(instruments: u16) -> Self {
        let places = usize::from(instruments) + 1;
        Self {
            messages: vec![0; places].into_boxed_slice(),
            executed: vec![0; places].into_boxed_slice(),
            last: vec![None; places].into_boxed_slice(),
            last_message: None,
        }
    }
}

impl Application for Seen {
    fn message(&mut self, update: &Update<'_>) {
        if !update.is_snapshot {
            self.last_message = Some(update.arrived);
        }
        let place = usize::from(update.message.locate().0);
        let Some(messages) = self.messages.get_mut(place).filter(|_| place > 0) else { return };
        *messages += 1;
        let own_price = || update.change.ok().flatten().map(|change| change.level.price);
        let (shares, price) = match &update.message {
            Message::OrderExecuted(one) => (u64::from(one.shares()), own_price()),
            Message::OrderExecutedWithPrice(one) => (u64::from(one.shares()), Some(one.price())),
            Message::Trade(one) => (u64::from(one.shares()), Some(one.price())),
            Message::CrossTrade(one) => (one.shares(), Some(one.price())),
            _ => return,
        };
        self.executed[place] += shares;
        self.last[place] = price.or(self.last[place]);
    }
}

struct Worker {
    handler: FeedHandler,
    seen: Seen,
    asked: Receiver<Wanted>,
    answer: SyncSender<Answer>,
}

impl Worker {
    /// Polls the feed and answers until nobody can ask any more.
    fn work(mut self, strategy: IdleStrategy) {
        let mut idle = Idle::new(strategy);
        let mut polls = 0;
        loop {
            let polled = self.handler.poll(&mut self.seen);
            polls += 1;
            let is_idle = matches!(polled, Ok(0));
            if let Err(problem) = polled {
                let _ = self.answer.send(Err(problem));
                return;
            }
            if is_idle || polls % POLLS_PER_QUESTION == 0 {
                match self.asked.try_recv() {
                    Ok(wanted) => {
                        let look = self.look(&wanted);
                        let _ = self.answer.send(Ok(look));
                    }
                    Err(std::sync::mpsc::TryRecvError::Empty) => {}
                    Err(std::sync::mpsc::TryRecvError::Disconnected) => return,
                }
            }
            if !is_idle {
                idle.reset();
                continue;
            }
            let mut slept = Ok(());
            idle.next_pause().take(|longest| slept = self.handler.sleep(longest.min(SLEEP_MAX)));
            if let Err(problem) = slept {
                let _ = self.answer.send(Err(problem));
                return;
            }
        }
    }

    fn look(&mut self, wanted: &Wanted) -> Snapshot {
        let now = Nanos(monotonic_ns());
        let channel = self.handler.channel();
        let feed = channel.feed();
        let (state, since, reason) = state(feed.state());
        let counters = feed.counters();
        let failure = self.handler.snapshot_failure().map(|why| format!("; the last snapshot failed: {why}"));
        let named = wanted.symbol.and_then(|symbol| channel.directory().find(symbol));
        let locate = named.or(wanted.locate.map(Locate));
        let incomplete = channel.books().all().filter(|book| book.suspect().is_some()).count();
        Snapshot {
            at_ns: now.0,
            session: feed.session().map(|session| session.to_string()).unwrap_or_default(),
            state,
            reason: match incomplete {
                0 if state == "live" => String::new(),
                _ if state == "live" => format!("{incomplete} books are incomplete: {INCOMPLETE}"),
                _ => reason.to_owned() + &failure.unwrap_or_default(),
            },
            incomplete_books: incomplete,
            since_ns: since.map_or(0, |since| now.since(since)),
            next_sequence: feed.next().0,
            messages: channel.counters().messages,
            messages_per_s: 0.0,
            last_message_ns: self.seen.last_message.map(|at| now.since(at)),
            gaps: Gaps {
                opened: counters.gaps,
                by_line: counters.filled_by_line,
                by_request: counters.filled_by_request,
                by_snapshot: counters.ended_by_snapshot,
                lost_messages: counters.skipped.saturating_sub(counters.replaced),
                replaced_messages: counters.replaced,
                held: feed.held().0 as u64,
                requests: counters.requests,
                longest_ns: counters.gap_duration.max_ns(),
            },
            refused: self.refused(),
            instruments: self.instruments(),
            book: locate.and_then(|locate| self.book(locate, wanted)),
            lines: self.lines(now),
        }
    }

    fn refused(&self) -> Vec<Refused> {
        let channel = self.handler.channel();
        let by_books = Refusal::ALL.iter().map(|why| (why.to_string(), channel.books().refused(*why)));
        let malformed = [("the message is too short for its type".to_owned(), channel.counters().malformed)];
        let all = by_books.chain(malformed).filter(|(_, count)| *count > 0);
        all.map(|(reason, count)| Refused { reason, count }).collect()
    }

    fn instruments(&self) -> Vec<Instrument> {
        let channel = self.handler.channel();
        let counted = self.seen.messages.iter().enumerate().filter(|(_, messages)| **messages > 0);
        let row = |(place, messages): (usize, &u64)| {
            let locate = Locate(place as u16);
            let book = channel.books().book(locate)?;
            let (bid, offer) = (book.best(Side::Buy), book.best(Side::Sell));
            Some(Instrument {
                locate: locate.0,
                symbol: symbol(channel.symbol(locate), locate),
                messages: *messages,
                messages_per_s: 0.0,
                bid: bid.map(|level| price(level.price)).unwrap_or_default(),
                bid_shares: bid.map_or(0, |level| level.shares),
                offer: offer.map(|level| price(level.price)).unwrap_or_default(),
                offer_shares: offer.map_or(0, |level| level.shares),
                executed_shares: self.seen.executed[place],
                last: self.seen.last[place].map(price).unwrap_or_default(),
            })
        };
        counted.filter_map(row).collect()
    }

    fn book(&self, locate: Locate, wanted: &Wanted) -> Option<BookView> {
        let channel = self.handler.channel();
        let book = channel.books().book(locate)?;
        let side = |side| book.levels(side).take(wanted.levels).map(|one| level(&book, side, one, wanted)).collect();
        Some(BookView {
            locate: locate.0,
            symbol: symbol(channel.symbol(locate), locate),
            bids: side(Side::Buy),
            offers: side(Side::Sell),
        })
    }

    fn lines(&mut self, now: Nanos) -> Vec<LineRow> {
        let count = self.handler.lines().len();
        let mut rows = Vec::new();
        for line in 0..count {
            let lines = self.handler.lines();
            let (place, path) = (lines.line(line).to_string(), path(lines.path(line)));
            let drops = lines.drops(line);
            let mut row = self.row(now, LineId(line as u8), name(line).to_string());
            (row.place, row.path) = (place, path);
            (row.dropped, row.dropped_by_interface) = (drops.own(), drops.interface);
            rows.push(row);
        }
        for line in 0..count {
            let twin = self.row(now, LineId((count + line) as u8), format!("{} kernel", name(line)));
            rows.extend(Some(twin).filter(|twin| twin.packets > 0));
        }
        let answers = self.row(now, LineId(2 * count as u8), "answers".to_owned());
        rows.extend(Some(answers).filter(|answers| answers.packets > 0));
        rows
    }

    fn row(&self, now: Nanos, line: LineId, name: String) -> LineRow {
        let nothing = LineStatistics::default();
        let line = self.handler.channel().feed().line(line).unwrap_or(&nothing);
        LineRow {
            name,
            packets: line.packets,
            messages: line.messages,
            first: line.first,
            duplicate: line.duplicates,
            out_of_order: line.out_of_order,
            lost: line.lost,
            malformed: line.malformed + line.implausible,
            skew_p50_ns: line.lag.quantile_ns(0.5),
            skew_p99_ns: line.lag.quantile_ns(0.99),
            last_packet_ns: line.last_arrival.map(|at| now.since(at)),
            ..LineRow::default()
        }
    }
}

/// Why books of a live feed are not the exchange's.
const INCOMPLETE: &str =
    "the session was joined in its middle without a snapshot (--glimpse), or a message was refused";

/// A state in words: its name, since when, the reason.
fn state(state: feed::State) -> (&'static str, Option<Nanos>, &'static str) {
    match state {
        feed::State::Live => ("live", None, ""),
        feed::State::Recovering { since } => ("recovering", Some(since), "messages are missing and asked for"),
        feed::State::Stale { since, why } => {
            let (state, reason) = match why {
                Why::NotJoined => {
                    ("waiting", "no packet has come: is the exchange running, and is this its group and interface?")
                }
                Why::Gap => ("stale", "messages are missing (--rerequest, --glimpse)"),
                Why::Overflow => ("stale", "more came behind a gap than can be held back"),
                Why::Silence => ("stale", "no line brings anything new"),
                Why::SessionEnded => ("ended", "the session is over"),
            };
            (state, Some(since), reason)
        }
    }
}

fn path(path: Path) -> String {
    match path {
        Path::Accelerated { .. } => "accelerated".to_owned(),
        Path::Kernel(reason) => format!("kernel: {}", reason.name()),
    }
}

fn symbol(name: Option<Symbol>, locate: Locate) -> String {
    name.map_or_else(|| format!("#{}", locate.0), |name| name.as_str().to_owned())
}

fn price(price: Price) -> String {
    price.display(PRICE_DECIMALS).to_string()
}

fn level(book: &Book<'_>, side: Side, level: PriceLevel, wanted: &Wanted) -> LevelView {
    let orders = book.orders_at(side, level.price).take(if wanted.has_orders { QUEUE_MAX } else { 0 });
    LevelView {
        price: price(level.price),
        shares: level.shares,
        orders: level.orders.into(),
        queue: orders.map(|order| order.shares.into()).collect(),
    }
}
