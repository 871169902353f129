//! Rings in this process, and as two processes would share them.

use crate::failed;
use sidestep::error::Problem;
use sidestep::idle::IdleStrategy;
use sidestep::ring::broadcast::{self, Publisher, Start, Subscriber};
use sidestep::ring::flow::{self, EntryPath, FlowOptions, Packet, QueueStatistics, Statistics, Verdict};
use sidestep::ring::spsc::{self, Batch, Claim, Consumer, Message, Producer, Resume};
use sidestep::ring::{
    Access, Backing, Cell, ClaimError, Deadline, Doorbell, Fault, Flow, Holder, Kind, Loss, Options, Peer, Process,
};
use sidestep::ring::{ReadError, Segment, Side, Stat, WaitError, Waking, layout};

pub fn run() -> Result<(), Problem> {
    let (mut producer, mut consumer): (Producer, Consumer) = spsc::pair(4 << 10, Waking::Barrier)?;
    publish(&mut producer).map_err(|error| failed("publish", error))?;
    let forever: Deadline = None;
    let waited: Result<(), WaitError> = consumer.wait(IdleStrategy::SPIN, forever);
    waited.map_err(|error| failed("wait", error))?;
    for expected in [b"one", b"two"] {
        let message: Message<'_> = consumer.try_read().map_err(|error| failed("read", error))?;
        assert_eq!(&*message, expected);
    }
    assert!(matches!(consumer.peer(), Peer::Present));
    let side: &Side = consumer.side();
    let replaced: Option<Process> = side.replaced();
    assert!(replaced.is_none());
    let small = spsc::pair_of(Cell::Quarter, 4 << 10, Waking::Never)?;
    assert!(small.0.message_bytes_max() >= layout::SMALL_CELL_BYTES);
    several_readers()?;
    packets()?;
    between_processes()
}

fn publish(producer: &mut Producer) -> Result<(), ClaimError> {
    let mut claim: Claim<'_> = producer.try_claim(3)?;
    claim.copy_from_slice(b"one");
    claim.commit();
    let mut batch: Batch<'_> = producer.batch();
    batch.try_push(b"two")?;
    batch.commit();
    Ok(())
}

fn several_readers() -> Result<(), Problem> {
    let (mut publisher, mut subscriber): (Publisher, Subscriber) =
        broadcast::pair_of(Cell::Line, 4 << 10, Waking::Barrier)?;
    publisher.publish(b"tick").map_err(|error| failed("publish", error))?;
    let mut buffer = [0; 64];
    assert_eq!(subscriber.try_read(&mut buffer), Ok(4));
    match subscriber.try_read(&mut buffer) {
        Err(ReadError::Empty) => Ok(()),
        Err(ReadError::Lost(Loss { messages, .. })) => Err(failed("read", format!("{messages} messages are lost"))),
        other => Err(failed("read", format!("{other:?}"))),
    }
}

fn packets() -> Result<(), Problem> {
    let mut reader = flow::Flow::open(&FlowOptions::on("lo").feed("outside").doorbell(true))?;
    let local = "127.0.0.1:0".parse().map_err(|error| failed("parse", error))?;
    let port: flow::EntryId = reader.bind(local, Verdict::Pass)?;
    let path: EntryPath = reader.path(port);
    let to = reader.local(port).ok_or_else(|| failed("bind", path))?;
    let entry = flow::Entry::Listener { protocol: flow::Protocol::Udp, local: to, vlan: None };
    assert!(entry.fault().is_none());
    let sender = std::net::UdpSocket::bind("127.0.0.1:0").map_err(|error| failed("bind", error))?;
    sender.send_to(b"tick", to).map_err(|error| failed("send", error))?;
    reader.wait(IdleStrategy::SPIN_THEN_PARK, None).map_err(|error| failed("wait", error))?;
    let packet: Option<Packet<'_>> = reader.receive();
    assert_eq!(packet.map(|packet| packet.payload()), Some(&b"tick"[..]));
    assert!(Packet::parse(&[0; flow::FACTS_BYTES], sidestep::engine::Checksums::Auto).is_none());
    let statistics: &Statistics = reader.statistics();
    let queues: &[QueueStatistics] = &statistics.queues;
    assert_eq!((statistics.packets(), queues.iter().map(|queue| queue.lost).sum::<u64>()), (1, 0));
    Ok(())
}

fn between_processes() -> Result<(), Problem> {
    let options = Options { kind: Kind::Spsc, cell: Cell::Line, bytes: 4 << 10, waking: Waking::Barrier };
    let segment = Segment::memfd(&options)?;
    let Backing { .. } = segment.backing();
    let descriptor = segment.fd().try_clone_to_owned().map_err(|error| failed("clone", error))?;
    let other = Segment::from_fd(descriptor, Access::ReadWrite)?;
    let (mut producer, mut consumer) = (segment.producer()?, other.consumer(Resume::Unread)?);
    producer.try_send(b"order").map_err(|error| failed("send", error))?;
    assert_eq!(consumer.front(), Ok(&b"order"[..]));
    consumer.release();
    let Stat { written, writer, fault, .. } = segment.stat();
    let (Flow { messages, .. }, Holder { is_closed, .. }): (Flow, Holder) = (written, writer);
    let fault: Option<Fault> = fault;
    assert_eq!((messages, is_closed, fault.is_none()), (1, false, true));
    let shared = Segment::memfd(&Options { kind: Kind::Broadcast, ..options })?;
    let (mut publisher, mut late) = (shared.publisher()?, shared.subscriber(Start::Latest)?);
    publisher.publish(b"tick").map_err(|error| failed("publish", error))?;
    assert_eq!(late.try_read(&mut [0; 64]), Ok(4));
    Ok(())
}

/// A reader that sleeps by a descriptor of the kernel's.
#[allow(dead_code)]
fn with_doorbell(subscriber: &mut Subscriber, doorbell: Doorbell) {
    subscriber.set_doorbell(doorbell);
}
