//! A feed handler: joins the lines of a feed (ITCH over MoldUDP64), keeps the book of one instrument, and prints its best bid and offer
//! whenever they change.
//!
//! ```text
//! sidestep market exchange --interface lo &
//! cargo run --release --example feed_handler -- SYMBOL LINE LINE... [--rerequest ADDRESS:PORT] [--glimpse HOST:PORT]
//! ```

use sidestep::idle::IdleStrategy;
use sidestep::market::book::{Book, Books};
use sidestep::market::feed::Action;
use sidestep::market::feed_handler::{Application, FeedHandler, Options, SnapshotServer, Update};
use sidestep::market::itch::{Message, PRICE_DECIMALS};
use sidestep::market::mold64::Session;
use sidestep::market::{Locate, Side, Symbol};
use sidestep::stream::Endpoint;
use std::error::Error;
use std::sync::atomic::AtomicBool;

// ANCHOR: application
/// Prints the best bid and offer of one instrument.
struct Watch {
    symbol: Symbol,
    /// Its number on this day, once the directory has told it.
    locate: Option<Locate>,
    last: String,
}

impl Application for Watch {
    fn message(&mut self, update: &Update<'_>) {
        if let Message::StockDirectory(stock) = &update.message
            && stock.stock() == self.symbol
        {
            self.locate = Some(stock.locate());
        }
        if Some(update.message.locate()) != self.locate || update.is_snapshot {
            return;
        }
        let text = update.books.book(update.message.locate()).map(|book| best(&book)).unwrap_or_default();
        if text != self.last {
            println!("{} {text}", update.sequence.0);
            self.last = text;
        }
    }

    fn notice(&mut self, action: &Action<Session>, _: &Books) {
        // Live, recovering or stale; gaps, requests, snapshots.
        eprintln!("{action:?}");
    }
}

fn best(book: &Book<'_>) -> String {
    let level = |side| match book.best(side) {
        Some(level) => format!("{} x {}", level.price.display(PRICE_DECIMALS), level.shares),
        None => "none".to_owned(),
    };
    format!("{} | {}", level(Side::Buy), level(Side::Sell))
}
// ANCHOR_END: application

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let symbol = words.next().as_deref().and_then(Symbol::new).ok_or("usage: feed_handler SYMBOL LINE LINE...")?;
    // ANCHOR: open
    let mut options = Options::default();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--rerequest" => options.rerequest.push(words.next().ok_or("--rerequest ADDRESS:PORT")?.parse()?),
            "--glimpse" => {
                let endpoint = Endpoint::parse(&words.next().ok_or("--glimpse HOST:PORT")?)?;
                options.snapshot = Some(SnapshotServer::at(endpoint));
            }
            line => options.lines.push(line.parse()?),
        }
    }
    let mut handler = FeedHandler::open(&options)?;
    handler.sockets().by_kernel().for_each(|line| eprintln!("{line}"));
    let mut watch = Watch { symbol, locate: None, last: String::new() };
    handler.run(&mut watch, IdleStrategy::SPIN_THEN_PARK, &AtomicBool::new(false))?;
    // ANCHOR_END: open
    Ok(())
}
