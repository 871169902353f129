//! Two attacks on the engine, with counters, for a duration that the command line gives:
//!
//! ```text
//! cargo run --release -p sidestep-fix --example fault_injection -- loss 600        orders faster than they are read, over
//!                                                                                  every transport, with buffers of any size
//! cargo run --release -p sidestep-fix --example fault_injection -- strangers 600   2,000 strangers, silent and dribbling, from
//!                                                                                  one host and from a thousand, while a
//!                                                                                  counterparty that is known logs on
//! ```
//!
//! Exit code 1: a report was lost or came twice; the counterparty took longer than a second.

use fastrand::Rng;
use sidestep_fix::decode::Message;
use sidestep_fix::engine::{Destinations, Endpoint, Engine, SessionPlan, SocketOptions};
use sidestep_fix::exchange::Exchange;
use sidestep_fix::session::{Application, End, Outbox, Refusal, Role, SendError, SessionId, SessionSettings};
use sidestep_sys::idle::IdleStrategy;
use socket2::{Domain, Socket, Type};
use std::error::Error;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const SAY_EVERY: Duration = Duration::from_secs(10);
/// What a Logon may take, and a round without a report, before it is called lost: buffers of 4 KiB make TCP slow, not lossy.
const PATIENCE: Duration = Duration::from_secs(60);
/// The duration beyond which a round is reported.
const SLOW: Duration = Duration::from_secs(5);
/// What the counterparty may take to get in.
const LOGON_MAX: Duration = Duration::from_secs(1);
const STRANGERS: usize = 1000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (attack, seconds) = (arguments.next().unwrap_or_default(), arguments.next().unwrap_or_default());
    let end =
        Instant::now() + Duration::from_secs(seconds.parse().map_err(|_| "write: loss SECONDS, or strangers SECONDS")?);
    let good = match attack.as_str() {
        "loss" => loss(end)?,
        "strangers" => strangers(end)?,
        _ => return Err("write: loss SECONDS, or strangers SECONDS".into()),
    };
    if good { Ok(()) } else { Err("the attack succeeded".into()) }
}

/// Counts reports, and MsgSeqNums that do not follow each other.
#[derive(Default)]
struct Client {
    reports: u64,
    last: u64,
    out_of_order: u64,
    rooms: u64,
    ends: Vec<End>,
}

impl Application for Client {
    fn on_logout(&mut self, _: &SessionId, why: End) {
        self.ends.push(why);
    }

    fn on_room(&mut self, _: &mut dyn Outbox) {
        self.rooms += 1;
    }

    fn from_app(&mut self, message: &Message<'_, '_>, _: &mut dyn Outbox) -> Result<(), Refusal> {
        let number = message.seq_num()?;
        self.out_of_order += u64::from(number <= self.last);
        self.last = number;
        self.reports += 1;
        Ok(())
    }
}

fn plan(role: Role) -> SessionPlan {
    let id = SessionId::new("FIX.4.4", "CLIENT", "EXCHANGE");
    let id = if role == Role::Initiator { id } else { id.reversed() };
    let mut settings = SessionSettings::new(role, id);
    settings.reset_on_logon = true;
    SessionPlan::new(settings)
}

#[derive(Default, Debug)]
struct Losses {
    rounds: u64,
    orders: u64,
    reports: u64,
    missing: u64,
    out_of_order: u64,
    unanswered: u64,
    refused: u64,
    told_of_room: u64,
}

fn loss(end: Instant) -> Result<bool, Box<dyn Error>> {
    let (mut random, mut total, mut said) = (Rng::new(), Losses::default(), Instant::now());
    while Instant::now() < end {
        round(&mut random, &mut total)?;
        if said.elapsed() >= SAY_EVERY {
            println!("{total:?}");
            said = Instant::now();
        }
    }
    println!("{total:?}");
    Ok(total.missing + total.out_of_order + total.unanswered == 0)
}

