//! `sidestep fix send`.

use super::apply_thread_options;
use crate::args_fix::{Send as Args, Side};
use crate::{exit, output, signal};
use sidestep_fix::config::{Config, Place, SessionConfig};
use sidestep_fix::decode::Message;
use sidestep_fix::encode::Builder;
use sidestep_fix::engine::{Destinations, Endpoint, Engine, Handle, SessionPlan, StorePlan, TlsSettings};
use sidestep_fix::exchange::{is_session_field, readable};
use sidestep_fix::session::{Application, End, Outbox, Phase, Refusal, Role, SendError, SessionId, SessionSettings};
use sidestep_fix::store::journal::Options;
use sidestep_fix::{Now, SOH};
use sidestep_sys::Problem;
use sidestep_sys::idle::IdleStrategy;
use sidestep_sys::problem::{Kind, say};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The longest file of messages, bytes.
const FILE_BYTES_MAX: u64 = 256 << 20;
/// Time between two polls while waiting.
const NAP: Duration = Duration::from_millis(5);

/// The application: prints what arrives.
#[derive(Debug, Default)]
struct Printer {
    received: u64,
    /// Messages other than rejects.
    reports: u64,
    refused: u64,
    end: Option<End>,
}

impl Printer {
    /// Returns the number of answers, of which each order has `each`. A rejected order counts as answered in full.
    fn answers(&self, each: u64) -> u64 {
        self.reports + self.refused * each
    }
}

impl Application for Printer {
    fn from_app(&mut self, message: &Message<'_, '_>, _: &mut dyn Outbox) -> Result<(), Refusal> {
        self.received += 1;
        let is_refusal = message.msg_type() == b"j";
        self.refused += u64::from(is_refusal);
        self.reports += u64::from(!is_refusal);
        show("<", message.raw());
        Ok(())
    }

    fn from_admin(&mut self, _: &SessionId, message: &Message<'_, '_>) -> Result<(), Refusal> {
        if matches!(message.msg_type(), b"3" | b"5") {
            self.refused += u64::from(message.msg_type() == b"3");
            show("<", message.raw());
        }
        Ok(())
    }

    fn on_logout(&mut self, _: &SessionId, why: End) {
        self.end = Some(why);
    }

    fn on_problem(&mut self, _: &SessionId, problem: &Problem) {
        say(problem);
    }
}

fn show(direction: &str, message: &[u8]) {
    // A closed pipe is noticed by the next command.
    let _ = output::print(&format!("{direction} {}\n", readable(message)));
}

/// One message to send: its MsgType and the fields of its body.
struct Draft {
    msg_type: Vec<u8>,
    fields: Vec<(u32, Vec<u8>)>,
}

pub(super) fn run(args: &Args) -> Result<u8, Problem> {
    let stop = signal::stop_flag()?;
    // Orders are built one by one: all of them may not fit into memory.
    let drafts: Box<dyn Iterator<Item = Draft>> = match &args.file {
        Some(file) => Box::new(read(file)?.into_iter()),
        None => Box::new((1..=args.count).map(|number| order(args, number))),
    };
    let (idle, options) = apply_thread_options(&args.thread)?;
    let mut engine = Engine::new(Printer::default());
    let handle = match &args.cfg {
        Some(file) => configure(args, file, &mut engine, idle)?,
        None => connect(args, &mut engine, options)?,
    };
    wait(&mut engine, idle, args.wait, &stop, |engine| engine.session(handle).is_logged_on())?;
    if !engine.session(handle).is_logged_on() {
        return Err(not_logged_on(&engine, handle, &stop));
    }
    let (mut count, mut failure) = (0, None);
    for draft in drafts {
        failure = send(&mut engine, handle, &draft, idle, args.wait, &stop).err();
        if failure.is_some() {
            break;
        }
        count += 1;
    }
    // The number of answers to the messages of a file is unknown.
    let expected = if args.file.is_none() { args.answers.saturating_mul(count) } else { u64::MAX };
    // Wait as long as answers arrive.
    let mut before = u64::MAX;
    while before != engine.app().received && engine.app().answers(args.answers) < expected {
        before = engine.app().received;
        wait(&mut engine, idle, args.wait, &stop, |engine| {
            let app = engine.app();
            app.answers(args.answers) >= expected || app.received > before || !engine.session(handle).is_logged_on()
        })?;
    }
    let why = engine.app().end.map_or_else(String::new, |end| format!("; the session ended: {end}"));
    engine.shut_down("", args.wait);
    let app = engine.app();
    say(format!("{count} sent, {} received, {} rejected", app.received, app.refused));
    let missing = if args.file.is_none() { expected.saturating_sub(app.answers(args.answers)) } else { 0 };
    if missing > 0 {
        say(format!("{missing} of {expected} answers are missing{why}"));
    }
    if stop.load(Ordering::Relaxed) {
        return Err(Problem::new(
            Kind::Interrupted,
            "stopped",
            "messages that were not sent or answered by then are given up",
        ));
    }
    failure.map_or_else(|| Ok(exit_code(missing, app)), Err)
}

