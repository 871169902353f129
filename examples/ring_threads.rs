//! Rings between the threads of one process: one reader that gets everything, and several that may lose and know what.
//!
//! ```text
//! cargo run --release --example ring_threads
//! ```

use sidestep::idle::IdleStrategy;
use sidestep::ring::{Loss, ReadError, WaitError, Waking, broadcast, spsc};
use std::error::Error;
use std::thread;

/// The messages of each ring.
pub const MESSAGES: u64 = 100_000;

fn main() -> Result<(), Box<dyn Error>> {
    println!("spsc: {} messages", one_reader()?);
    for (reader, (read, lost)) in several_readers()?.into_iter().enumerate() {
        println!("broadcast, reader {reader}: {read} messages, {lost} lost");
    }
    Ok(())
}

// ANCHOR: spsc
/// One writer, one reader: returns how many messages came.
pub fn one_reader() -> Result<u64, Box<dyn Error>> {
    let (mut producer, mut consumer) = spsc::pair(64 << 10, Waking::Barrier)?;
    let reader = thread::spawn(move || -> Result<u64, WaitError> {
        let mut sum = 0;
        loop {
            match consumer.wait(IdleStrategy::SPIN_THEN_PARK, None) {
                Err(WaitError::Closed) => return Ok(sum),
                waited => waited?,
            }
            // The message is read where it stands, and released when it goes out of scope.
            while let Ok(message) = consumer.try_read() {
                sum += u64::from(message.len() == 8);
            }
        }
    });
    for number in 0..MESSAGES {
        producer.wait(8, IdleStrategy::SPIN_THEN_PARK, None)?; // Until there is room.
        let mut message = producer.try_claim(8)?;
        message.copy_from_slice(&number.to_le_bytes());
        message.commit();
    }
    drop(producer); // Closes the ring.
    Ok(reader.join().expect("the reader does not panic")?)
}
// ANCHOR_END: spsc

// ANCHOR: broadcast
/// One writer that never waits, two readers: returns how many messages each has read, and lost.
pub fn several_readers() -> Result<Vec<(u64, u64)>, Box<dyn Error>> {
    let (mut publisher, first) = broadcast::pair(64 << 10, Waking::Barrier)?;
    let subscribers = [first.clone(), first];
    let read = |mut subscriber: broadcast::Subscriber| {
        let (mut read, mut lost, mut buffer) = (0, 0, [0; 64]);
        loop {
            match subscriber.try_read(&mut buffer) {
                Ok(_) => read += 1,
                Err(ReadError::Empty) => thread::yield_now(),
                // A lap behind: so many messages are gone, and the next read goes on behind them.
                Err(ReadError::Lost(Loss { messages, .. })) => lost += messages,
                Err(ReadError::Closed) => return Ok((read, lost)),
                Err(error) => return Err(error),
            }
        }
    };
    thread::scope(|scope| {
        let readers = subscribers.map(|subscriber| scope.spawn(move || read(subscriber)));
        for number in 0..MESSAGES {
            publisher.publish(&number.to_le_bytes())?; // Waits for nobody.
        }
        drop(publisher);
        readers.into_iter().map(|reader| Ok(reader.join().expect("a reader does not panic")?)).collect()
    })
}
// ANCHOR_END: broadcast
