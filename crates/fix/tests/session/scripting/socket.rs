//! An engine at the other end of real sockets, in real time.

use super::echo::Echo;
use super::parse::Action;
use super::run::Host;
use sidestep_fix::engine::{Endpoint, Engine, Handle, SessionPlan, SocketOptions};
use sidestep_fix::store::Store;
use sidestep_fix::value::Precision;
use sidestep_fix::{Framer, Now};
use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// How long a script waits: the longest silence of the suite is below ten seconds.
const WAIT: Duration = Duration::from_secs(20);

/// How long the engine sleeps when there is nothing to do.
const IDLE: Duration = Duration::from_micros(200);

/// Time for what was sent to be read and answered before the next line: some scripts send twice and expect once.
const SETTLE: Duration = Duration::from_millis(3);

pub(crate) struct SocketHost {
    engine: Engine<Echo>,
    session: Handle,
    address: String,
    connections: HashMap<u8, Connection>,
}

struct Connection {
    stream: TcpStream,
    framer: Framer,
    open: bool,
}

impl SocketHost {
    pub(crate) fn new(plan: SessionPlan) -> Self {
        let mut engine = Engine::new(Echo::default());
        let anywhere = Endpoint::parse("127.0.0.1:0").expect("it is an address");
        let acceptor = engine.listen(&anywhere, None, &SocketOptions::default()).expect("loopback can be listened on");
        let session = engine.add_acceptor(acceptor, plan).expect("the settings are good");
        let address = engine.endpoint(acceptor).to_string();
        Self { engine, session, address, connections: HashMap::new() }
    }

    /// Lets the engine work until nothing happens for a while.
    fn settle(&mut self) {
        let mut quiet = Instant::now();
        while quiet.elapsed() < SETTLE {
            if self.engine.poll() > 0 {
                quiet = Instant::now();
            } else {
                std::thread::sleep(IDLE);
            }
        }
    }
}

impl Connection {
    /// The next message that is there.
    fn take(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some(message) = self.framer.next().expect("an engine writes messages") {
                return Some(message.to_vec());
            }
            match self.stream.read(self.framer.spare()) {
                Ok(0) => self.open = false,
                Ok(count) => {
                    self.framer.filled(count);
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) => self.open = false,
            }
            return None;
        }
    }
}

impl Host for SocketHost {
    fn connect(&mut self, id: u8) {
        let stream = TcpStream::connect(&self.address).expect("the engine listens");
        stream.set_nonblocking(true).expect("sockets can");
        stream.set_nodelay(true).expect("sockets can");
        self.connections.insert(id, Connection { stream, framer: Framer::default(), open: true });
        self.settle();
    }

    fn disconnect(&mut self, id: u8) {
        self.connections.remove(&id);
        self.settle();
    }

    fn send(&mut self, id: u8, bytes: &[u8]) {
        let connection = self.connections.get_mut(&id).expect("it is connected");
        // A disconnect shows as a failure of the next expected message.
        let sent = connection.stream.write_all(bytes);
        connection.open &= sent.is_ok();
        self.settle();
    }

    fn is_open(&mut self, id: u8) -> bool {
        self.connections.get(&id).is_some_and(|connection| connection.open)
    }

    fn time(&self, shift: i64) -> String {
        let mut text = [0; 27];
        let mut now = Now::system();
        now.utc_ns += shift * 1_000_000_000;
        let length = now.utc().write(Precision::Seconds, &mut text);
        String::from_utf8_lossy(&text[..length]).into_owned()
    }

    fn wait_message(&mut self, id: u8) -> Option<Vec<u8>> {
        let begun = Instant::now();
        loop {
            let connection = self.connections.get_mut(&id)?;
            let message = connection.take();
            if message.is_some() || !connection.open || begun.elapsed() > WAIT {
                return message;
            }
            if self.engine.poll() == 0 {
                std::thread::sleep(IDLE);
            }
        }
    }

    fn set_number(&mut self, outbound: bool, next: u64) {
        self.engine.act(self.session, |session, _, _| {
            let store = session.store_mut();
            let set = if outbound { store.set_next_outbound(next) } else { store.record_inbound(next) };
            set.expect("memory does not fail");
        });
    }

    fn own(&mut self, _: u8, action: &Action) -> Result<(), String> {
        Err(format!("over sockets nobody knows {action:?}"))
    }
}
