//! The C ABI of market data: `include/sidestep/market.h`. A call is one call of `sidestep_feed_handler`, or of the reader of what one
//! publishes (`sidestep_market::publish`).

use crate::arguments::{deadline, give, handle, idle, look, out, path, several, take_back, text};
use crate::failure::{Failure, call};
use crate::socket::options::{flag, read};
use crate::views::fill;
use sidestep_feed_handler::{FeedHandler, Line, Options, Publication, SnapshotServer};
use sidestep_market::book::PriceLevel;
use sidestep_market::event::Event;
use sidestep_market::feed;
use sidestep_market::publish::{Directory, Interest, Level, State, SubscribeError, Subscriber, Update};
use sidestep_market::units::{Locate, Side, Symbol};
use sidestep_ring::ReadError;
use sidestep_socket::stream::Endpoint;
use sidestep_sys::Problem;
use std::ffi::{c_char, c_int};
use std::ptr;
use std::time::Duration;

/// [`Side::Buy`].
pub const BUY: u32 = 1;
/// [`Side::Sell`].
pub const SELL: u32 = 2;

/// Nothing was told yet.
pub const FEED_UNKNOWN: u32 = 0;
/// No message is missing.
pub const FEED_LIVE: u32 = 1;
/// Messages are missing, lost, or not coming.
pub const FEED_STALE: u32 = 2;
/// Messages are missing, and asked for.
pub const FEED_RECOVERING: u32 = 3;

/// An event of the ring.
pub const UPDATE_EVENT: u32 = 1;
/// The state of an instrument, from the array.
pub const UPDATE_TOP: u32 = 2;
/// The state of all instruments has come; events follow.
pub const UPDATE_SYNCHRONISED: u32 = 3;
/// What was known is void: a new session, or another handler. The state of all instruments follows.
pub const UPDATE_RESET: u32 = 4;

/// `sidestep_feed`.
pub struct Feed {
    inner: FeedHandler,
}

/// `sidestep_quotes`.
pub struct Quotes {
    subscriber: Subscriber,
    directory: Directory,
}

/// `sidestep_feed_options`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CFeedOptions {
    /// Lines, with blanks between them.
    pub lines: *const c_char,
    /// Re-request servers, with blanks between them, or null.
    pub rerequest: *const c_char,
    /// A snapshot server, or null.
    pub glimpse: *const c_char,
    /// [`Publication::folder`], or null.
    pub publish: *const c_char,
    /// Live orders of all instruments; 0 for the default.
    pub orders: u32,
    /// The highest locate; 0 for the default.
    pub instruments: u32,
    /// Price levels of all instruments; 0 for the default.
    pub levels: u32,
    /// 0 or 1.
    pub accelerate: u32,
}

/// `sidestep_feed_status`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct CFeedStatus {
    /// The next message to be delivered.
    pub next_sequence: u64,
    /// Messages applied.
    pub messages: u64,
    /// Gaps that opened.
    pub gaps: u64,
    /// Messages that were never delivered.
    pub lost: u64,
    /// One of `FEED_*`.
    pub state: u32,
    /// 0.
    pub reserved: u32,
    /// The session, ASCII, filled with zeroes.
    pub session: [c_char; 16],
}

/// `sidestep_level`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct CLevel {
    /// Price, in units of 10^-4.
    pub price: i64,
    /// Shares; 0: there is no level.
    pub quantity: u64,
    /// Orders.
    pub orders: u32,
    /// 0.
    pub reserved: u32,
}

/// `sidestep_update`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct CUpdate {
    /// Number of the message in its session.
    pub sequence: u64,
    /// Time at the venue, ns since its midnight.
    pub time_ns: u64,
    /// Receipt of the datagram, CLOCK_MONOTONIC, ns.
    pub arrived_ns: u64,
    /// Order, match or letters, by the kind of the event.
    pub reference: u64,
    /// Price in units of 10^-4; `i64::MIN`: none is told.
    pub price: i64,
    /// Shares.
    pub quantity: u64,
    /// One of `UPDATE_*`.
    pub update: u32,
    /// Of an event: its kind ([`sidestep_market::event::Kind`]).
    pub kind: u32,
    /// Instrument; 0 for the whole channel.
    pub locate: u32,
    /// One of `BUY`, `SELL`; 0: none.
    pub side: u32,
    /// [`sidestep_market::event::Flags`].
    pub flags: u32,
    /// One of `FEED_*`: of a top.
    pub state: u32,
    /// Of a top.
    pub bid: CLevel,
    /// Of a top.
    pub offer: CLevel,
}

