//! The operator's requests to a running engine, over a Unix socket: lists, numbers, a reset.
//!
//! A thread beside the engine talks to the operators, one request a connection, so that a slow operator delays neither the engine nor others. The
//! engine answers between two polls. Requests are lines:
//!
//! | line | answer |
//! |---|---|
//! | `sessions` | one line of JSON for each session |
//! | `metrics` | Prometheus' text |
//! | `reset SESSION` | both numbers become 1: by a Logon where one is connected |
//! | `set SESSION OUT IN` | the next numbers, while the session is not connected |
//! | `logout SESSION` | a Logout |
//!
//! An answer begins with `ok` or `error`, on a line of its own; behind an error stands why, and on the next line what to do.

use super::core::{Engine, Handle};
use super::request::Request;
use crate::metrics::{Snapshot, Strangers, render, render_strangers};
use crate::session::{Application, Phase};
use crate::store::Store;
use sidestep_metrics::http;
use sidestep_socket::stream::{SocketFile, is_out_of_descriptors};
use sidestep_sys::{Problem, unix_socket};
use socket2::{Domain, SockAddr, Socket, Type};
use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::time::{Duration, Instant};

/// The longest time for an operator's request and for reading the answer.
const TALK_MAX: Duration = Duration::from_secs(2);
/// Operators that wait to be accepted.
const BACKLOG: i32 = 16;
/// Before the next try to accept an operator when there are no descriptors left.
const REST: Duration = Duration::from_millis(50);
/// The longest request, bytes.
const REQUEST_BYTES_MAX: u64 = 4096;
/// The longest answer taken by [`ask`], bytes: metrics of a thousand sessions.
const ANSWER_BYTES_MAX: u64 = 16 << 20;

/// The queue of requests. Its thread lives as long as the process.
#[derive(Debug)]
pub struct AdminSocket {
    requests: Receiver<Request>,
    /// Removed with the engine.
    file: Option<SocketFile>,
    /// The address of an HTTP listener.
    pub address: Option<SocketAddr>,
}

/// Asks an engine of the same process, from another thread.
#[derive(Debug)]
pub struct Asker(Sender<Request>);

impl Asker {
    /// The engine's answer, with its first line.
    ///
    /// # Errors
    /// The engine is gone, or does not poll.
    pub fn ask(&self, request: &str) -> io::Result<String> {
        pass_on(&self.0, request)
    }
}

impl AdminSocket {
    /// For another thread of this process.
    pub fn local() -> (Self, Asker) {
        let (sender, requests) = channel();
        (Self { requests, file: None, address: None }, Asker(sender))
    }

    /// Listens on a Unix socket that this user alone may connect to.
    ///
    /// # Errors
    /// The path cannot be had, or others could put something else in its place.
    pub fn unix(path: &Path) -> Result<Self, Problem> {
        let fail = |error: io::Error| {
            let next = match error.kind() {
                ErrorKind::AddrInUse => "end the engine that listens there, or choose another path",
                _ => "choose a path in a folder that only this user can write to",
            };
            Problem::failed(format!("cannot listen on {}", path.display()), error).next(next)
        };
        let listener = UnixListener::from(unix_socket::listen(path, unix_socket::Kind::Stream, BACKLOG).map_err(fail)?);
        listener.set_nonblocking(false).map_err(fail)?;
        let file = Some(SocketFile::at(path).map_err(fail)?);
        let (sender, requests) = channel();
        let work = move || {
            for stream in listener.incoming() {
                // An operator who has gone away needs no answer.
                let _ = stream.and_then(|stream| talk(&stream, &sender)).inspect_err(rest);
            }
        };
        std::thread::Builder::new().name("fix-admin".into()).spawn(work).map_err(fail)?;
        Ok(Self { requests, file, address: None })
    }

    /// Answers HTTP's GET with the metrics, whatever the path.
    ///
    /// # Errors
    /// The address cannot be had.
    pub fn http(address: SocketAddr) -> Result<Self, Problem> {
        let (listener, local) = http::listen(address)?;
        let (sender, requests) = channel();
        let render = move || {
            let answer = pass_on(&sender, "metrics")?;
            Ok(answer.strip_prefix("ok\n").map(str::to_owned).unwrap_or(answer))
        };
        let work = move || http::serve(&listener, render);
        let started = std::thread::Builder::new().name("fix-metrics".into()).spawn(work);
        started.map_err(|error| {
            Problem::failed("cannot serve metrics", error).next("raise the limit of processes: ulimit -u")
        })?;
        Ok(Self { requests, file: None, address: Some(local) })
    }
}

