//! Connects to a server many times, one connection after the other or many at a time, and counts what became of each: for runs of
//! minutes on devices with several queues. The server sends back what it gets, by the kernel; it is this program, too:
//!
//! ```sh
//! connects INTERFACE any|every|0,1,... ADDRESS:PORT COUNT [AT-A-TIME]
//! connects - - ADDRESS:PORT serve
//! ```
//!
//! It ends with 1 if a connection was refused, reset or not answered.

use sidestep_socket::tcp::{Readiness, TcpStream};
use sidestep_socket::{Engine, EngineOptions, Path, Queues};
use std::collections::BTreeMap;
use std::error::Error;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// What a connection may take: several retransmissions, and the wait for a place in the peer's queue.
const PATIENCE: Duration = Duration::from_secs(30);

/// Between two lines of what was done so far.
const REPORT: Duration = Duration::from_secs(5);

/// How often each thing happened.
type Outcomes = BTreeMap<String, u64>;

/// One that is under way.
struct Call {
    stream: TcpStream,
    is_sent: bool,
    since: Instant,
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [interface, queues, to, count, rest @ ..] = &words[..] else {
        return Err("give INTERFACE QUEUES ADDRESS:PORT COUNT [AT-A-TIME]".into());
    };
    let to: SocketAddr = to.parse()?;
    if count == "serve" {
        return serve(to);
    }
    let (count, at_a_time): (u64, usize) = (count.parse()?, rest.first().map_or(Ok(1), |word| word.parse())?);
    let options = EngineOptions { queues: choice(queues)?, ..EngineOptions::on(interface) };
    let mut engine = Engine::open(&options)?;
    if let Some((_, text)) = engine.refusal() {
        println!("by the kernel: {text}");
    }
    println!("queues {:?}, every one: {}", engine.queues(), engine.has_every_queue());
    let outcomes = run(&mut engine, to, count, at_a_time)?;
    println!("{outcomes:?}");
    let is_good = outcomes.keys().all(|outcome| outcome.starts_with("answered"));
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn choice(words: &str) -> Result<Queues, Box<dyn Error>> {
    Ok(match words {
        "any" => Queues::Any,
        "every" => Queues::Every,
        list => Queues::These(list.split(',').map(str::parse).collect::<Result<_, _>>()?),
    })
}

fn run(engine: &mut Engine, to: SocketAddr, count: u64, at_a_time: usize) -> Result<Outcomes, Box<dyn Error>> {
    let options = engine.tcp().defaults();
    let (mut begun, mut calls, mut outcomes) = (0, Vec::new(), Outcomes::new());
    let mut reported = Instant::now();
    while begun < count || !calls.is_empty() {
        if begun < count && calls.len() < at_a_time {
            begun += 1;
            match engine.tcp().connect(to, None, options) {
                Ok(stream) => calls.push(Call { stream, is_sent: false, since: Instant::now() }),
                Err(problem) => *outcomes.entry(format!("not begun: {}", problem.brief())).or_default() += 1,
            }
        }
        engine.poll()?;
        calls.retain_mut(|call| {
            let outcome = advance(engine, call);
            if let Some(outcome) = &outcome {
                *outcomes.entry(outcome.clone()).or_default() += 1;
                // It may have ended already.
                let _ = engine.tcp().close(call.stream);
            }
            outcome.is_none()
        });
        if reported.elapsed() > REPORT {
            reported = Instant::now();
            println!("{begun} begun: {outcomes:?}");
        }
    }
    Ok(outcomes)
}

/// One step of one connection; how it ended, when it has.
fn advance(engine: &mut Engine, call: &mut Call) -> Option<String> {
    let ready = match engine.tcp().readiness(call.stream) {
        Ok(ready) => ready,
        Err(error) => return Some(format!("failed: {error}")),
    };
    if ready.has(Readiness::ERROR) {
        let error = engine.tcp().take_error(call.stream).ok().flatten();
        return Some(error.map_or_else(|| "failed".into(), |error| format!("failed: {error}")));
    }
    if call.since.elapsed() > PATIENCE {
        return Some(if call.is_sent { "not answered".into() } else { "not connected".into() });
    }
    if !call.is_sent {
        call.is_sent = ready.has(Readiness::WRITABLE) && engine.tcp().send(call.stream, b"ping") == Ok(4);
        return None;
    }
    match engine.tcp().read(call.stream, &mut [0; 4]) {
        Ok(4) => Some(match engine.tcp().path(call.stream) {
            Ok(Path::Accelerated { .. }) => "answered past the kernel".into(),
            Ok(Path::Kernel(reason)) => format!("answered by the kernel: {}", reason.name()),
            Err(error) => format!("failed: {error}"),
        }),
        Ok(count) => Some(format!("cut off after {count} bytes of 4")),
        Err(error) if error.is_would_block() => None,
        Err(error) => Some(format!("failed: {error}")),
    }
}

/// The other end, with the kernel's sockets.
fn serve(at: SocketAddr) -> Result<ExitCode, Box<dyn Error>> {
    let listener = TcpListener::bind(at)?;
    for stream in listener.incoming() {
        let mut stream = stream?;
        std::thread::spawn(move || -> std::io::Result<()> {
            let mut buffer = [0; 64];
            loop {
                match stream.read(&mut buffer)? {
                    0 => return Ok(()),
                    count => stream.write_all(&buffer[..count])?,
                }
            }
        });
    }
    Ok(ExitCode::SUCCESS)
}
