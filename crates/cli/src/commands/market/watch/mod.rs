//! `sidestep market watch`: a feed, live on a screen, or one look at it as text or JSON.
//!
//! The feed has a thread of its own (`feed`), which is asked for a look at it (`model`) and waits for nobody. `state` is what the keys
//! change, `screen` how it is drawn, `text` the same as text.

mod feed;
mod model;
mod screen;
mod state;
mod text;

use crate::args::MarketWatch as Args;
use crate::commands::terminal::{self, Colours, Live, Wish};
use crate::{exit, output, signal};
use feed::{FeedThread, Wanted};
use model::Snapshot;
use ratatui::Frame;
use ratatui::crossterm::event::KeyEvent;
use sidestep_sys::Problem;
use state::State;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The shortest interval: a look at 8,000 instruments takes some ms of the feed's thread.
const INTERVAL_MIN: Duration = Duration::from_millis(100);
/// Longest delay until Ctrl-C is noticed.
const NAP: Duration = Duration::from_millis(50);

pub(super) fn run(args: &Args) -> Result<u8, Problem> {
    let interval = args.interval.max(INTERVAL_MIN);
    let stop = signal::stop_flag()?;
    let feed = FeedThread::start(args)?;
    if !args.once && args.json.is_none() && terminal::can_place_text() {
        let mut view = View { feed, interval, asked_at: None, state: State::default(), wanted: Wanted::of(args) };
        terminal::show(&mut view, &stop, "sidestep market watch --once")?;
        return Ok(exit::GOOD);
    }
    let is_one = args.once || args.json.is_some();
    if is_one {
        await_live(&feed, args, &stop)?;
    }
    let mut before = feed.look(&Wanted::of(args))?;
    loop {
        if !sleep(interval, &stop) {
            return Ok(if is_one { exit::INTERRUPTED } else { exit::GOOD });
        }
        let mut now = feed.look(&Wanted { locate: busiest(&before), ..Wanted::of(args) })?;
        now.set_rates(&before);
        match &args.json {
            Some(path) => output::write(path, &json(&now)?)?,
            None => output::print(&(text::screen(&now) + if is_one { "" } else { "\n" }))?,
        }
        if is_one {
            let is_good = now.state == "live" && now.incomplete_books == 0;
            return Ok(if is_good { exit::GOOD } else { exit::FINDINGS });
        }
        before = now;
    }
}

/// Waits until the feed is live, as long as the flags say.
fn await_live(feed: &FeedThread, args: &Args, stop: &AtomicBool) -> Result<(), Problem> {
    let until = Instant::now() + args.wait;
    while Instant::now() < until && !stop.load(Ordering::Relaxed) {
        if feed.look(&Wanted::of(args))?.state == "live" {
            break;
        }
        std::thread::sleep(NAP);
    }
    Ok(())
}

fn busiest(now: &Snapshot) -> Option<u16> {
    now.instruments.iter().max_by_key(|one| one.messages).map(|one| one.locate)
}

fn json(now: &Snapshot) -> Result<String, Problem> {
    let failed = |error| Problem::failed("cannot write the feed as JSON", error).next("use --once");
    Ok(serde_json::to_string_pretty(now).map_err(failed)? + "\n")
}

/// Sleeps; returns false when told to stop.
fn sleep(interval: Duration, stop: &AtomicBool) -> bool {
    let until = Instant::now() + interval;
    while Instant::now() < until && !stop.load(Ordering::Relaxed) {
        std::thread::sleep(NAP.min(until.saturating_duration_since(Instant::now())));
    }
    !stop.load(Ordering::Relaxed)
}

/// The feed on a screen.
struct View {
    feed: FeedThread,
    interval: Duration,
    asked_at: Option<Instant>,
    state: State,
    wanted: Wanted,
}

impl View {
    fn ask(&mut self) -> Result<(), Problem> {
        let locate = self.state.chosen();
        let now = self.feed.look(&Wanted { locate, has_orders: self.state.has_orders, ..self.wanted })?;
        if locate.is_some() {
            // The instrument of the flags is only the first one.
            self.wanted.symbol = None;
        }
        self.state.take(now);
        Ok(())
    }
}

impl Live for View {
    fn take_news(&mut self) -> Result<Duration, Problem> {
        if self.asked_at.is_none_or(|at| at.elapsed() >= self.interval) {
            self.asked_at = Some(Instant::now());
            self.ask()?;
        }
        let asked_at = self.asked_at.unwrap_or_else(Instant::now);
        Ok((asked_at + self.interval).saturating_duration_since(Instant::now()))
    }

    fn press(&mut self, key: KeyEvent) -> Wish {
        let before = (self.state.chosen(), self.state.has_orders);
        let wish = self.state.press(key);
        if before != (self.state.chosen(), self.state.has_orders) {
            self.asked_at = None;
        }
        wish
    }

    fn draw(&self, frame: &mut Frame<'_>, colours: Colours) {
        screen::draw(frame, &self.state, colours);
    }
}