/// Out of descriptors, accepting fails at once, again and again: the thread waits for better times.
fn rest(error: &io::Error) {
    if is_out_of_descriptors(error) {
        std::thread::sleep(REST);
    }
}

/// Reads until a deadline: an operator that sends a byte now and then must not delay the others.
struct Until<'a, S> {
    stream: &'a S,
    set_timeout: fn(&S, Option<Duration>) -> io::Result<()>,
    end: Instant,
}

impl<S> Read for Until<'_, S>
where
    for<'s> &'s S: Read,
{
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        (self.set_timeout)(self.stream, Some(left))?;
        let mut stream = self.stream;
        stream.read(buffer)
    }
}

fn talk(stream: &UnixStream, engine: &Sender<Request>) -> io::Result<()> {
    stream.set_write_timeout(Some(TALK_MAX))?;
    let from = Until { stream, set_timeout: UnixStream::set_read_timeout, end: Instant::now() + TALK_MAX };
    let mut line = String::new();
    BufReader::new(from.take(REQUEST_BYTES_MAX)).read_line(&mut line)?;
    let answer = pass_on(engine, line.trim())?;
    let mut stream = stream;
    stream.write_all(answer.as_bytes())
}

fn pass_on(engine: &Sender<Request>, line: &str) -> io::Result<String> {
    let (answer, answered) = sync_channel(1);
    let request = Request { line: line.to_owned(), answer };
    engine.send(request).map_err(|_| io::Error::from(ErrorKind::BrokenPipe))?;
    answered.recv_timeout(TALK_MAX).map_err(|_| ErrorKind::TimedOut.into())
}

/// Asks the engine behind the Unix socket `path`; gives what follows `ok`.
///
/// # Errors
/// No engine answers at this path, or the engine refuses.
pub fn ask(path: &Path, request: &str) -> Result<String, Problem> {
    let fail = |error: io::Error| {
        Problem::failed(format!("cannot ask {}", path.display()), error)
            .next("check that `sidestep fix exchange --admin PATH` runs there and is yours")
    };
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None).map_err(fail)?;
    socket.connect(&SockAddr::unix(path).map_err(fail)?).map_err(fail)?;
    socket.set_read_timeout(Some(2 * TALK_MAX)).map_err(fail)?;
    (&socket).write_all(format!("{request}\n").as_bytes()).map_err(fail)?;
    let mut answer = String::new();
    (&socket).take(ANSWER_BYTES_MAX).read_to_string(&mut answer).map_err(fail)?;
    match answer.split_once('\n') {
        Some(("ok", rest)) => Ok(rest.to_owned()),
        Some(("error", words)) => {
            let (why, next) = words.split_once('\n').unwrap_or((words, ""));
            let next = next.trim().trim_start_matches("next: ");
            let problem = Problem::failed(format!("cannot {request}"), why.trim());
            Err(if next.is_empty() { problem } else { problem.next(next) })
        }
        _ => Err(fail(ErrorKind::UnexpectedEof.into())),
    }
}

impl<A: Application> Engine<A> {
    /// Has requests that come in there answered.
    pub fn serve(&mut self, admin: AdminSocket) {
        self.requests.push(admin.requests);
        self.admin_files.extend(admin.file);
    }

    pub(super) fn answer_requests(&mut self) -> usize {
        let mut work = 0;
        for place in 0..self.requests.len() {
            while let Ok(request) = self.requests[place].try_recv() {
                let answer = match self.operate(&request.line) {
                    Ok(text) => format!("ok\n{text}"),
                    Err(why) => format!("error\n{why}\n"),
                };
                let _ = request.answer.try_send(answer);
                work += 1;
            }
        }
        work
    }

