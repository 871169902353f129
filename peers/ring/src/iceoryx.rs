//! iceoryx2, publish and subscribe over shared memory.
//!
//! Settings: those of its own benchmark of publish-subscribe (no history, slices of bytes loaned uninitialised), but without
//! the overflow that replaces old messages: a reader here wants all of them, so a full queue refuses and the writer asks
//! again.

use iceoryx2::port::{publisher::Publisher, subscriber::Subscriber};
use iceoryx2::prelude::*;
use sidestep_bench::ring::{Channel, Contestant, End, Shape, Step, Threads};
use sidestep_sys::Problem;
use std::fmt::Display;
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) fn all() -> Vec<Box<dyn Contestant>> {
    // Its warnings on standard error are not part of what is measured.
    set_log_level(LogLevel::Error);
    vec![Box::new(Threads {
        channel: Services,
        name: "iceoryx2",
        description: "iceoryx2 0.10, publish-subscribe of byte slices (ipc service), loan, write, send; receive in place; \
                      no overflow; both ends spinning.",
        sleeps: false,
        no_stream: None,
    })]
}

struct Services;

/// What it leaves in /tmp and /dev/shm, also after an orderly end, bears this mark, so that `run` can remove it.
fn settings() -> Result<Config, Problem> {
    let mark = std::env::var("ICEORYX2_MARK").unwrap_or_else(|_| "sidestep-peers-".into());
    let folder = std::env::temp_dir().join(&mark);
    let mut config = Config::default();
    config.global.prefix = FileName::new(mark.as_bytes()).map_err(failed)?;
    config.global.set_root_path(&Path::new(folder.as_os_str().as_encoded_bytes()).map_err(failed)?);
    Ok(config)
}

/// A node, its publisher and its subscriber. Not `Send`: each thread makes its own.
struct ServiceEnd {
    out: Publisher<ipc::Service, [u8], ()>,
    back: Subscriber<ipc::Service, [u8], ()>,
    _node: Node<ipc::Service>,
}

/// What the other thread needs to find the same two services.
struct Names {
    there: String,
    back: String,
    shape: Shape,
}

fn failed(why: impl Display) -> Problem {
    Problem::failed("cannot open iceoryx2", why)
}

fn end(out: &str, back: &str, shape: Shape) -> Result<ServiceEnd, Problem> {
    let node = NodeBuilder::new().config(&settings()?).create::<ipc::Service>().map_err(failed)?;
    let service = |name: &str| {
        let name = ServiceName::new(name).map_err(|error| failed(format!("{error:?}")))?;
        node.service_builder(&name)
            .publish_subscribe::<[u8]>()
            .history_size(0)
            .subscriber_max_buffer_size(shape.messages)
            .enable_safe_overflow(false)
            .max_publishers(1)
            .max_subscribers(1)
            .open_or_create()
            .map_err(failed)
    };
    let (out, back) = (service(out)?, service(back)?);
    let back = back.subscriber_builder().buffer_size(shape.messages).create().map_err(failed)?;
    let out = out
        .publisher_builder()
        .initial_max_slice_len(shape.size)
        .backpressure_strategy(BackpressureStrategy::DiscardData)
        .create()
        .map_err(failed)?;
    Ok(ServiceEnd { out, back, _node: node })
}

impl Channel for Services {
    type End = ServiceEnd;
    type Ticket = Names;

    fn open(&self, shape: Shape) -> Result<(ServiceEnd, Names), Problem> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = |way: &str| format!("sidestep-peers/{}/{number}/{way}", std::process::id());
        let names = Names { there: name("there"), back: name("back"), shape };
        Ok((end(&names.there, &names.back, shape)?, names))
    }

    fn join(&self, names: Names) -> Result<ServiceEnd, Problem> {
        end(&names.back, &names.there, names.shape)
    }
}

impl End for ServiceEnd {
    #[inline(always)]
    fn send(&mut self, message: &[u8]) -> Step {
        let Ok(sample) = self.out.loan_slice_uninit(message.len()) else { return Step::Gone };
        match sample.write_from_slice(message).send() {
            // The number of subscribers that got it.
            Ok(1) => Step::Done,
            Ok(_) => Step::Again,
            Err(_) => Step::Gone,
        }
    }

    #[inline(always)]
    fn receive(&mut self, take: impl FnOnce(&[u8])) -> Step {
        match self.back.receive() {
            Ok(Some(sample)) => {
                take(sample.payload());
                Step::Done
            }
            Ok(None) => Step::Again,
            Err(_) => Step::Gone,
        }
    }
}
