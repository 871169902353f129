//! A market maker: quotes both sides of one instrument around the middle of its book, by OUCH, and ends flat, or says that it does not.
//!
//! ```text
//! sidestep market exchange --interface lo &
//! cargo run --release --example market_maker -- SYMBOL SECONDS OUCH_HOST:PORT GLIMPSE_HOST:PORT LINE...
//! ```

use sidestep::market::book::Book;
use sidestep::market::feed_handler::{FeedHandler, Options, SnapshotServer};
use sidestep::market::ouch::{
    Answer, CancelOrder, Change, EnterOrder, Limits, OpenOrders, OrderSide, ReplaceOrder, Stage, TimeInForce,
    UserRefNum,
};
use sidestep::market::soup::{self, Event, Password, Settings, UserName};
use sidestep::market::{Locate, Nanos, Price, Side, Symbol};
use sidestep::stream::{self, Endpoint, Io, Stream, Waiting, is_retry};
use std::error::Error;
use std::time::{Duration, Instant};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Shares of a quote.
const SHARES: u32 = 100;
/// The most shares that it holds, bought or sold short.
const POSITION_MAX: i64 = 500;
/// From the middle to either quote, and the step of prices: a cent.
const HALF_SPREAD: i64 = 100;
const TICK: i64 = 100;
/// The longest time for ending flat.
const FLAT_WITHIN: Duration = Duration::from_secs(5);

// ANCHOR: session
/// The order session: SoupBinTCP over a stream, and the account of its orders.
struct Orders {
    stream: Stream,
    io: Io,
    soup: soup::Client,
    account: OpenOrders,
    position: i64,
    fills: u64,
    begin: Instant,
}

impl Orders {
    fn connect(endpoint: &Endpoint) -> Result<Self> {
        let mut io = Io::default();
        let stream =
            stream::connect(&mut io, endpoint, &stream::Options { waiting: Waiting::Spin, ..Default::default() })?;
        let user = UserName::new("MAKER").unwrap_or_default();
        let mut soup = soup::Client::new(Settings::new(user, Password::default()))?;
        soup.connected(Nanos(0));
        let account = OpenOrders::new(Limits::default())?;
        Ok(Self { stream, io, soup, account, position: 0, fills: 0, begin: Instant::now() })
    }

    fn now(&self) -> Nanos {
        Nanos(self.begin.elapsed().as_nanos() as u64)
    }

    /// Takes the answers that have come, and writes what is to be sent.
    fn poll(&mut self) -> Result<()> {
        let now = self.now();
        let Self { stream, io, soup, account, position, fills, .. } = self;
        let mut take = |event: Event<'_>| {
            let Event::Sequenced { sequence, message } = event else { return };
            let Ok(answer) = Answer::parse(message) else { return };
            if let Change::Executed { order, quantity, .. } = account.apply(sequence, &answer) {
                let bought = i64::from(quantity) * if order.side == Some(OrderSide::Buy) { 1 } else { -1 };
                (*position, *fills) = (*position + bought, *fills + 1);
            }
        };
        let received = stream.receive_with(io, &mut |bytes| {
            soup.receive(bytes, now, |event, _| take(event));
            bytes.len()
        });
        match received {
            Ok(0) => return Err("the exchange has closed the order session".into()),
            Err(error) if !is_retry(&error) => return Err(error.into()),
            _ => {}
        }
        soup.poll(now, |event, _| take(event));
        if let soup::State::Ended(end) = soup.state() {
            return Err(format!("the order session has ended: {end}").into());
        }
        match stream.write(io, soup.output()) {
            Ok(count) => soup.written(count),
            Err(error) if is_retry(&error) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
    // ANCHOR_END: session

    /// Enters an order; returns its number.
    fn enter(
        &mut self,
        side: OrderSide,
        shares: u32,
        symbol: Symbol,
        price: Price,
        time: TimeInForce,
    ) -> Result<UserRefNum> {
        let number = self.account.next_number().ok_or("no number is left")?;
        let order = EnterOrder { time_in_force: time, ..EnterOrder::limit(number, side, shares, symbol, price) };
        let mut bytes = [0; EnterOrder::BYTES];
        let length = order.write(&mut bytes)?;
        self.account.enter(&order, self.now())?;
        self.soup.send(&bytes[..length], self.now())?;
        Ok(number)
    }

    /// Moves an order to another price, unless something about it has not been answered; returns the number that it has then.
    fn replace(&mut self, old: UserRefNum, price: Price) -> Result<UserRefNum> {
        let order = self.account.find(old).filter(|order| order.stage == Stage::Live && order.request.is_none());
        let Some(order) = order.filter(|order| order.price != price) else { return Ok(old) };
        let number = self.account.next_number().ok_or("no number is left")?;
        // Of the whole chain: what is executed already counts.
        let replace = ReplaceOrder::limit(old, number, order.executed + SHARES, price);
        let mut bytes = [0; ReplaceOrder::BYTES];
        let length = replace.write(&mut bytes)?;
        self.account.replace(&replace, self.now())?;
        self.soup.send(&bytes[..length], self.now())?;
        Ok(number)
    }

    fn cancel(&mut self, number: UserRefNum) -> Result<()> {
        let order = self.account.find(number).filter(|order| order.stage == Stage::Live && order.request.is_none());
        if order.is_none() {
            return Ok(());
        }
        let cancel = CancelOrder { user_ref_num: number, quantity: 0 };
        let mut bytes = [0; CancelOrder::BYTES];
        let length = cancel.write(&mut bytes)?;
        self.account.cancel(&cancel, self.now())?;
        Ok(self.soup.send(&bytes[..length], self.now())?)
    }

    /// Forgets requests that the exchange has ignored: a cancel that came too late has no answer.
    fn forget_overdue(&mut self) {
        let overdue: Vec<UserRefNum> = self.account.overdue(self.now()).map(|order| order.user_ref_num).collect();
        for number in overdue {
            self.account.give_up(number);
        }
    }
}

/// The maker: its orders and the market that it sees.
struct Maker {
    feed: FeedHandler,
    orders: Orders,
    symbol: Symbol,
    /// The bid and the offer.
    quotes: [Option<UserRefNum>; 2],
}

const SIDES: [(OrderSide, Side); 2] = [(OrderSide::Buy, Side::Buy), (OrderSide::Sell, Side::Sell)];

impl Maker {
    fn poll(&mut self) -> Result<()> {
        self.feed.poll(&mut ())?;
        self.orders.poll()?;
        self.orders.forget_overdue();
        let account = &self.orders.account;
        self.quotes.iter_mut().for_each(|quote| *quote = quote.filter(|number| account.find(*number).is_some()));
        Ok(())
    }

