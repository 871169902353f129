//! Aeron IPC, its C client and C media driver.
//!
//! Settings: exclusive publications and claims (the low-latency advice of its own samples), term buffers that are not sparse
//! and are touched beforehand (its embedded-ping-pong). Its advice of a core for each thread of the driver cannot be followed
//! on two CPUs that both spin: the driver runs in one thread (shared mode), which sleeps between its rounds and needs
//! them only for flow control.

use rusteron_client::*;
use rusteron_media_driver::bindings::aeron_threading_mode_t;
use rusteron_media_driver::testing::EmbeddedDriver;
use sidestep_bench::ring::{Channel, Contestant, End, Shape, Step, Threads};
use sidestep_sys::Problem;
use std::fmt::Display;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

pub(crate) fn all() -> Result<Vec<Box<dyn Contestant>>, Problem> {
    let driver = EmbeddedDriver::launch_with(|context| {
        context.set_threading_mode(aeron_threading_mode_t::AERON_THREADING_MODE_SHARED)?;
        context.set_term_buffer_sparse_file(false)?;
        context.set_ipc_term_buffer_length(TERM_BYTES)?;
        Ok(())
    })
    .map_err(failed)?;
    let dir = driver.dir().to_owned();
    Ok(vec![Box::new(Threads {
        channel: Streams { dir, _driver: driver },
        name: "aeron-ipc",
        description: "Aeron IPC (C client and driver 1.5x), exclusive publication with try_claim, poll with one fragment; \
                      terms of 1 MiB; both ends spinning, the driver's one thread on the same two CPUs.",
        sleeps: false,
        no_stream: None,
    })])
}

/// Long enough for a client to find its driver.
const OPEN_WITHIN: Duration = Duration::from_secs(5);
/// Length of a term. The driver lets a publication run half a term ahead and checks once in a millisecond: shorter terms
/// throttle it, longer ones leave the CPU's second-level cache.
const TERM_BYTES: usize = 1 << 20;

struct Streams {
    dir: String,
    // Ends with the last client gone.
    _driver: EmbeddedDriver,
}

struct StreamEnd {
    // In the order in which they must go.
    out: AeronExclusivePublication,
    back: AeronSubscription,
    _client: Aeron,
}

/// What the other thread needs to make its own client.
struct Ids {
    dir: String,
    there: i32,
    back: i32,
}

fn failed(why: impl Display) -> Problem {
    Problem::failed("cannot open aeron-ipc", why)
}

fn end(ids: &Ids) -> Result<StreamEnd, Problem> {
    let context = AeronContext::new().map_err(failed)?;
    context.set_dir(&cformat!("{}", ids.dir)).map_err(failed)?;
    context.set_pre_touch_mapped_memory(true).map_err(failed)?;
    let client = Aeron::new(&context).map_err(failed)?;
    client.start().map_err(failed)?;
    let back = client
        .async_add_subscription(AERON_IPC_STREAM, ids.back, Handlers::NONE, Handlers::NONE)
        .and_then(|adding| adding.poll_blocking(OPEN_WITHIN))
        .map_err(failed)?;
    let out = client
        .async_add_exclusive_publication(AERON_IPC_STREAM, ids.there)
        .and_then(|adding| adding.poll_blocking(OPEN_WITHIN))
        .map_err(failed)?;
    Ok(StreamEnd { out, back, _client: client })
}

impl Channel for Streams {
    type End = StreamEnd;
    type Ticket = Ids;

    fn open(&self, _: Shape) -> Result<(StreamEnd, Ids), Problem> {
        static STREAM: AtomicI32 = AtomicI32::new(1000);
        let first = STREAM.fetch_add(2, Ordering::Relaxed);
        let ids = |there, back| Ids { dir: self.dir.clone(), there, back };
        Ok((end(&ids(first, first + 1))?, ids(first + 1, first)))
    }

    fn join(&self, ids: Ids) -> Result<StreamEnd, Problem> {
        let end = end(&ids)?;
        let begin = Instant::now();
        while !(end.out.is_connected() && end.back.is_connected()) {
            if begin.elapsed() > OPEN_WITHIN {
                return Err(failed("the two ends do not find each other"));
            }
            std::thread::yield_now();
        }
        Ok(end)
    }
}

impl End for StreamEnd {
    #[inline(always)]
    fn send(&mut self, message: &[u8]) -> Step {
        match self.out.try_claim_owned(message.len()) {
            Ok(mut claim) => {
                claim.data().copy_from_slice(message);
                if claim.commit().is_ok() { Step::Done } else { Step::Gone }
            }
            Err(error) if error.is_retryable() => Step::Again,
            Err(_) => Step::Gone,
        }
    }

    #[inline(always)]
    fn receive(&mut self, take: impl FnOnce(&[u8])) -> Step {
        let mut take = Some(take);
        let pass = |message: &[u8], _: AeronHeader| {
            if let Some(take) = take.take() {
                take(message);
            }
        };
        match self.back.poll_fn(pass, 1) {
            Ok(0) => Step::Again,
            Ok(_) => Step::Done,
            Err(_) => Step::Gone,
        }
    }
}