/// One connection: so many orders in batches, while either side stops polling now and then.
fn round(random: &mut Rng, total: &mut Losses) -> Result<(), Box<dyn Error>> {
    let folder = std::env::temp_dir().join(format!("fault-injection-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let endpoint = match random.u8(..3) {
        0 => Endpoint::parse("127.0.0.1:0")?,
        1 => Endpoint::Unix(folder.join("fix.sock")),
        _ => Endpoint::Shm(folder.join("fix.shm")),
    };
    let bytes = [1, 100, 5_000, 128 << 10, 1 << 20][random.usize(..5)];
    let (mut accepting, mut connecting) = (plan(Role::Acceptor), plan(Role::Initiator));
    (accepting.settings.output_bytes_max, connecting.settings.output_bytes_max) = (bytes, bytes);
    let mut options = SocketOptions::default();
    if random.bool() {
        (options.send_buffer, options.receive_buffer) = (Some(4096), Some(4096));
    }
    let mut server = Engine::new(Exchange::default());
    let acceptor = server.listen(&endpoint, None, &options)?;
    server.add_acceptor(acceptor, accepting)?;
    let mut client = Engine::new(Client::default());
    let destinations = Destinations { options, ..Destinations::one(server.endpoint(acceptor).clone()) };
    let handle = client.add_initiator(&connecting, destinations)?;
    let (orders, batch) = (random.u64(1..20_000), random.u64(1..20_000));
    let begun = Instant::now();
    let (mut sent, mut seen, mut limit) = (0, 0, Instant::now() + PATIENCE);
    while client.app().reports < 2 * orders && Instant::now() < limit {
        match random.u8(..8) {
            0 => (0..random.u32(..200)).for_each(|_| _ = server.poll()),
            1 => (0..random.u32(..200)).for_each(|_| _ = client.poll()),
            _ => _ = server.poll() + client.poll(),
        }
        if client.app().reports > seen {
            (seen, limit) = (client.app().reports, Instant::now() + PATIENCE);
        }
        if client.session(handle).is_logged_on() && sent < orders {
            let last = orders.min(sent + batch);
            sent = client.act(handle, |session, now, _| {
                while sent < last {
                    let order = session.send(b"D", now, |order| {
                        order.unsigned(11, sent).str(38, "100").str(40, "1").str(54, "1").str(55, "TEST");
                        order.timestamp(60, now.utc());
                    });
                    match order {
                        Ok(_) => sent += 1,
                        Err(SendError::Full) => {
                            total.refused += 1;
                            break;
                        }
                        Err(_) => break,
                    }
                }
                sent
            });
        }
    }
    let is_lost = client.app().reports < 2 * orders;
    if is_lost || begun.elapsed() > SLOW {
        // The state from which the reason can be found.
        let server_side = server.handles().next().map(|handle| server.session(handle).counters());
        println!(
            "{} after {:?}: {endpoint}, {options:?}, SlowConsumerBytes {bytes}, {orders} orders, batches of {batch}, {sent} sent, {} reports; {:?}; {} {:?}; {server_side:?}",
            if is_lost { "lost" } else { "slow" },
            begun.elapsed(),
            client.app().reports,
            client.app().ends,
            client.session(handle).takes_input(),
            client.session(handle).counters(),
        );
    }
    total.rounds += 1;
    total.orders += sent;
    total.reports += client.app().reports;
    total.missing += (2 * orders).saturating_sub(client.app().reports);
    total.out_of_order += client.app().out_of_order;
    total.unanswered += server.app().unanswered();
    total.told_of_room += client.app().rooms;
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}

fn strangers(end: Instant) -> Result<bool, Box<dyn Error>> {
    let stop = Arc::new(AtomicBool::new(false));
    let mut server = Engine::new(Exchange::default());
    let acceptor = server.listen(&Endpoint::parse("127.0.0.1:0")?, None, &SocketOptions::default())?;
    server.add_acceptor(acceptor, plan(Role::Acceptor))?;
    let endpoint = server.endpoint(acceptor).clone();
    let Endpoint::Tcp { port, .. } = endpoint else { return Err("it is TCP".into()) };
    let stopped = Arc::clone(&stop);
    let serving = std::thread::spawn(move || {
        let run = server.run(&stopped, IdleStrategy::PARK);
        (run, server.refusals())
    });
    log_on(&endpoint)?;
    let came = Arc::new(AtomicU64::new(0));
    let crowds: Vec<_> = [(false, false), (true, true)]
        .into_iter()
        .map(|(dribbles, from_everywhere)| {
            let (stop, came) = (Arc::clone(&stop), Arc::clone(&came));
            std::thread::spawn(move || crowd(port, (dribbles, from_everywhere), &stop, &came))
        })
        .collect();
    let (mut longest, mut sum, mut count, mut late) = (Duration::ZERO, Duration::ZERO, 0_u32, 0_u32);
    let mut said = Instant::now();
    while Instant::now() < end {
        let took = log_on(&endpoint)?;
        (longest, sum, count) = (longest.max(took), sum + took, count + 1);
        late += u32::from(took > LOGON_MAX);
        if said.elapsed() >= SAY_EVERY {
            println!(
                "{count} Logons, mean {:?}, longest {longest:?}, {late} late; {} strangers came",
                sum / count,
                came.load(Ordering::Relaxed)
            );
            said = Instant::now();
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    stop.store(true, Ordering::Relaxed);
    crowds.into_iter().for_each(|thread| drop(thread.join()));
    let (run, refusals) = serving.join().map_err(|_| "the engine's thread broke")?;
    run?;
    println!(
        "{count} Logons, mean {:?}, longest {longest:?}, {late} late; {} strangers came; {refusals:?}",
        sum / count.max(1),
        came.load(Ordering::Relaxed)
    );
    Ok(late == 0)
}

/// Connects from an address of its own, logs on and out again; how long the first took.
fn log_on(to: &Endpoint) -> Result<Duration, Box<dyn Error>> {
    let start = Instant::now();
    let mut client = Engine::new(Client::default());
    let mut destinations = Destinations::one(to.clone());
    destinations.reconnect_interval = Duration::from_millis(100);
    destinations.options.local = Some(SocketAddr::from((Ipv4Addr::new(127, 0, 0, 2), 0)));
    let handle = client.add_initiator(&plan(Role::Initiator), destinations)?;
    while !client.session(handle).is_logged_on() {
        if client.poll() == 0 {
            client.sleep(Duration::from_millis(5))?;
        }
        if start.elapsed() > PATIENCE {
            return Err(format!("no Logon at all: {}", client.last_connect_error(handle)).into());
        }
    }
    let took = start.elapsed();
    client.shut_down("", Duration::from_secs(2));
    Ok(took)
}

fn crowd(port: u16, (dribbles, from_everywhere): (bool, bool), stop: &AtomicBool, came: &AtomicU64) {
    let mut strangers: Vec<Option<Socket>> = (0..STRANGERS).map(|_| None).collect();
    while !stop.load(Ordering::Relaxed) {
        for (number, stranger) in strangers.iter_mut().enumerate() {
            if stranger.as_ref().is_none_or(|socket| !stays(socket, dribbles)) {
                *stranger = knock(port, from_everywhere.then_some(number));
                came.fetch_add(u64::from(stranger.is_some()), Ordering::Relaxed);
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn knock(port: u16, number: Option<usize>) -> Option<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).ok()?;
    socket.set_nonblocking(true).ok()?;
    if let Some(number) = number {
        let from = Ipv4Addr::new(127, 1 + u8::try_from(number % 250).ok()?, u8::try_from(number / 250).ok()?, 1);
        socket.bind(&SocketAddr::from((from, 0)).into()).ok()?;
    }
    // It is on its way; whether it arrives is seen later.
    let _ = socket.connect(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)).into());
    let _ = (&socket).write(b"8=FIX.4.4\x019=100\x0135=A\x01");
    Some(socket)
}

fn stays(mut socket: &Socket, dribbles: bool) -> bool {
    let waits = |error: std::io::Error| {
        matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::NotConnected)
    };
    if dribbles && socket.write(b"x").is_err_and(|error| !waits(error)) {
        return false;
    }
    socket.read(&mut [0; 64]).map_or_else(waits, |count| count > 0)
}
