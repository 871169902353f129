//! One channel without its sockets: arbitration, recovery, books, publication. A handler feeds it from sockets, a replay from a file.

use crate::application::{Application, Update};
use crate::directory::Directory;
use crate::publication::{Publication, Published};
use sidestep_market::arbiter::{self, Delivery, LineKind, Origin};
use sidestep_market::book::{self, Book, Books, Depth};
use sidestep_market::feed::{Action, Feed, Handler, Policy, Refused, State};
use sidestep_market::itch::{Malformed, Message};
use sidestep_market::mold64::{Mold64, Session};
use sidestep_market::units::{LineId, Locate, Nanos, Sequence, Symbol};
use sidestep_sys::Problem;

/// The bounds and rules of a channel. All memory is taken at the start.
#[derive(Clone, Copy, Debug)]
pub struct ChannelOptions {
    /// The rules of recovery. A handler sets the number of servers and whether there is a snapshot by its own options.
    pub policy: Policy,
    /// What is held back behind a gap. It has to hold all that comes while a snapshot is taken, or the snapshot is of no use
    /// ([`Counters::snapshots_outrun`](sidestep_market::feed::Counters::snapshots_outrun)): the rate of messages times seconds. The default,
    /// 1,048,576 messages and 64 MiB (112 MiB of memory), is a second at the highest rates of a whole market, three at usual ones.
    pub held: arbiter::Limits,
    /// What the books hold.
    pub books: book::Limits,
    /// The depth of the books.
    pub depth: Depth,
}

impl Default for ChannelOptions {
    fn default() -> Self {
        Self {
            policy: Policy::default(),
            held: arbiter::Limits { held_messages: 1 << 20, held_bytes: 64 << 20 },
            books: book::Limits::default(),
            depth: Depth::Levels,
        }
    }
}

/// Counters of a channel, beside those of its feed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Messages applied, those of snapshots included.
    pub messages: u64,
    /// Messages of no bytes, which mean nothing.
    pub empty: u64,
    /// Messages that are too short for their type: all books are suspect, as nobody knows what they said.
    pub malformed: u64,
    /// Events that could not be published.
    pub unpublished: u64,
}

/// A request that is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The server, from 0.
    pub server: u8,
    /// The session.
    pub session: Session,
    /// The first message.
    pub first: Sequence,
    /// The number of messages.
    pub count: u32,
}

/// One channel: lines in; books, and what is told to an [`Application`], out.
pub struct Channel {
    feed: Feed<Mold64>,
    inner: Inner,
}

/// All but the feed, which calls it.
struct Inner {
    books: Books,
    directory: Directory,
    published: Option<Published>,
    counters: Counters,
    /// The last request, until it is sent: the feed has one outstanding.
    request: Option<Wanted>,
    /// The attempt of the snapshot that is to be open.
    snapshot: Option<u32>,
    /// A snapshot takes the place of what is skipped.
    is_replacing: bool,
    /// The feed's state is live.
    is_live: bool,
    session: Option<Session>,
    next: Sequence,
}

impl Channel {
    /// A channel of these lines ([`LineId`] is the index).
    ///
    /// # Errors
    /// Limits or rules that cannot be, or memory that is not there.
    pub fn new(lines: &[LineKind], options: &ChannelOptions, now: Nanos) -> Result<Self, Problem> {
        Ok(Self {
            feed: Feed::new(lines, options.held, options.policy, now)?,
            inner: Inner {
                books: Books::new(options.books, options.depth)?,
                directory: Directory::new(options.books.instruments),
                published: None,
                counters: Counters::default(),
                request: None,
                snapshot: None,
                is_replacing: false,
                is_live: false,
                session: None,
                next: Sequence(1),
            },
        })
    }

    /// Publishes from now on, beginning with empty books: before the first datagram.
    ///
    /// # Errors
    /// The files cannot be made, or another process publishes there.
    pub fn publish(&mut self, publication: &Publication) -> Result<(), Problem> {
        self.inner.published = Some(Published::open(publication, self.inner.directory.instruments())?);
        Ok(())
    }