/// Stores the defaults.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_feed_options_default(options: *mut CFeedOptions, options_bytes: usize) -> c_int {
    call("sidestep_feed_options_default", || {
        // SAFETY: as the crate's text says.
        unsafe { fill(&DEFAULTS, options, options_bytes, "options") }
    })
}

const DEFAULTS: CFeedOptions = CFeedOptions {
    lines: ptr::null(),
    rerequest: ptr::null(),
    glimpse: ptr::null(),
    publish: ptr::null(),
    orders: 0,
    instruments: 0,
    levels: 0,
    accelerate: 1,
};

/// [`FeedHandler::open`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_feed_open(
    options: *const CFeedOptions,
    options_bytes: usize,
    feed: *mut *mut Feed,
) -> c_int {
    call("sidestep_feed_open", || {
        // SAFETY: as the crate's text says.
        let (given, feed) = unsafe { (read(options, options_bytes, DEFAULTS)?, out(feed, "feed")?) };
        // SAFETY: as the crate's text says.
        let options = unsafe { options_of(&given)? };
        give(&feed, Feed { inner: FeedHandler::open(&options)? });
        Ok(())
    })
}

/// # Safety
/// The texts are null, or end with a zero.
unsafe fn options_of(given: &CFeedOptions) -> Result<Options, Failure> {
    // SAFETY: the caller's promise.
    let lines = unsafe { text(given.lines, "lines")? }.split_whitespace();
    let mut options = Options::of(lines.map(str::parse::<Line>).collect::<Result<Vec<_>, Problem>>()?);
    options.line.accelerate = flag(given.accelerate)?;
    if !given.rerequest.is_null() {
        // SAFETY: the caller's promise.
        let servers = unsafe { text(given.rerequest, "rerequest")? }.split_whitespace();
        let wrong = |_| Failure::Usage("a re-request server is not ADDRESS:PORT");
        options.rerequest = servers.map(|server| server.parse().map_err(wrong)).collect::<Result<_, _>>()?;
    }
    if !given.glimpse.is_null() {
        // SAFETY: the caller's promise.
        let endpoint = Endpoint::parse(unsafe { text(given.glimpse, "glimpse")? })?;
        options.snapshot = Some(SnapshotServer::at(endpoint));
    }
    if !given.publish.is_null() {
        // SAFETY: the caller's promise.
        options.publish = Some(Publication::within(unsafe { path(given.publish)? }));
    }
    let books = &mut options.channel.books;
    if given.instruments > 0 {
        books.instruments = given.instruments.try_into().map_err(|_| Failure::Usage("instruments is above 65535"))?;
    }
    books.orders = if given.orders > 0 { given.orders } else { books.orders };
    books.levels = if given.levels > 0 { given.levels } else { books.levels };
    Ok(options)
}

/// [`FeedHandler::poll`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_feed_poll(feed: *mut Feed, done: *mut u32) -> c_int {
    call("sidestep_feed_poll", || {
        // SAFETY: as the crate's text says.
        let (feed, done) = unsafe { (handle(feed, "feed")?, out(done, "done")?) };
        done.set(u32::try_from(feed.inner.poll(&mut ())?).unwrap_or(u32::MAX));
        Ok(())
    })
}

/// [`FeedHandler::sleep`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_feed_sleep(feed: *mut Feed, longest_ns: u64) -> c_int {
    call("sidestep_feed_sleep", || {
        // SAFETY: as the crate's text says.
        let feed = unsafe { handle(feed, "feed")? };
        Ok(feed.inner.sleep(Duration::from_nanos(longest_ns))?)
    })
}

/// State and counters of the feed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_feed_read_status(
    feed: *const Feed,
    status: *mut CFeedStatus,
    status_bytes: usize,
) -> c_int {
    call("sidestep_feed_read_status", || {
        // SAFETY: as the crate's text says.
        let feed = unsafe { look(feed, "feed")? };
        let channel = feed.inner.channel();
        let mut found = CFeedStatus {
            next_sequence: channel.feed().next().0,
            messages: channel.counters().messages,
            gaps: channel.feed().counters().gaps,
            lost: channel.feed().counters().skipped,
            state: of_feed_state(channel.feed().state()),
            ..CFeedStatus::default()
        };
        let session = channel.feed().session().unwrap_or_default();
        for (to, from) in found.session.iter_mut().zip(session.as_str().bytes()) {
            *to = c_char::from_ne_bytes([from]);
        }
        // SAFETY: as the crate's text says.
        unsafe { fill(&found, status, status_bytes, "status") }
    })
}

