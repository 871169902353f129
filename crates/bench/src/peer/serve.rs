//! `sidestep bench serve`: a peer for measuring ends on other machines.
//!
//! Anybody who reaches the port can have messages answered to their own address, for a bounded time: one session at a time
//! (more if allowed), messages up to 64 KiB, slices of a minute, sessions closed after half a minute of silence. Answers go
//! only to the address of the control connection, which its TCP handshake has proved; no more is sent than was received, and
//! no file or command is touched. Flags grant further rights ([`Allowed`]): streams, the choice of the CPU, the
//! host's name.

use super::allowed::Allowed;
use super::control::Control;
use super::protocol::{Reply, Request};
use super::session::{Origin, run};
use crate::bypass::{Consent, Keeper};
use sidestep_sys::Problem;
use socket2::{Domain, Socket, Type};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// Interval at which the listener checks whether it should stop.
const LOOK_UP: Duration = Duration::from_millis(200);
/// Connections beyond the sessions that get a refusal; further ones are closed at once.
const TURNED_AWAY_MAX: usize = 16;
/// Time that a refused connection has for its greeting.
const GREETING_MAX: Duration = Duration::from_secs(1);

/// The options of `bench serve`.
#[derive(Clone, Debug)]
pub struct Serve {
    /// Address to listen on.
    pub listen: SocketAddr,
    /// CPU for pinned paths.
    pub cpu: u32,
    /// Concurrent sessions.
    pub sessions: usize,
    /// Rights of the clients.
    pub allowed: Allowed,
    /// What this end may do past the kernel for them.
    pub consent: Consent,
}

/// Serves until `stop`; `say` gets a line for each event.
pub fn serve(options: &Serve, stop: &AtomicBool, say: impl Fn(String) + Send + Sync + 'static) -> Result<(), Problem> {
    let listener = listen(options.listen).map_err(|error| {
        Problem::failed(format!("cannot listen on {}", options.listen), error).next("choose another --listen address")
    })?;
    let address = listener.local_addr().ok().and_then(|address| address.as_socket()).unwrap_or(options.listen);
    let say = Arc::new(say);
    say(format!(
        "listening on {address}; every host that reaches it can have messages answered to its own address, for a bounded time{}",
        past_kernel(&options.consent)
    ));
    let (running, keeper) = (Arc::new(AtomicUsize::new(0)), Keeper::default());
    while !stop.load(Ordering::Relaxed) {
        let (socket, peer) = match listener.accept() {
            Ok(accepted) => accepted,
            Err(error) => {
                // Without a free descriptor accept(2) fails at once, repeatedly.
                if !sidestep_socket::stream::is_retry(&error) {
                    std::thread::sleep(LOOK_UP);
                }
                continue;
            }
        };
        let peer = peer.as_socket().map_or_else(String::new, |peer| peer.to_string());
        let before = running.fetch_add(1, Ordering::Relaxed);
        let (say, running, options, keeper) = (say.clone(), running.clone(), options.clone(), keeper.clone());
        let counted = running.clone();
        let serve = move || {
            let end = match before {
                few if few < options.sessions => {
                    say(format!("{peer}: connected"));
                    one_session(socket, &options, keeper)
                }
                many if many < options.sessions + TURNED_AWAY_MAX => turn_away(socket),
                _ => Err(Problem::failed("closed without an answer", "too many connections")),
            };
            running.fetch_sub(1, Ordering::Relaxed);
            say(format!("{peer}: {}", end.map_or_else(|problem| problem.brief(), |()| "finished".into())));
        };
        // Without a thread the connection is closed.
        if std::thread::Builder::new().spawn(serve).is_err() {
            counted.fetch_sub(1, Ordering::Relaxed);
        }
    }
    keeper.end();
    Ok(())
}

/// Returns what strangers may cause past the kernel, for the first message.
fn past_kernel(consent: &Consent) -> String {
    match consent {
        Consent::Interface { name, may_start: false } => {
            format!(", past the kernel on {name} by the control plane that runs")
        }
        Consent::Interface { name, may_start: true } => {
            format!(", past the kernel on {name}: it can have XDP programs attached there, and a control plane started")
        }
        Consent::Nothing | Consent::Lab => String::new(),
    }
}

/// Reads the greeting first: closing with it unread would reset the connection, and the refusal would be lost.
fn turn_away(socket: Socket) -> Result<(), Problem> {
    let turn_away = || {
        let mut control = Control::over(socket)?;
        control.recv::<Request>(GREETING_MAX)?;
        let next = "try again when it is free, or start it with more --sessions";
        control.send(&Reply::Refused { reason: "it is busy with another session".into(), next: next.into() })
    };
    turn_away().map_err(|error| Problem::failed("cannot send a refusal", error))?;
    Err(Problem::failed("turned away", "busy"))
}

fn one_session(socket: Socket, options: &Serve, keeper: Keeper) -> Result<(), Problem> {
    let control = Control::over(socket).map_err(|error| Problem::failed("cannot talk", error))?;
    let (local, remote) = control.addresses().ok_or_else(|| Problem::failed("cannot talk", "it has gone"))?;
    let Serve { cpu, allowed, consent, .. } = options.clone();
    let same_host = local == remote;
    run(control, Origin { local, remote, same_host, consent, keeper, by_frames: None, cpu, allowed })
}

fn listen(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(8)?;
    socket.set_read_timeout(Some(LOOK_UP))?;
    Ok(socket)
}
