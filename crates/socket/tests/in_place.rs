//! The rules of a [`Stream`], whatever carries it: bytes are shown in order and once, what is not taken is shown again, the end
//! comes last.

use sidestep_socket::stream::{Connecting, Endpoint, Io, Listener, Options, Stream, is_retry};
use std::io;
use std::time::{Duration, Instant};

/// A hang is a failure: far above anything a correct stream takes.
const WATCHDOG: Duration = Duration::from_secs(20);

/// Runs `check` over a connected pair of each kind.
fn over_every_pair(check: impl Fn(&mut Io, Stream, Stream)) {
    let folder = tempfile::tempdir().expect("the folder can be made");
    let path = |kind: &str| format!("{kind}:{}", folder.path().join(kind).display());
    for endpoint in ["127.0.0.1:0".to_owned(), "localhost:0".to_owned(), path("unix"), path("shm")] {
        eprintln!("{endpoint}");
        let mut io = Io::default();
        let (client, server) = pair(&mut io, &Endpoint::parse(&endpoint).expect("an endpoint"));
        check(&mut io, client, server);
    }
}

fn pair(io: &mut Io, endpoint: &Endpoint) -> (Stream, Stream) {
    let options = Options::default();
    let mut listener = Listener::bind(io, endpoint, &options).expect("it can be listened on");
    let mut connecting = Some(Connecting::begin(io, listener.endpoint(), &options).expect("it listens"));
    let mut client = None;
    let server = again(|| {
        if let Some(attempt) = connecting.take() {
            match attempt.poll(io, &options)? {
                Connecting::Ready(stream) => client = Some(stream),
                pending => connecting = Some(pending),
            }
        }
        let accepted = if client.is_some() { listener.accept(io)? } else { None };
        accepted.ok_or_else(|| io::ErrorKind::WouldBlock.into())
    });
    (client.expect("it is connected"), server.expect("it has been connected to").stream)
}

/// Tries again while the answer is "not now".
fn again<T>(mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let begin = Instant::now();
    loop {
        match attempt() {
            Err(error) if is_retry(&error) => assert!(begin.elapsed() < WATCHDOG, "nothing happens"),
            other => return other,
        }
    }
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|index| (index * 31 + index / 251) as u8).collect()
}

#[test]
fn bytes_are_shown_in_order_until_they_are_taken() {
    over_every_pair(|io, mut client, mut server| {
        let (all, mut sent, mut seen) = (pattern(300_000), 0, Vec::new());
        let mut portion = 0;
        again(|| {
            while sent < all.len() {
                match client.write(io, &all[sent..]) {
                    Ok(count) => sent += count,
                    Err(error) if is_retry(&error) => break,
                    Err(error) => return Err(error),
                }
            }
            portion = (portion + 977) % 5000;
            let mut deliver = |bytes: &[u8]| {
                let count = bytes.len().min(portion);
                seen.extend_from_slice(&bytes[..count]);
                count
            };
            match server.receive_with(io, &mut deliver)? {
                0 => panic!("the peer has not finished"),
                _ if seen.len() == all.len() => Ok(()),
                _ => Err(io::ErrorKind::WouldBlock.into()),
            }
        })
        .expect("the stream is up");
        assert!(seen == all);
    });
}

#[test]
fn what_was_shown_and_not_taken_is_read() {
    over_every_pair(|io, mut client, mut server| {
        assert_eq!(client.write(io, b"35=D").expect("there is room"), 4);
        let mut shown = 0;
        let refused = again(|| {
            match server.receive_with(io, &mut |bytes| {
                shown = bytes.len();
                0
            }) {
                Err(error) if shown > 0 => Ok(error),
                other => other.map(|_| unreachable!("nothing was taken")),
            }
        });
        assert!(is_retry(&refused.expect("it is up")));
        assert_eq!(again(|| server.receive_with(io, &mut |_| 2)).expect("it is up"), 2);
        let mut buffer = [0; 8];
        assert_eq!(again(|| server.read(io, &mut buffer)).expect("it is up"), 2);
        assert_eq!(&buffer[..2], b"=D");
        assert!(is_retry(&server.read(io, &mut buffer).expect_err("nothing is left")));
    });
}

#[test]
fn the_end_comes_behind_the_rest() {
    over_every_pair(|io, mut client, mut server| {
        assert_eq!(client.write(io, b"last").expect("there is room"), 4);
        client.close(io).expect("it is connected");
        assert_eq!(again(|| server.receive_with(io, &mut |_| 1)).expect("it is up"), 1);
        assert_eq!(again(|| server.receive_with(io, &mut |bytes| bytes.len())).expect("it is up"), 3);
        let end = again(|| server.receive_with(io, &mut |_| unreachable!("nothing is left")));
        assert_eq!(end.expect("an end is not an error"), 0);
    });
}
