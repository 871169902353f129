use crate::fault::{ClaimError, ReadError};
use crate::options::Options;
use crate::segment::Segment;
use crate::{Cell, Kind, Waking};

/// The exit code of a forked child that runs `work`, which may neither allocate nor take a lock.
fn in_a_child(work: impl FnOnce() -> bool) -> i32 {
    // SAFETY: the child runs `work`, which allocates nothing, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let code = i32::from(!work());
        // SAFETY: _exit runs no handler of this process.
        unsafe { libc::_exit(code) };
    }
    let mut status = -1;
    // SAFETY: `status` is a valid place for the result.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    status
}

#[test]
fn a_forked_child_neither_uses_nor_frees_the_side_of_its_parent() {
    let make = |kind| Segment::memfd(&Options { kind, cell: Cell::Line, bytes: 4096, waking: Waking::Never }).unwrap();
    let segment = make(Kind::Spsc);
    let mut producer = Some(segment.producer().unwrap());
    let mut consumer = Some(segment.consumer(Default::default()).unwrap());
    producer.as_mut().unwrap().try_send(b"before").unwrap();
    consumer.as_mut().unwrap().front().unwrap();
    producer.as_mut().unwrap().reserve(5).unwrap().copy_from_slice(b"after");
    let status = in_a_child(|| {
        let (mut producer, mut consumer) = (producer.take().unwrap(), consumer.take().unwrap());
        // Open claims and messages on loan are the parent's, too.
        producer.publish(5);
        consumer.release();
        let is_refused = producer.try_send(b"child") == Err(ClaimError::Forked)
            && consumer.try_read().is_err_and(|error| error == ReadError::Forked);
        producer.close();
        consumer.close();
        drop((producer, consumer));
        is_refused
    });
    assert_eq!(status, 0);
    assert!(segment.producer().is_err() && segment.consumer(Default::default()).is_err(), "the parent holds both");
    producer.as_mut().unwrap().publish(5);
    let mut seen = Vec::new();
    let read = consumer.as_mut().unwrap();
    read.release();
    while let Ok(message) = read.try_read() {
        seen.push(message.to_vec());
    }
    assert_eq!(seen, [b"after"]);

    let broadcast = make(Kind::Broadcast);
    let mut publisher = Some(broadcast.publisher().unwrap());
    let status = in_a_child(|| {
        let mut publisher = publisher.take().unwrap();
        let is_refused = publisher.publish(b"child") == Err(ClaimError::Forked);
        drop(publisher);
        is_refused
    });
    assert_eq!(status, 0);
    assert!(broadcast.publisher().is_err(), "the parent holds it");
    publisher.unwrap().publish(b"parent").unwrap();
    assert_eq!(broadcast.stat().written.messages, 1);
}
