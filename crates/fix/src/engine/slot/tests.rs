use super::*;
use crate::decode::Message;
use crate::session::{Outbox, Refusal, Role, SessionId, SessionSettings};
use crate::store::{MemoryStore, Store};
use crate::value::Precision;
use sidestep_socket::stream::{Script, Stream};
use socket2::{Domain, Socket, Type};
use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

struct Nobody;

impl Application for Nobody {
    fn from_app(&mut self, _: &Message<'_, '_>, _: &mut dyn Outbox) -> Result<(), Refusal> {
        Ok(())
    }
}

fn complete(body: &str) -> Vec<u8> {
    let mut time = [0; 27];
    let length = Now::system().utc().write(Precision::Seconds, &mut time);
    let body = body.replace("<TIME>", &String::from_utf8_lossy(&time[..length])).replace('|', "\x01");
    let text = format!("8=FIX.4.4\x019={}\x01{body}", body.len());
    let sum = text.bytes().fold(0_u8, u8::wrapping_add);
    format!("{text}10={sum:03}\x01").into_bytes()
}

/// A slot that is connected to the socket given back.
fn connected(store: MemoryStore, io: &mut Io, index: &mut Index) -> (Slot, Socket) {
    let settings = SessionSettings::new(Role::Acceptor, SessionId::new("FIX.4.4", "US", "THEM"));
    let session = Session::new(settings, AnyStore::Memory(store), None, Now::system()).unwrap();
    let (ours, theirs) = Socket::pair(Domain::UNIX, Type::STREAM, None).unwrap();
    theirs.set_nonblocking(true).unwrap();
    let mut slot = Slot::new(session);
    let channel = Channel::plain(Stream::over(ours).unwrap());
    slot.connect(io, index, (channel, Framer::default(), "a test".to_owned()), None, &mut Nobody);
    (slot, theirs)
}

#[test]
fn a_resend_that_goes_on_is_not_slept_over() {
    const MESSAGES: u64 = 1000;
    let mut store = MemoryStore::with_bytes(Now::system().utc_ns, 4 << 20);
    for seq in 1..=MESSAGES {
        let body = format!("35=8|34={seq}|49=US|52=<TIME>|56=THEM|58={}|", "x".repeat(1000));
        store.record_outbound(seq, &complete(&body)).unwrap();
    }
    let (mut io, mut index) = (Io::default(), Index::default());
    let (mut slot, theirs) = connected(store, &mut io, &mut index);
    (&theirs).write_all(&complete("35=A|34=1|49=THEM|52=<TIME>|56=US|98=0|108=30|")).unwrap();
    (&theirs).write_all(&complete("35=2|34=2|49=THEM|52=<TIME>|56=US|7=1|16=0|")).unwrap();
    let (mut chunks, mut buffer) = (0, vec![0; 1 << 20]);
    while slot.session.counters().resent < MESSAGES || slot.session.is_resending() {
        slot.poll(&mut io, &mut index, 0, &mut Nobody);
        if slot.session.is_resending() {
            chunks += 1;
            assert!(slot.wants_write(), "nothing else would wake the engine");
        }
        while (&theirs).read(&mut buffer).is_ok_and(|count| count > 0) {}
    }
    assert!(chunks > 10, "a MiB leaves in chunks of 64 KiB: {chunks}");
}

/// Output that the application itself has filled, and of which nothing is taken: no message has come since, no timer was due.
#[test]
fn who_fills_its_output_itself_gives_way_before_it_is_cut() {
    let mut settings = SessionSettings::new(Role::Initiator, SessionId::new("FIX.4.4", "US", "THEM"));
    settings.output_bytes_max = 1;
    let mut session = Session::new(settings, MemoryStore::new(0), None, Now::default()).unwrap();
    let now = |mono_ns| Now { utc_ns: 0, mono_ns };
    session.connected(now(0), &mut Nobody);
    let (logon, mut index) = (complete("35=A|34=1|49=THEM|52=19700101-00:00:00|56=US|98=0|108=30|"), Index::default());
    session.on_message(&index.decode(&logon).unwrap(), now(0), &mut Nobody);
    session.sent(session.output().len(), now(0));
    for is_taken in [true, false] {
        assert_eq!(session.send(b"D", now(1), |order| _ = order.str(11, "1")).is_ok(), is_taken);
    }
    assert!(!session.takes_input());
    let mut steps = 0;
    while !session.takes_input() {
        let due_ns = session.next_deadline().unwrap();
        session.on_timer(now(due_ns), &mut Nobody);
        assert!(session.ending().is_none() && steps < 3, "{:?} after {due_ns} ns", session.ending());
        steps += 1;
    }
    assert_eq!(session.counters().gave_way, 1);
}

/// A peer that reads nothing, and ends the stream behind what it says.
struct Flood {
    bytes: Vec<u8>,
    taken: Arc<AtomicUsize>,
}

impl Script for Flood {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(ErrorKind::WouldBlock.into())
    }

    fn receive_with(&mut self, deliver: &mut dyn FnMut(&[u8]) -> usize) -> io::Result<usize> {
        let rest = &self.bytes[self.taken.load(Ordering::Relaxed)..];
        if rest.is_empty() {
            return Ok(0);
        }
        let count = deliver(&rest[..rest.len().min(4096)]);
        self.taken.fetch_add(count, Ordering::Relaxed);
        if count == 0 { Err(ErrorKind::WouldBlock.into()) } else { Ok(count) }
    }
}

#[test]
fn bytes_after_the_logout_are_discarded_up_to_the_end_of_the_stream() {
    let mut bytes = complete("35=A|34=1|49=THEM|52=<TIME>|56=US|98=0|108=30|");
    bytes.extend(complete("35=5|34=2|49=THEM|52=<TIME>|56=US|"));
    let heartbeat = complete("35=0|34=3|49=THEM|52=<TIME>|56=US|");
    bytes.extend(heartbeat.repeat((1 << 20) / heartbeat.len()));
    let (length, taken) = (bytes.len(), Arc::new(AtomicUsize::new(0)));
    let settings = SessionSettings::new(Role::Acceptor, SessionId::new("FIX.4.4", "US", "THEM"));
    let session = Session::new(settings, AnyStore::Memory(MemoryStore::new(0)), None, Now::system()).unwrap();
    let (mut slot, mut io, mut index) = (Slot::new(session), Io::default(), Index::default());
    let channel = Channel::plain(Stream::Script(Box::new(Flood { bytes, taken: Arc::clone(&taken) })));
    slot.connect(&mut io, &mut index, (channel, Framer::default(), "a test".to_owned()), None, &mut Nobody);
    while slot.is_connected() {
        slot.poll(&mut io, &mut index, 0, &mut Nobody);
    }
    // Cut for its lingering output, the connection would have ended before that.
    assert_eq!(taken.load(Ordering::Relaxed), length, "the end of the stream was seen");
}