/// Returns the exit code: rejected or unanswered orders are a failure.
fn exit_code(missing: u64, app: &Printer) -> u8 {
    if app.refused > 0 || missing > 0 { exit::FAILED } else { exit::GOOD }
}

fn connect(
    args: &Args,
    engine: &mut Engine<Printer>,
    options: sidestep_fix::engine::SocketOptions,
) -> Result<Handle, Problem> {
    let mut settings = SessionSettings::new(Role::Initiator, SessionId::new(&args.begin, &args.sender, &args.target));
    settings.reset_on_logon = args.reset || args.store_path.is_none();
    let mut plan = SessionPlan::new(settings);
    if let Some(folder) = &args.store_path {
        plan.store = StorePlan::Journal { folder: folder.clone(), options: Options::default() };
        plan.store.accept_loss(args.accept_loss);
        plan.check_store("--store-path")?;
    }
    let endpoints = args.to.iter().map(|text| Endpoint::parse(text)).collect::<Result<Vec<_>, _>>()?;
    let tls = args.tls_ca.as_ref().map(|authorities| TlsSettings {
        authorities: Some(authorities.clone()),
        certificate: args.tls_cert.clone(),
        key: args.tls_key.clone(),
        server_name: args.tls_name.clone(),
        ..TlsSettings::default()
    });
    let reconnect_interval = Duration::from_millis(100);
    let connect_timeout = args.wait;
    engine.add_initiator(&plan, Destinations { endpoints, reconnect_interval, connect_timeout, tls, options })
}

/// Adds one session of a settings file.
fn configure(args: &Args, file: &Path, engine: &mut Engine<Printer>, idle: IdleStrategy) -> Result<Handle, Problem> {
    let mut config = Config::read(file)?;
    config.notes.iter().for_each(say);
    let what = format!("cannot send with {}", file.display());
    config.sessions.retain(|session| matches!(session.place, Place::Connect(_)));
    let name = |session: &SessionConfig| session.plan.settings.id.to_string();
    let names: Vec<String> = config.sessions.iter().map(name).collect();
    config.sessions.retain(|session| args.session.as_ref().is_none_or(|wanted| *wanted == name(session)));
    let [session] = &mut config.sessions[..] else {
        let why =
            if names.is_empty() { "it has no initiator" } else { "it has several initiators, or none of that name" };
        let next =
            if names.is_empty() { "--to ADDRESS".into() } else { format!("--session, one of: {}", names.join(", ")) };
        return Err(Problem::usage(what, why).next(format!("give {next}")));
    };
    session.plan.settings.reset_on_logon |= args.reset;
    session.plan.store.accept_loss(args.accept_loss);
    engine.configure(&config, idle)?;
    engine.handles().next().ok_or_else(|| Problem::failed(what, "its session was not made"))
}

fn not_logged_on(engine: &Engine<Printer>, handle: Handle, stop: &AtomicBool) -> Problem {
    if stop.load(Ordering::Relaxed) {
        return Problem::new(Kind::Interrupted, "stopped", "there was no Logon yet");
    }
    let connect = engine.last_connect_error(handle);
    let why = if engine.session(handle).phase() != Phase::Disconnected {
        "connected, but the Logon was not answered"
    } else if connect.is_empty() {
        "no connection within --wait"
    } else {
        connect
    };
    Problem::failed(format!("cannot log on as {}", engine.session(handle).id()), why)
        .next("check address, CompIDs and sequence numbers (--reset)")
}

