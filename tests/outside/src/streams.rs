//! Streams and datagrams of every kind.

use crate::{failed, until};
use sidestep::datagram::{
    self, DatagramSocket, KernelDatagrams, ShmDatagrams, ShmListener, UdpPort, UringDatagrams, XdpDatagrams,
};
use sidestep::error::Problem;
use sidestep::stream::shm::{RING_BYTES_MAX, RING_BYTES_MIN, Refusals, Settings, Users};
use sidestep::stream::{Accepted, Backend, Connecting, Credentials, Endpoint, Io, Listener, Options, Script, Stream};
use sidestep::stream::{KernelStream, ShmStream, UringStream, Waiting, XdpStream, connect, connect_shm};
use sidestep::stream::{is_out_of_descriptors, is_retry};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

pub fn run() -> Result<(), Problem> {
    let timeout = Duration::from_secs(2);
    let options = Options { waiting: Waiting::Spin, backend: Backend::Kernel, timeout, ..Options::default() };
    one_thread(&options)?;
    in_the_call(&Options { waiting: Waiting::Block, ..options })?;
    datagrams(&options)?;
    shared_memory(&options)
}

/// A listener and a connection in one loop, which never waits.
fn one_thread(options: &Options) -> Result<(), Problem> {
    let mut io = Io::default();
    let mut listener = Listener::bind(&mut io, &Endpoint::parse("127.0.0.1:0")?, options)?;
    let mut connecting = Some(Connecting::begin(&mut io, listener.endpoint(), options)?);
    let mut client: Stream = until("a connection", || {
        let Some(attempt) = connecting.take() else { return Ok(None) };
        match attempt.poll(&mut io, options).map_err(|error| failed("connect", error))? {
            Connecting::Ready(stream) => Ok(Some(stream)),
            pending => {
                connecting = Some(pending);
                Ok(None)
            }
        }
    })?;
    let Accepted { stream: mut server, .. } = until("a connection", || match listener.accept(&mut io) {
        // Others may give theirs up.
        Err(error) if is_out_of_descriptors(&error) => Ok(None),
        accepted => accepted.map_err(|error| failed("accept", error)),
    })?;
    assert_eq!(client.write(&mut io, b"ping").map_err(|error| failed("write", error))?, 4);
    let count = until("a message", || match server.receive_with(&mut io, &mut |bytes| bytes.len()) {
        Ok(count) => Ok(Some(count)),
        Err(error) if is_retry(&error) => Ok(None),
        Err(error) => Err(failed("receive", error)),
    })?;
    assert_eq!(count, 4);
    Ok(())
}

/// The same by calls that wait.
fn in_the_call(options: &Options) -> Result<(), Problem> {
    let mut io = Io::default();
    let mut listener = Listener::bind(&mut io, &Endpoint::from(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))), options)?;
    let mut client = connect(&mut io, listener.endpoint(), options)?;
    let accepted = listener.accept_within(&mut io, options.timeout).map_err(|error| failed("accept", error))?;
    let Accepted { stream: mut server, peer, credentials } = accepted;
    assert!(peer.is_some() && credentials.is_none());
    client.write_all(&mut io, b"ping").map_err(|error| failed("send", error))?;
    let mut buffer = [0; 64];
    assert_eq!(server.read(&mut io, &mut buffer).map_err(|error| failed("read", error))?, 4);
    let Refusals { count, .. } = listener.refusals();
    assert_eq!(count, 0);
    Ok(())
}

fn datagrams(options: &Options) -> Result<(), Problem> {
    let mut io = Io::default();
    let bind = || UdpPort::bind((Ipv4Addr::LOCALHOST, 0).into());
    let local = |port: &UdpPort| port.local().map_err(|error| failed("name the port", error));
    let (one, two) = (bind()?, bind()?);
    let (at_one, at_two) = (local(&one)?, local(&two)?);
    let (mut one, mut two): (DatagramSocket, DatagramSocket) =
        (one.connect(at_two, options)?, two.connect(at_one, options)?);
    one.send(&mut io, b"ping").map_err(|error| failed("send", error))?;
    let mut buffer = [0; 64];
    let count = until("a datagram", || match two.receive(&mut io, &mut buffer) {
        Err(error) if is_retry(&error) => Ok(None),
        received => received.map(Some).map_err(|error| failed("receive", error)),
    })?;
    assert_eq!(count, 4);

    let path = std::env::temp_dir().join(format!("outside-datagrams-{}", std::process::id()));
    let mut listener = ShmListener::bind(&path, Settings::default(), options)?;
    let mut client = datagram::connect_shm(&path, &Settings::default(), options)?;
    client.send(&mut io, b"ping").map_err(|error| failed("send", error))?;
    let (mut server, _) = listener.accept_within(options.timeout).map_err(|error| failed("accept", error))?;
    assert_eq!(server.receive(&mut io, &mut buffer).map_err(|error| failed("receive", error))?, 4);
    Ok(())
}

fn shared_memory(options: &Options) -> Result<(), Problem> {
    let path = std::env::temp_dir().join(format!("outside-{}", std::process::id()));
    let settings = Settings { ring_bytes: RING_BYTES_MIN, users: Users::Same };
    assert!(settings.ring_bytes <= RING_BYTES_MAX && settings.users.allow(0));
    let mut listener = Listener::bind_shm(&path, settings.clone(), options)?;
    let other = (path.clone(), settings, *options);
    let client = std::thread::spawn(move || {
        let mut stream = connect_shm(&other.0, &other.1, &other.2)?;
        stream.write_all(&mut Io::default(), b"ping").map_err(|error| failed("send", error))
    });
    let mut io = Io::default();
    let accepted = listener.accept_within(&mut io, options.timeout).map_err(|error| failed("accept", error))?;
    let Accepted { mut stream, credentials, .. } = accepted;
    let peer: Option<Credentials> = credentials;
    assert!(peer.is_some());
    let mut buffer = [0; 64];
    let count = until("a message", || match stream.read(&mut io, &mut buffer) {
        Err(error) if is_retry(&error) => Ok(None),
        read => read.map(Some).map_err(|error| failed("read", error)),
    })?;
    assert_eq!(count, 4);
    client.join().expect("the client does not panic")
}

/// Types that only rarer calls name.
const _: Option<(ShmStream, KernelStream, UringStream, XdpStream, Box<dyn Script>)> = None;
const _: Option<(ShmDatagrams, KernelDatagrams, UringDatagrams, XdpDatagrams)> = None;
