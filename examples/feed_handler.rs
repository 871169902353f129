//! A feed handler: keeps the books of a feed (ITCH over MoldUDP64), and prints the best bid and offer of one instrument when they change.
//! `sidestep market exchange --interface lo` has a feed, and says where: `feed_handler SYMBOL GLIMPSE RE-REQUESTS LINE LINE`. It runs until it is
//! interrupted.

use sidestep::idle::IdleStrategy;
use sidestep::market::book::{Book, Books, PriceLevel};
use sidestep::market::feed::Action;
use sidestep::market::feed_handler::{Application, FeedHandler, Line, Options, SnapshotServer, Update};
use sidestep::market::itch::{Message, PRICE_DECIMALS};
use sidestep::market::mold64::Session;
use sidestep::market::{Locate, Side, Symbol};
use sidestep::stream::Endpoint;
use std::{error::Error, io::Write, sync::atomic::AtomicBool};

// ANCHOR: application
/// One instrument: its number on this day, once the directory has told it, and what was printed last.
struct Watch {
    symbol: Symbol,
    locate: Option<Locate>,
    last: String,
}

impl Application for Watch {
    fn message(&mut self, update: &Update<'_>) {
        match &update.message {
            Message::StockDirectory(stock) if stock.stock() == self.symbol => self.locate = Some(stock.locate()),
            message if Some(message.locate()) == self.locate && update.is_live => {
                let text = update.books.book(message.locate()).map(|book| best(&book)).unwrap_or_default();
                if text != self.last && writeln!(std::io::stdout(), "{} {text}", update.sequence.0).is_err() {
                    std::process::exit(0); // nobody reads any more
                }
                self.last = text;
            }
            _ => {}
        }
    }

    fn notice(&mut self, action: &Action<Session>, _: &Books) {
        match action {
            Action::Request { .. } => {}       // made by the handler; there may be many
            action => eprintln!("{action:?}"), // live, recovering or stale; sessions, snapshots, what is lost
        }
    }
}

fn best(book: &Book<'_>) -> String {
    let text = |level: PriceLevel| format!("{} x {}", level.price.display(PRICE_DECIMALS), level.shares);
    [Side::Buy, Side::Sell].map(|side| book.best(side).map_or_else(|| "none".to_owned(), text)).join(" | ")
}
// ANCHOR_END: application

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [symbol, glimpse, rerequest, lines @ ..] = &words[..] else {
        return Err("usage: feed_handler SYMBOL GLIMPSE RE-REQUESTS LINE LINE".into());
    };
    // ANCHOR: open
    let mut options = Options::of(lines.iter().map(|line| line.parse()).collect::<Result<Vec<Line>, _>>()?);
    options.rerequest = vec![rerequest.parse()?];
    options.snapshot = Some(SnapshotServer::at(Endpoint::parse(glimpse)?));
    let mut handler = FeedHandler::open(&options)?;
    handler.sockets().by_kernel().for_each(|line| eprintln!("{line}"));
    let symbol = Symbol::new(symbol).ok_or("a symbol has at most 8 letters")?;
    let mut watch = Watch { symbol, locate: None, last: String::new() };
    handler.run(&mut watch, IdleStrategy::SPIN_THEN_PARK, &AtomicBool::new(false))?;
    // ANCHOR_END: open
    Ok(())
}