/// Polls until `done`, for at most `limit`.
fn wait(
    engine: &mut Engine<Printer>,
    idle: IdleStrategy,
    limit: Duration,
    stop: &AtomicBool,
    done: impl Fn(&Engine<Printer>) -> bool,
) -> Result<(), Problem> {
    let end = Instant::now() + limit;
    while !done(engine) && Instant::now() < end && !stop.load(Ordering::Relaxed) {
        if engine.poll() == 0 && idle.parks() {
            engine.sleep(NAP)?;
        }
    }
    Ok(())
}

/// Sends one message; waits while the counterparty is slow to read.
fn send(
    engine: &mut Engine<Printer>,
    handle: Handle,
    draft: &Draft,
    idle: IdleStrategy,
    limit: Duration,
    stop: &AtomicBool,
) -> Result<(), Problem> {
    let end = Instant::now() + limit;
    loop {
        if stop.load(Ordering::Relaxed) {
            return Err(Problem::new(Kind::Interrupted, "stopped", "not everything was sent"));
        }
        let sent = engine.send(handle, &draft.msg_type, |builder| fill(builder, draft));
        match sent {
            Ok(_) => break,
            Err(SendError::Full) if Instant::now() < end => {
                wait(engine, idle, NAP, stop, |_| false)?;
            }
            Err(SendError::NotLoggedOn) => {
                let why =
                    engine.app().end.map_or_else(|| "the session is not logged on".to_owned(), |end| end.to_string());
                return Err(Problem::failed("cannot send", why));
            }
            Err(SendError::Store(problem)) => return Err(problem),
            Err(error) => return Err(Problem::failed("cannot send", error)),
        }
    }
    engine.poll();
    Ok(())
}

fn fill(builder: &mut Builder<'_>, draft: &Draft) {
    for (tag, value) in &draft.fields {
        if *tag == 60 && value.is_empty() {
            builder.timestamp(60, Now::system().utc());
        } else {
            builder.bytes(*tag, value);
        }
    }
}

fn order(args: &Args, number: u64) -> Draft {
    let side = if args.side == Side::Buy { "1" } else { "2" };
    let text = |value: &str| value.as_bytes().to_vec();
    let fields = vec![
        (11, format!("{}-{number}", std::process::id()).into_bytes()),
        (21, text("1")),
        (38, text(&args.qty)),
        (40, text("2")),
        (44, text(&args.price)),
        (54, text(side)),
        (55, text(&args.symbol)),
        // TransactTime is filled in when the message is sent.
        (60, Vec::new()),
    ];
    Draft { msg_type: text("D"), fields }
}

fn read(file: &Path) -> Result<Vec<Draft>, Problem> {
    let fail = |why: &dyn std::fmt::Display| Problem::failed(format!("cannot read {}", file.display()), why);
    let bytes = sidestep_sys::file::read(file, FILE_BYTES_MAX).map_err(|error| fail(&error))?;
    let lines = bytes.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).enumerate();
    let messages = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with(b"#"));
    messages
        .map(|(number, line)| {
            draft(line).ok_or_else(|| {
                Problem::usage(format!("{}, line {}", file.display(), number + 1), "it is not a message")
                    .next("write 35=D|11=1|55=TEST|54=1|38=100|40=1")
            })
        })
        .collect()
}

/// Parses a message, without the fields that the session writes.
fn draft(line: &[u8]) -> Option<Draft> {
    let mut found = Draft { msg_type: Vec::new(), fields: Vec::new() };
    let separator = if line.contains(&SOH) { SOH } else { b'|' };
    for field in line.split(|byte| *byte == separator).filter(|field| !field.is_empty()) {
        let equals = field.iter().position(|byte| *byte == b'=')?;
        let tag: u32 = std::str::from_utf8(&field[..equals]).ok()?.parse().ok()?;
        let value = field[equals + 1..].to_vec();
        match tag {
            35 => found.msg_type = value,
            tag if is_session_field(tag) => {}
            tag => found.fields.push((tag, value)),
        }
    }
    (!found.msg_type.is_empty()).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_refused_or_left_unanswered_are_no_success() {
        let app = |reports, refused| Printer { received: reports, reports, refused, end: None };
        assert_eq!(exit_code(0, &app(2, 0)), exit::GOOD);
        assert_eq!(exit_code(0, &app(1, 1)), exit::FAILED);
        assert_eq!(exit_code(1, &app(9_999, 0)), exit::FAILED);
        assert_eq!(app(3, 2).answers(2), 7, "who is refused gets no report");
    }
}