    fn operate(&mut self, line: &str) -> Result<String, String> {
        match line.split_once(' ').unwrap_or((line, "")) {
            ("sessions", "") => Ok(self.list()),
            ("metrics", "") => Ok(self.metrics()),
            ("reset", name) => {
                let handle = self.named(name)?;
                let done = self.act(handle, |session, now, app| session.reset(now, app));
                done.map_err(|problem| problem.to_string())?;
                Ok(self.line(handle))
            }
            ("set", rest) => {
                // A name may hold blanks: the numbers are counted from the end.
                let mut words = rest.rsplitn(3, ' ');
                let numbers = [words.next(), words.next()].map(|word| word.and_then(|word| word.parse().ok()));
                let [Some(inbound), Some(outbound)] = numbers else {
                    return Err("write: set SESSION OUT IN".to_owned());
                };
                let handle = self.named(words.next().unwrap_or_default())?;
                self.set_numbers(handle, outbound, inbound)?;
                Ok(self.line(handle))
            }
            ("logout", name) => {
                let handle = self.named(name)?;
                self.log_out(handle, "");
                Ok(self.line(handle))
            }
            _ => Err("the request is not known".to_owned()),
        }
    }

    fn named(&self, name: &str) -> Result<Handle, String> {
        let found = self.handles().find(|handle| self.session(*handle).id().to_string() == name);
        found.ok_or_else(|| format!("there is no session {name}\nname it as `sidestep fix sessions` lists it"))
    }

    fn set_numbers(&mut self, handle: Handle, outbound: u64, inbound: u64) -> Result<(), String> {
        if self.session(handle).phase() != Phase::Disconnected {
            return Err("the session is connected\nlog out first".to_owned());
        }
        if outbound == 0 || inbound == 0 {
            return Err("sequence numbers begin at 1\nname numbers from 1 on".to_owned());
        }
        let done = self.act(handle, |session, _, _| {
            let store = session.store_mut();
            store.set_next_outbound(outbound).and_then(|()| store.record_inbound(inbound)).and_then(|()| store.commit())
        });
        done.map_err(|problem| problem.to_string())
    }

    /// All sessions as Prometheus reads them.
    pub fn metrics(&self) -> String {
        let snapshots: Vec<Snapshot<'_>> = self
            .slots
            .iter()
            .map(|slot| Snapshot {
                session: slot.session.id().to_string(),
                logged_on: slot.session.is_logged_on(),
                next_outbound: slot.session.store().next_outbound(),
                next_inbound: slot.session.store().next_inbound(),
                counters: slot.session.counters(),
                metrics: &slot.metrics,
            })
            .collect();
        let strangers = Strangers { pending: self.crowd.len(), refused: self.refusals().by_reason() };
        render(&snapshots) + &render_strangers(&strangers)
    }

    /// One line of JSON for each session.
    fn list(&self) -> String {
        self.handles().map(|handle| self.line(handle)).collect()
    }

    fn line(&self, handle: Handle) -> String {
        let slot = self.slot(handle);
        let (session, counters) = (&slot.session, slot.session.counters());
        let mut line = String::new();
        let _ = writeln!(
            line,
            "{{\"session\":{},\"phase\":\"{}\",\"peer\":{},\"next_outbound\":{},\"next_inbound\":{},\"sent\":{},\
             \"received\":{},\"logons\":{},\"last_error\":{}}}",
            quoted(&session.id().to_string()),
            phase(session.phase()),
            quoted(slot.peer()),
            session.store().next_outbound(),
            session.store().next_inbound(),
            counters.sent,
            counters.received,
            counters.logons,
            quoted(match slot.failure() {
                Some(_) => &slot.metrics.last_error,
                None if slot.metrics.last_error.is_empty() => self.last_connect_error(handle),
                None => &slot.metrics.last_error,
            }),
        );
        line
    }
}

fn phase(phase: Phase) -> &'static str {
    match phase {
        Phase::Disconnected => "disconnected",
        Phase::LogonExpected => "logon expected",
        Phase::LogonSent => "logon sent",
        Phase::LoggedOn => "logged on",
        Phase::LogoutSent => "logout sent",
    }
}

/// A string of JSON.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            control if control < ' ' => {
                let _ = write!(quoted, "\\u{:04x}", control as u32);
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}