    /// A datagram that came by `line` at `arrived`, read at `now`; both by one clock.
    #[inline]
    pub fn datagram(
        &mut self,
        line: LineId,
        now: Nanos,
        arrived: Nanos,
        datagram: &[u8],
        application: &mut impl Application,
    ) {
        let Self { feed, inner } = self;
        inner.books.prefetch_packet(datagram, feed.next());
        inner.next = feed.next();
        feed.datagram(line, now, arrived, datagram, &mut Turn { inner, application });
    }

    /// Does what is due.
    pub fn poll(&mut self, now: Nanos, application: &mut impl Application) {
        let Self { feed, inner } = self;
        feed.poll(now, &mut Turn { inner, application });
    }

    /// Gives readers of the publication a sign of life. A handler does it every 100 ms, from the thread that handles the feed.
    pub fn beat(&self) {
        self.inner.published.iter().for_each(Published::beat);
    }

    /// When [`poll`](Self::poll) has something to do.
    #[inline]
    pub fn next_poll(&self) -> Nanos {
        self.feed.next_poll()
    }

    /// The request that is to be sent, once.
    pub fn take_request(&mut self) -> Option<Wanted> {
        self.inner.request.take()
    }

    /// A server refuses a request, or cannot be reached.
    pub fn request_refused(&mut self, server: u8, now: Nanos, application: &mut impl Application) {
        let Self { feed, inner } = self;
        feed.request_refused(server, now, &mut Turn { inner, application });
    }

    /// The attempt of the snapshot that is to be open; nothing if none is.
    pub fn snapshot(&self) -> Option<u32> {
        self.inner.snapshot
    }

    /// A message of the snapshot.
    ///
    /// # Errors
    /// The attempt is not open any more.
    pub fn snapshot_message(
        &mut self,
        attempt: u32,
        now: Nanos,
        bytes: &[u8],
        application: &mut impl Application,
    ) -> Result<(), Refused> {
        let Self { feed, inner } = self;
        inner.next = feed.next();
        feed.snapshot_message(attempt, now, bytes, &mut Turn { inner, application })
    }

    /// The snapshot is complete; `next` is the first live message that is to be applied to it.
    ///
    /// # Errors
    /// It cannot be used; another attempt follows.
    pub fn snapshot_done(
        &mut self,
        attempt: u32,
        now: Nanos,
        next: Sequence,
        application: &mut impl Application,
    ) -> Result<(), Refused> {
        let Self { feed, inner } = self;
        inner.is_replacing = true;
        let done = feed.snapshot_done(attempt, now, next, &mut Turn { inner, application });
        self.inner.is_replacing = false;
        if done.is_ok() && self.inner.snapshot == Some(attempt) {
            self.inner.snapshot = None;
        }
        done
    }

    /// The source of the snapshot refuses, is gone, or cannot be reached.
    pub fn snapshot_failed(&mut self, attempt: u32, now: Nanos, application: &mut impl Application) {
        let Self { feed, inner } = self;
        feed.snapshot_failed(attempt, now, &mut Turn { inner, application });
    }

    /// Takes a snapshot although nothing is missing: for a program that sees a book suspect. All books are empty and the feed is stale until it
    /// is complete. False if that cannot be done: there is no source, or one is under way.
    pub fn take_snapshot(&mut self, now: Nanos, application: &mut impl Application) -> bool {
        let Self { feed, inner } = self;
        feed.take_snapshot(now, &mut Turn { inner, application })
    }

