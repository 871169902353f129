//! Packet scripts: our stack against a peer that does exactly what a script says, in virtual time, to the nanosecond.
#![allow(dead_code, unreachable_pub, reason = "each user takes its part")]

pub mod calls;
pub mod parse;
pub mod play;

use parse::{Event, Line, parse};
use play::Play;

/// A line that was not as it should be, as a difference.
fn differs(line: &Line, wanted: &str, found: &str) -> String {
    format!("line {}\n- {wanted}\n+ {found}", line.number)
}

/// Runs a script. `common` gives what `use` names. `Err`: the line, what it wants, and what there was.
pub fn run(text: &str, common: &dyn Fn(&str) -> Option<String>) -> Result<usize, String> {
    let lines = parse(text).map_err(|(number, reason)| format!("line {number}: {reason}"))?;
    let mut config = calls::settings();
    for line in &lines {
        if let Event::Set(name, value) = &line.event {
            config.set(name, value).map_err(|error| format!("line {}: {error:?}", line.number))?;
        }
    }
    let mut play = Play::new(config);
    let mut checks = 0;
    for line in &lines {
        if let Event::Use(name) = &line.event {
            let text = common(name).ok_or_else(|| format!("line {}: no common/{name}.txt", line.number))?;
            let inner = parse(&text).map_err(|(number, reason)| format!("{name} line {number}: {reason}"))?;
            for line in &inner {
                checks += step(&mut play, line).map_err(|fault| format!("{name} {fault}"))?;
            }
        } else {
            checks += step(&mut play, line)?;
        }
    }
    silent(&mut play, 0).map_err(|found| format!("behind the last line\n- nothing more\n+ {found}"))?;
    Ok(checks)
}

/// One line; the number of things that it has checked.
fn step(play: &mut Play, line: &Line) -> Result<usize, String> {
    let text = &line.text;
    if let Event::Expect(packet) = &line.event {
        let before_ns = play.now_ns;
        let (seen, due_ns) = play.next_seen(line.wait_ns).map_err(|fault| differs(line, text, &fault))?;
        let Some(seen) = seen else { return Err(differs(line, text, "nothing was sent")) };
        let described = play.describe(&seen);
        if seen.at_ns != due_ns {
            let early = (seen.at_ns as f64 - before_ns as f64) / 1e6;
            return Err(differs(line, text, &format!("+{early}ms {described}")));
        }
        return if play.is_as(packet, &seen) { Ok(1) } else { Err(differs(line, text, &described)) };
    }
    if let Event::Join(packet) = &line.event {
        return play.inject(packet).map(|()| 0).map_err(|fault| differs(line, text, &fault));
    }
    silent(play, line.wait_ns).map_err(|found| differs(line, &format!("nothing before: {text}"), &found))?;
    match &line.event {
        Event::Inject(packet) => play.inject(packet).map(|()| 0).map_err(|fault| differs(line, text, &fault)),
        Event::Call(words, wanted) => {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let found = calls::call(play, &words).map_err(|fault| differs(line, text, &fault))?;
            let wanted = wanted.as_deref().unwrap_or(default_result(&words));
            if found == wanted { Ok(1) } else { Err(differs(line, text, &format!("{} = {found}", words.join(" ")))) }
        }
        Event::Quiet => Ok(1),
        Event::Use(_) if play.listener.is_some() || play.id.is_some() => Err(differs(line, text, "too late, or twice")),
        _ => Ok(0),
    }
}

/// What a call gives if the script does not say: success.
fn default_result<'a>(words: &[&'a str]) -> &'a str {
    match *words {
        ["send", bytes] => bytes,
        ["too_big" | "unreachable", ..] => "true",
        _ => "ok",
    }
}

/// Nothing that was not expected has left, nor leaves in `wait_ns`.
fn silent(play: &mut Play, wait_ns: u64) -> Result<(), String> {
    let before_ns = play.now_ns;
    // What waits for a poll belongs to the moment of the line before.
    play.pass(wait_ns, true)?;
    match play.seen.pop_front() {
        None => Ok(()),
        Some(seen) => Err(format!("+{}ms {}", (seen.at_ns - before_ns) as f64 / 1e6, play.describe(&seen))),
    }
}
