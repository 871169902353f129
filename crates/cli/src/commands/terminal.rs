//! The terminal of commands that show something live: entered, left in whatever way the command ends, and given back while the
//! command is stopped.

use ratatui::crossterm::event::{self, Event, KeyEvent, KeyEventKind};
use ratatui::style::{Color, Style};
use ratatui::{DefaultTerminal, Frame};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Signal, getpid, kill_process};
use sidestep_sys::Problem;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGTSTP};
use signal_hook::flag;
use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The longest wait for a key: how late a signal is noticed.
const KEY_WAIT: Duration = Duration::from_millis(50);

/// The wish that a key stands for, beyond what is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Nothing,
    Quit,
    /// Ctrl-Z.
    Suspend,
}

/// The colours, which NO_COLOR turns off.
#[derive(Clone, Copy, Debug)]
pub(super) struct Colours(pub(super) bool);

impl Colours {
    pub(super) fn of(self, colour: Color) -> Style {
        if self.0 { Style::new().fg(colour) } else { Style::new() }
    }
}

/// What is shown live.
pub(super) trait Live {
    /// Takes what is new, and returns how long the terminal may wait for a key before it asks again.
    fn take_news(&mut self) -> Result<Duration, Problem>;

    /// Does what a key stands for.
    fn press(&mut self, key: KeyEvent) -> Wish;

    /// Draws everything.
    fn draw(&self, frame: &mut Frame<'_>, colours: Colours);
}

/// Returns whether standard output is a terminal that can place text. Else lines are printed, as into a file.
pub(super) fn can_place_text() -> bool {
    io::stdout().is_terminal() && std::env::var_os("TERM").is_some_and(|name| !name.is_empty() && name != "dumb")
}

/// The terminal, given back when this goes. A panic gives it back before its message.
struct Screen(DefaultTerminal);

impl Screen {
    fn enter() -> io::Result<Self> {
        ratatui::try_init().map(Self)
    }

    /// Gives the terminal back while `meanwhile` runs.
    fn leave_for(&mut self, meanwhile: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        ratatui::try_restore()?;
        meanwhile()?;
        self.0 = ratatui::try_init()?;
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // There is nothing to be done where the terminal has gone.
        let _ = ratatui::try_restore();
    }
}

/// Flags that signals set.
struct Signals {
    stop: Arc<AtomicBool>,
    suspend: Arc<AtomicBool>,
    resumed: Arc<AtomicBool>,
}

impl Signals {
    fn watch(stop: &Arc<AtomicBool>) -> io::Result<Self> {
        let seen = Self { stop: Arc::clone(stop), suspend: Arc::default(), resumed: Arc::default() };
        flag::register(SIGHUP, Arc::clone(stop))?;
        flag::register(SIGTSTP, Arc::clone(&seen.suspend))?;
        flag::register(SIGCONT, Arc::clone(&seen.resumed))?;
        Ok(seen)
    }
}

/// Shows `live` until the user leaves it. `instead` is what prints the same as text.
pub(super) fn show(live: &mut dyn Live, stop: &Arc<AtomicBool>, instead: &str) -> Result<(), Problem> {
    let failed = |error: io::Error| {
        Problem::failed("cannot use the terminal", error).next(format!("{instead} prints one sample as text"))
    };
    let signals = Signals::watch(stop).map_err(failed)?;
    let mut wait = live.take_news()?;
    let mut screen = Screen::enter().map_err(failed)?;
    let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let colours = Colours(!no_colour);
    while !signals.stop.load(Ordering::Relaxed) {
        screen.0.draw(|frame| live.draw(frame, colours)).map_err(failed)?;
        let wish = key(live, wait).map_err(failed)?;
        if wish == Wish::Quit {
            break;
        }
        if wish == Wish::Suspend || signals.suspend.swap(false, Ordering::Relaxed) {
            screen.leave_for(stop_here).map_err(failed)?;
            signals.resumed.store(false, Ordering::Relaxed);
        } else if signals.resumed.swap(false, Ordering::Relaxed) {
            // After SIGSTOP, which no program sees, the shell has had the terminal.
            screen.leave_for(|| Ok(())).map_err(failed)?;
        }
        wait = live.take_news()?;
    }
    Ok(())
}

/// Waits for a key for so long, and does what it stands for. A new size ends the wait, too.
fn key(live: &mut dyn Live, longest: Duration) -> io::Result<Wish> {
    if has_hung_up(longest.min(KEY_WAIT))? {
        return Ok(Wish::Quit);
    }
    if !event::poll(Duration::ZERO)? {
        return Ok(Wish::Nothing);
    }
    match event::read()? {
        Event::Key(key) if key.kind == KeyEventKind::Press => Ok(live.press(key)),
        _ => Ok(Wish::Nothing),
    }
}

/// Waits for input; returns whether the terminal has gone. crossterm 0.29 would read its end for ever, so it is asked only for what
/// is there.
fn has_hung_up(longest: Duration) -> io::Result<bool> {
    let input = io::stdin();
    if !input.is_terminal() {
        // Keys come from /dev/tty.
        std::thread::sleep(longest);
        return Ok(false);
    }
    let mut asked = [PollFd::new(&input, PollFlags::IN)];
    let timeout = Timespec::try_from(longest).map_err(io::Error::other)?;
    match poll(&mut asked, Some(&timeout)) {
        Ok(_) => Ok(asked[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL)),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Stops this process, as Ctrl-Z stops others; returns when it is continued.
fn stop_here() -> io::Result<()> {
    kill_process(getpid(), Signal::STOP)?;
    Ok(())
}