    fn book(&self) -> Option<Book<'_>> {
        let channel = self.feed.channel();
        let locate: Locate = channel.directory().find(self.symbol)?;
        channel.books().book(locate)
    }

    /// The best price of a side, its own quote left out.
    fn best(&self, side: Side) -> Option<Price> {
        let own = self.quotes[usize::from(side == Side::Sell)].and_then(|number| self.orders.account.find(number));
        let is_others = |price, shares| own.is_none_or(|own| own.price != price || shares > u64::from(own.open));
        self.book()?.levels(side).find(|level| is_others(level.price, level.shares)).map(|level| level.price)
    }

    // ANCHOR: quote
    /// Quotes around the middle. Without a live feed, or with a side empty, it has no quotes: it does not know the price.
    fn quote(&mut self) -> Result<()> {
        let channel = self.feed.channel();
        let is_live = channel.directory().find(self.symbol).and_then(|locate| channel.live_book(locate)).is_some();
        let (Some(bid), Some(offer), true) = (self.best(Side::Buy), self.best(Side::Sell), is_live) else {
            return self.cancel_all();
        };
        let middle = (bid.0 + offer.0) / 2;
        let prices = [(middle - HALF_SPREAD) / TICK * TICK, (middle + HALF_SPREAD) / TICK * TICK];
        for (place, (side, _)) in SIDES.into_iter().enumerate() {
            let has_room = if side == OrderSide::Buy {
                self.orders.position < POSITION_MAX
            } else {
                self.orders.position > -POSITION_MAX
            };
            let price = Price(prices[place]);
            match self.quotes[place] {
                Some(number) if has_room => self.quotes[place] = Some(self.orders.replace(number, price)?),
                Some(number) => self.orders.cancel(number)?,
                None if has_room => {
                    self.quotes[place] = Some(self.orders.enter(side, SHARES, self.symbol, price, TimeInForce::Day)?);
                }
                None => {}
            }
        }
        Ok(())
    }
    // ANCHOR_END: quote

    fn cancel_all(&mut self) -> Result<()> {
        let open: Vec<UserRefNum> = self.orders.account.iter().map(|order| order.user_ref_num).collect();
        open.into_iter().try_for_each(|number| self.orders.cancel(number))
    }

    /// Cancels everything, and sells or buys what it holds at the other side's price.
    fn end_flat(&mut self) -> Result<()> {
        let until = Instant::now() + FLAT_WITHIN;
        while Instant::now() < until && (self.orders.position != 0 || !self.orders.account.is_empty()) {
            self.poll()?;
            self.cancel_all()?;
            if !self.orders.account.is_empty() {
                continue;
            }
            let position = self.orders.position;
            let (side, price) = if position > 0 {
                (OrderSide::Sell, self.best(Side::Buy))
            } else {
                (OrderSide::Buy, self.best(Side::Sell))
            };
            if let (Some(price), 1..) = (price, position.unsigned_abs()) {
                let shares = position.unsigned_abs() as u32;
                self.orders.enter(side, shares, self.symbol, price, TimeInForce::ImmediateOrCancel)?;
            }
        }
        Ok(())
    }
}

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().collect();
    let [_, symbol, seconds, ouch, glimpse, lines @ ..] = &words[..] else {
        return Err("usage: market_maker SYMBOL SECONDS OUCH_HOST:PORT GLIMPSE_HOST:PORT LINE...".into());
    };
    let symbol = Symbol::new(symbol).ok_or("a symbol has at most eight letters")?;
    let length = Duration::from_secs_f64(seconds.parse()?);
    let lines = lines.iter().map(|line| line.parse()).collect::<std::result::Result<Vec<_>, _>>()?;
    let snapshot = Some(SnapshotServer::at(Endpoint::parse(glimpse)?));
    let feed = FeedHandler::open(&Options { snapshot, ..Options::of(lines) })?;
    let orders = Orders::connect(&Endpoint::parse(ouch)?)?;
    let mut maker = Maker { feed, orders, symbol, quotes: [None; 2] };
    let begin = Instant::now();
    let mut quoted = 0_u64;
    while begin.elapsed() < length {
        maker.poll()?;
        maker.quote()?;
        quoted += u64::from(maker.quotes.iter().all(Option::is_some));
    }
    let fills = maker.orders.fills;
    maker.end_flat()?;
    if maker.feed.channel().directory().find(symbol).is_none() {
        return Err(format!("the feed has not named {symbol}").into());
    }
    let Orders { position, account, .. } = &maker.orders;
    println!("{fills} fills while it quoted, {quoted} looks with both quotes out");
    match (*position, account.len()) {
        (0, 0) => println!("flat"),
        (position, open) => println!("not flat: {position} shares, {open} orders open"),
    }
    Ok(())
}
