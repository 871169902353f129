//! Streams of every kind.

use crate::{failed, until};
use sidestep::error::Problem;
use sidestep::stream::blocking::{self, Listener, Refusals};
use sidestep::stream::shm::{self, Kind, RING_BYTES_MAX, RING_BYTES_MIN, Settings, ShmLink, Users};
use sidestep::stream::{self, Connecting, Endpoint, Io, KernelLink, Script, Stream, UringLink, XdpStream};
use sidestep::stream::{Address, Backend, Credentials, Link, Options, Waiting, connect, is_retry, send_all};
use std::time::Duration;

pub fn run() -> Result<(), Problem> {
    let timeout = Duration::from_secs(2);
    let options = Options { waiting: Waiting::Spin, backend: Backend::Kernel, timeout, ..Options::default() };
    one_thread(&options)?;
    let listener = Listener::bind(&Address::Tcp(([127, 0, 0, 1], 0).into()), &options)?;
    let address = listener.address().map_err(|error| failed("address", error))?;
    let mut client = connect(&address, &options)?;
    let accepted = listener.accept(options.timeout).map_err(|error| failed("accept", error))?;
    let blocking::Accepted { link: mut server, credentials, .. } = accepted;
    assert!(credentials.is_none());
    send_all(client.as_mut(), b"ping").map_err(|error| failed("send", error))?;
    assert_eq!(receive(server.as_mut())?, b"ping");
    let Refusals { count, .. } = listener.refusals();
    assert_eq!(count, 0);
    shared_memory(&options)
}

/// A listener and a connection in one loop, which never waits.
fn one_thread(options: &Options) -> Result<(), Problem> {
    let mut io = Io::default();
    let mut listener = stream::Listener::bind(&mut io, &Endpoint::parse("127.0.0.1:0")?, options)?;
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
    let stream::Accepted { stream: mut server, .. } =
        until("a connection", || listener.accept(&mut io).map_err(|error| failed("accept", error)))?;
    assert_eq!(client.write(&mut io, b"ping").map_err(|error| failed("write", error))?, 4);
    let count = until("a message", || match server.receive_with(&mut io, &mut |bytes| bytes.len()) {
        Ok(count) => Ok(Some(count)),
        Err(error) if is_retry(&error) => Ok(None),
        Err(error) => Err(failed("receive", error)),
    })?;
    assert_eq!(count, 4);
    Ok(())
}

fn receive(link: &mut dyn Link) -> Result<Vec<u8>, Problem> {
    let mut buffer = [0; 64];
    until("a message", || match link.recv(&mut buffer) {
        Ok(count) => Ok(Some(buffer[..count].to_vec())),
        Err(error) if is_retry(&error) => Ok(None),
        Err(error) => Err(failed("receive", error)),
    })
}

fn shared_memory(options: &Options) -> Result<(), Problem> {
    let path = std::env::temp_dir().join(format!("outside-{}", std::process::id()));
    let settings = Settings { kind: Kind::Stream, ring_bytes: RING_BYTES_MIN, users: Users::Same };
    assert!(settings.ring_bytes <= RING_BYTES_MAX && settings.users.allow(0));
    let listener = Listener::bind_shm(&path, settings.clone(), options)?;
    let other = (path.clone(), settings, *options);
    let client = std::thread::spawn(move || {
        let mut link = shm::connect(&other.0, &other.1, &other.2)?;
        send_all(link.as_mut(), b"ping").map_err(|error| failed("send", error))
    });
    let mut accepted = listener.accept(options.timeout).map_err(|error| failed("accept", error))?;
    let peer: Option<Credentials> = accepted.credentials.take();
    assert!(peer.is_some());
    assert_eq!(receive(accepted.link.as_mut())?, b"ping");
    client.join().expect("the client does not panic")
}

/// Types that only rarer calls name.
const _: Option<(ShmLink, KernelLink, UringLink, XdpStream, Box<dyn Script>)> = None;