/// [`sidestep_feed_handler::Directory::find`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_feed_find(feed: *const Feed, symbol: *const c_char, locate: *mut u32) -> c_int {
    call("sidestep_feed_find", || {
        // SAFETY: as the crate's text says.
        let (feed, symbol, locate) = unsafe { (look(feed, "feed")?, text(symbol, "symbol")?, out(locate, "locate")?) };
        let found = Symbol::new(symbol).and_then(|symbol| feed.inner.channel().directory().find(symbol));
        locate.set(found.ok_or(Failure::NothingCame)?.0.into());
        Ok(())
    })
}

/// [`sidestep_feed_handler::Channel::live_book`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_feed_read_book_state(feed: *const Feed, locate: u32, state: *mut u32) -> c_int {
    call("sidestep_feed_read_book_state", || {
        // SAFETY: as the crate's text says.
        let (feed, state) = unsafe { (look(feed, "feed")?, out(state, "state")?) };
        let locate = u16::try_from(locate).map_err(|_| Failure::Usage("there is no such instrument"))?;
        let channel = feed.inner.channel();
        let book = channel.books().book(Locate(locate)).ok_or(Failure::Usage("there is no such instrument"))?;
        let is_suspect = book.suspect().is_some();
        state.set(if is_suspect { FEED_STALE } else { of_feed_state(channel.feed().state()) });
        Ok(())
    })
}

fn of_feed_state(state: feed::State) -> u32 {
    match state {
        feed::State::Live => FEED_LIVE,
        feed::State::Recovering { .. } => FEED_RECOVERING,
        feed::State::Stale { .. } => FEED_STALE,
    }
}

/// [`sidestep_market::book::Book::levels`], the best first.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_feed_levels(
    feed: *const Feed,
    locate: u32,
    side: u32,
    levels: *mut CLevel,
    room: usize,
    count: *mut usize,
) -> c_int {
    call("sidestep_feed_levels", || {
        // SAFETY: as the crate's text says.
        let (feed, levels, count) =
            unsafe { (look(feed, "feed")?, several(levels, room, "levels")?, out(count, "count")?) };
        let side = match side {
            BUY => Side::Buy,
            SELL => Side::Sell,
            _ => return Err(Failure::Usage("side is neither SIDESTEP_BUY nor SIDESTEP_SELL")),
        };
        let locate = u16::try_from(locate).map_err(|_| Failure::Usage("there is no such instrument"))?;
        let book = feed.inner.channel().books().book(Locate(locate));
        let book = book.ok_or(Failure::Usage("there is no such instrument"))?;
        let mut stored = 0;
        for (place, level) in levels.iter_mut().zip(book.levels(side)) {
            *place = of_level(level);
            stored += 1;
        }
        count.set(stored);
        Ok(())
    })
}

fn of_level(level: PriceLevel) -> CLevel {
    CLevel { price: level.price.0, quantity: level.shares, orders: level.orders, reserved: 0 }
}

/// Ends the handler; null is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_feed_free(feed: *mut Feed) {
    // SAFETY: as the crate's text says.
    unsafe { take_back(feed) };
}

/// [`Publication::subscribe`], for all instruments.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_quotes_open(folder: *const c_char, quotes: *mut *mut Quotes) -> c_int {
    call("sidestep_quotes_open", || {
        // SAFETY: as the crate's text says.
        let (folder, quotes) = unsafe { (path(folder)?, out(quotes, "quotes")?) };
        let (subscriber, directory) = Publication::within(folder).subscribe(Interest::all())?;
        give(&quotes, Quotes { subscriber, directory });
        Ok(())
    })
}

/// [`Directory::find`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_quotes_find(quotes: *const Quotes, symbol: *const c_char, locate: *mut u32) -> c_int {
    call("sidestep_quotes_find", || {
        // SAFETY: as the crate's text says.
        let (quotes, symbol, locate) =
            unsafe { (look(quotes, "quotes")?, text(symbol, "symbol")?, out(locate, "locate")?) };
        let found = Symbol::new(symbol).and_then(|symbol| quotes.directory.find(symbol));
        locate.set(found.ok_or(Failure::NothingCame)?.locate.0.into());
        Ok(())
    })
}

