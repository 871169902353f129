//! `sidestep top`: rates of stacks and of the sockets of programs under `sidestep run`, on a screen or as lines.
//!
//! `stacks` has what control knows, `rows` everything that has a rate, `state` what the keys change, `screen` how it is drawn.

mod column;
mod rows;
mod screen;
mod stacks;
mod state;

use super::terminal::{self, Colours, Live, Wish};
use crate::args::Top as Args;
use crate::{exit, output, signal};
use ratatui::Frame;
use ratatui::crossterm::event::KeyEvent;
use sidestep_control_api::client::Client;
use sidestep_control_api::place;
use sidestep_sys::Problem;
use sidestep_sys::problem::say;
use state::State;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Shortest interval. Control answers in tens of microseconds per stack, and must not be kept busy.
const INTERVAL_MIN: Duration = Duration::from_millis(100);
/// Longest delay until Ctrl-C is noticed.
const NAP: Duration = Duration::from_millis(50);

/// Control, where there is one, and what was read last.
#[derive(Debug)]
struct Source {
    client: Option<Client>,
    filter: Vec<String>,
}

impl Source {
    /// Without a control plane the programs under `sidestep run` are shown, if there are any.
    fn open(args: &Args) -> Result<Self, Problem> {
        let path = args.socket.clone().map_or_else(place::socket, Ok)?;
        let client = match Client::connect_to(&path, super::ps::OBSERVERS[1]) {
            Ok(client) => Some(client),
            Err(error) if sidestep_unmodified::status::programs().is_empty() => return Err(error.into()),
            Err(error) => {
                say(Problem::from(error).brief());
                None
            }
        };
        Ok(Self { client, filter: args.filter.clone() })
    }

    /// Reads everything. A control plane that has ended meanwhile has no stacks any more.
    fn sample(&mut self) -> rows::Sample {
        let stacks = self.client.as_mut().map(|client| stacks::sample(client, &self.filter));
        if let Some(Err(_)) = &stacks {
            self.client = None;
        }
        rows::Sample::of(stacks.and_then(Result::ok).unwrap_or_default(), &self.filter)
    }
}

/// The list on a screen.
struct List {
    source: Source,
    interval: Duration,
    before: rows::Sample,
    sampled_at: Instant,
    state: State,
}

impl List {
    fn new(mut source: Source, interval: Duration) -> Self {
        let before = source.sample();
        let mut state = State::default();
        state.take(rows::rows(&before, &before));
        Self { source, interval, before, sampled_at: Instant::now(), state }
    }
}

impl Live for List {
    fn take_news(&mut self) -> Result<Duration, Problem> {
        if self.sampled_at.elapsed() >= self.interval {
            let now = self.source.sample();
            self.state.take(rows::rows(&self.before, &now));
            (self.before, self.sampled_at) = (now, Instant::now());
        }
        Ok((self.sampled_at + self.interval).saturating_duration_since(Instant::now()))
    }

    fn press(&mut self, key: KeyEvent) -> Wish {
        self.state.press(key)
    }

    fn draw(&self, frame: &mut Frame<'_>, colours: Colours) {
        screen::draw(frame, &self.state, colours);
    }
}

pub(super) fn run(args: &Args) -> Result<u8, Problem> {
    let interval = args.interval.max(INTERVAL_MIN);
    let stop = signal::stop_flag()?;
    let mut source = Source::open(args)?;
    if !args.once && !args.json && terminal::can_place_text() {
        terminal::show(&mut List::new(source, interval), &stop, "sidestep top --once")?;
        return Ok(exit::GOOD);
    }
    let mut before = source.sample();
    while sleep(interval, &stop) {
        let now = source.sample();
        show(&before, &now, args)?;
        if args.once {
            break;
        }
        before = now;
    }
    Ok(exit::GOOD)
}

/// Sleeps; returns false when told to stop.
fn sleep(interval: Duration, stop: &AtomicBool) -> bool {
    let until = Instant::now() + interval;
    while Instant::now() < until && !stop.load(Ordering::Relaxed) {
        std::thread::sleep(NAP.min(until.saturating_duration_since(Instant::now())));
    }
    !stop.load(Ordering::Relaxed)
}

fn show(before: &rows::Sample, now: &rows::Sample, args: &Args) -> Result<(), Problem> {
    let seconds = now.seconds_since(before);
    let rates = stacks::rates(&before.stacks, &now.stacks, seconds);
    if args.json {
        let failed = |error| Problem::failed("cannot list stacks", error).next("leave --json out");
        return output::print(&(serde_json::to_string(&rates).map_err(failed)? + "\n"));
    }
    let width = output::terminal_width().unwrap_or(usize::MAX);
    let mut text = stacks::table(&rates, width);
    let sockets = rows::rows(before, now).into_iter().filter(rows::Row::is_socket).collect::<Vec<_>>();
    if !sockets.is_empty() {
        text.push_str(&column::table(&sockets, width));
    }
    output::print(&text)
}