    /// The book of an instrument, if it is the exchange's now: the feed is live, and the book is not suspect. Nothing otherwise; what is
    /// known then is in [`Channel::books`].
    #[inline]
    pub fn live_book(&self, locate: Locate) -> Option<Book<'_>> {
        let book = self.inner.books.book(locate)?;
        (self.inner.is_live && book.suspect().is_none()).then_some(book)
    }

    /// All books, whether they are to be trusted or not ([`Channel::live_book`]).
    #[inline]
    pub fn books(&self) -> &Books {
        &self.inner.books
    }

    /// The instruments that were named.
    pub fn directory(&self) -> &Directory {
        &self.inner.directory
    }

    /// The name of an instrument; nothing if it was not told.
    pub fn symbol(&self, locate: Locate) -> Option<Symbol> {
        self.inner.directory.symbol(locate)
    }

    /// The feed: state, counters, lines.
    pub fn feed(&self) -> &Feed<Mold64> {
        &self.feed
    }

    /// Counters.
    pub fn counters(&self) -> Counters {
        self.inner.counters
    }
}

impl Inner {
    #[inline]
    fn apply(&mut self, message: &Delivery<'_>, is_snapshot: bool, application: &mut impl Application) {
        let itch = match Message::parse(message.bytes) {
            Ok(itch) => itch,
            Err(why) => return self.unreadable(why, message, application),
        };
        self.counters.messages += 1;
        if let Message::StockDirectory(stock) = &itch {
            self.directory.learn(stock.locate(), stock.stock());
        }
        let change = self.books.apply(&itch);
        if let Some(published) = &mut self.published {
            self.counters.unpublished += published.message(message, &itch, change, &self.books);
        }
        application.message(&Update {
            sequence: message.sequence,
            origin: message.origin,
            arrived: message.arrived,
            is_snapshot,
            is_live: self.is_live && !is_snapshot,
            message: itch,
            change,
            books: &self.books,
        });
    }

    #[cold]
    fn unreadable(&mut self, why: Malformed, message: &Delivery<'_>, application: &mut impl Application) {
        match why {
            Malformed::Empty => self.counters.empty += 1,
            Malformed::Short { .. } => {
                self.counters.malformed += 1;
                self.suspect_all();
                application.unreadable(message.sequence, message.bytes, &self.books);
            }
        }
    }

    /// Messages are lost: no book is to be trusted until all of them are taken anew.
    fn suspect_all(&mut self) {
        self.books.suspect_all();
        if let Some(published) = &mut self.published {
            self.counters.unpublished += published.suspect_all();
        }
    }

    #[cold]
    fn act(&mut self, action: Action<Session>) {
        match action {
            Action::Request { server, session, first, count } => {
                self.request = Some(Wanted { server, session, first, count });
            }
            Action::OpenSnapshot { attempt, .. } => {
                self.books.clear();
                (self.snapshot, self.request) = (Some(attempt), None);
            }
            Action::CloseSnapshot { attempt } if self.snapshot == Some(attempt) => self.snapshot = None,
            Action::Skipped { .. } if !self.is_replacing => self.suspect_all(),
            Action::SessionAdopted { session, next } => {
                self.books.clear();
                // The same one again has the same instruments.
                if self.session.replace(session) != Some(session) {
                    self.directory.clear();
                }
                self.request = None;
                if next > Sequence(1) {
                    // Nobody will bring what was added before.
                    self.books.suspect_all();
                }
            }
            Action::State(state) => {
                self.is_live = state == State::Live;
                self.request = self.request.filter(|_| !self.is_live);
            }
            _ => {}
        }
        if let Some(published) = &mut self.published {
            self.counters.unpublished += published.action(&action);
        }
    }
}

/// One call of the feed.
struct Turn<'a, A> {
    inner: &'a mut Inner,
    application: &'a mut A,
}

impl<A: Application> Handler<Session> for Turn<'_, A> {
    #[inline]
    fn message(&mut self, message: Delivery<'_>) {
        self.inner.apply(&message, false, self.application);
    }

    fn snapshot(&mut self, bytes: &[u8]) {
        let origin = Origin { line: LineId(0), recovered: true };
        let message = Delivery { sequence: self.inner.next, origin, arrived: Nanos(0), bytes };
        self.inner.apply(&message, true, self.application);
    }

    fn action(&mut self, action: Action<Session>) {
        self.inner.act(action);
        self.application.notice(&action, &self.inner.books);
    }
}
