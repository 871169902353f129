//! An acceptor for tests: a thread that acknowledges and fills, or does it wrong.

use super::inbox::Inbox;
use super::message::{SOH, checksum};
use super::{Acceptor, Reach};
use sidestep_socket::stream::Endpoint;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

/// The fault of the acceptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    None,
    /// Acknowledges and does not fill.
    NoFill,
    /// Fills before it acknowledges.
    Order,
    /// Its sequence numbers have a hole.
    Gap,
    /// Rejects every order.
    Reject,
}

/// Starts one; its thread lives as long as the test.
pub(super) fn start(name: &str, fault: Fault) -> Acceptor {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it is bound");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || serve(stream, fault));
        }
    });
    Acceptor {
        name: name.into(),
        reach: Reach::Plain(Endpoint::from(address)),
        pid: None,
        description: "a toy".into(),
        beside: Vec::new(),
    }
}

fn serve(mut stream: TcpStream, fault: Fault) {
    let (mut inbox, mut sequence) = (Inbox::new(), 0);
    stream.set_nodelay(true).expect("it is TCP");
    while let Ok(count @ 1..) = stream.read(inbox.spare()) {
        inbox.filled(count);
        while let Some(place) = inbox.next().expect("the client speaks FIX") {
            let frame = inbox.frame(&place);
            assert_eq!((frame.number(34), frame.is_sound()), (Some(place.index), true), "{frame}");
            let mut out = Vec::new();
            let mut answer = |kind: &str, fields: &str| {
                sequence += if fault == Fault::Gap && sequence == 3 { 2 } else { 1 };
                out.extend(message(kind, sequence, fields));
            };
            let of = |tag| String::from_utf8_lossy(frame.field(tag).unwrap_or_default()).into_owned();
            let (ack, fill) = (format!("11={}|150=0|", of(11)), format!("11={}|150=F|", of(11)));
            match (place.kind, fault) {
                (b'A', _) => answer("A", "98=0|108=60|141=Y|"),
                (b'5', _) => answer("5", ""),
                (b'1', _) => answer("0", &format!("112={}|", of(112))),
                (_, Fault::Reject) => answer("j", "58=no|"),
                (_, Fault::Order) => [fill, ack].iter().for_each(|report| answer("8", report)),
                (_, Fault::NoFill) => answer("8", &ack),
                (_, Fault::None | Fault::Gap) => [ack, fill].iter().for_each(|report| answer("8", report)),
            }
            if stream.write_all(&out).is_err() || place.kind == b'5' {
                return;
            }
        }
        inbox.release();
    }
}

fn message(kind: &str, sequence: u64, fields: &str) -> Vec<u8> {
    let body = format!("35={kind}|34={sequence}|49=EXCHANGE|56=BENCH001|{fields}");
    let mut bytes = format!("8=FIX.4.4|9={}|{body}", body.len()).replace('|', "\u{1}").into_bytes();
    let sum = checksum(&bytes);
    bytes.extend(format!("10={sum:03}").bytes());
    bytes.push(SOH);
    bytes
}
