//! Transports behind one trait.

use crate::{failed, until};
use sidestep::error::Problem;
use sidestep::stream::shm::{self, Acceptor, Kind, RING_BYTES_MAX, RING_BYTES_MIN, Settings, ShmLink, Users};
use sidestep::stream::{Accepted, Address, Backend, Credentials, Link, Listener, Options, Refusals, Waiting};
use sidestep::stream::{connect, is_retry, send_all};
use std::time::Duration;

pub fn run() -> Result<(), Problem> {
    let options = Options { waiting: Waiting::Spin, backend: Backend::Kernel, timeout: Duration::from_secs(2) };
    let listener = Listener::bind(&Address::Tcp(([127, 0, 0, 1], 0).into()), &options)?;
    let address = listener.address().map_err(|error| failed("address", error))?;
    let mut client = connect(&address, &options)?;
    let accepted = listener.accept(options.timeout).map_err(|error| failed("accept", error))?;
    let Accepted { link: mut server, credentials, .. } = accepted;
    assert!(credentials.is_none());
    send_all(client.as_mut(), b"ping").map_err(|error| failed("send", error))?;
    assert_eq!(receive(server.as_mut())?, b"ping");
    let Refusals { count, .. } = listener.refusals();
    assert_eq!(count, 0);
    shared_memory(&options)
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
const _: Option<(Acceptor, ShmLink)> = None;