/// [`sidestep_market::publish::Tops::top`]: the best bid and offer from the array alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_quotes_top(quotes: *const Quotes, locate: u32, top: *mut CUpdate) -> c_int {
    call("sidestep_quotes_top", || {
        // SAFETY: as the crate's text says.
        let (quotes, top) = unsafe { (look(quotes, "quotes")?, out(top, "top")?) };
        let locate = u16::try_from(locate).map_err(|_| Failure::Usage("there is no such instrument"))?;
        let found = quotes.subscriber.tops().top(Locate(locate));
        let found = found.map_err(|_| Failure::Usage("there is no such instrument, or its record is being written"))?;
        top.set(of_update(&Update::Top(Locate(locate), found)));
        Ok(())
    })
}

/// [`Subscriber::try_next`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_quotes_next(quotes: *mut Quotes, update: *mut CUpdate) -> c_int {
    call("sidestep_quotes_next", || {
        // SAFETY: as the crate's text says.
        let (quotes, update) = unsafe { (handle(quotes, "quotes")?, out(update, "update")?) };
        match quotes.subscriber.try_next() {
            Ok(None) | Err(SubscribeError::Busy(_)) => Err(Failure::NothingCame),
            Ok(Some(Update::Lost(loss))) => Err(ReadError::Lost(loss).into()),
            Ok(Some(next)) => {
                update.set(of_update(&next));
                Ok(())
            }
            Err(SubscribeError::Closed) => Err(ReadError::Closed.into()),
            Err(SubscribeError::Faulty(fault)) => Err(ReadError::Faulty(fault).into()),
            Err(SubscribeError::Unknown(_) | SubscribeError::NoEvent(_)) => {
                Err(Failure::Usage("the event is of a later version; the next call goes on behind it"))
            }
        }
    })
}

/// [`Subscriber::wait`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_quotes_wait(quotes: *mut Quotes, waiting: c_int, timeout_ns: i64) -> c_int {
    call("sidestep_quotes_wait", || {
        // SAFETY: as the crate's text says.
        let quotes = unsafe { handle(quotes, "quotes")? };
        Ok(quotes.subscriber.wait(idle(waiting)?, deadline(timeout_ns))?)
    })
}

/// Ends the reader; null is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sidestep_quotes_free(quotes: *mut Quotes) {
    // SAFETY: as the crate's text says.
    unsafe { take_back(quotes) };
}

fn of_update(update: &Update) -> CUpdate {
    match update {
        Update::Event(event) => CUpdate { update: UPDATE_EVENT, ..of_event(event) },
        Update::Reset(event) => CUpdate { update: UPDATE_RESET, ..of_event(event) },
        Update::Top(locate, top) => CUpdate {
            update: UPDATE_TOP,
            sequence: top.sequence.0,
            time_ns: top.time_ns,
            locate: locate.0.into(),
            state: of_state(top.state),
            price: i64::MIN,
            bid: of_best(top.bid),
            offer: of_best(top.offer),
            ..CUpdate::default()
        },
        Update::Synchronised(channel) => CUpdate {
            update: UPDATE_SYNCHRONISED,
            sequence: channel.sequence.0,
            time_ns: channel.time_ns,
            state: of_state(channel.state),
            price: i64::MIN,
            ..CUpdate::default()
        },
        Update::Lost(_) => CUpdate::default(),
    }
}

fn of_event(event: &Event) -> CUpdate {
    CUpdate {
        sequence: event.sequence.0,
        time_ns: event.time_ns,
        arrived_ns: event.arrived.0,
        reference: event.reference,
        price: event.price.map_or(i64::MIN, |price| price.0),
        quantity: event.quantity,
        kind: event.kind as u32,
        locate: event.locate.0.into(),
        side: event.side.map_or(0, |side| if side == Side::Buy { BUY } else { SELL }),
        flags: event.flags.bits().into(),
        state: of_state(State::of_event(event)),
        ..CUpdate::default()
    }
}

fn of_state(state: State) -> u32 {
    match state {
        State::Unknown => FEED_UNKNOWN,
        State::Live => FEED_LIVE,
        State::Stale => FEED_STALE,
    }
}

fn of_best(level: Option<Level>) -> CLevel {
    level.map_or_else(CLevel::default, |level| CLevel {
        price: level.price.0,
        quantity: level.quantity,
        orders: level.orders.into(),
        reserved: 0,
    })
}
