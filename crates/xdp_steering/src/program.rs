//! The compiled program: loading, and the loader's messages if that fails.

use std::cell::RefCell;
use std::os::fd::AsFd;

use libbpf_rs::{Object, ObjectBuilder, OpenObject, PrintLevel};
use sidestep_sys::Problem;

use crate::maps::Maps;

/// `bpf/steer.bpf.c`, compiled by the build script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Build {
    /// Accepts frames of several buffers (`xdp.frags`), so that drivers run it at an MTU above a page. Linux 5.18.
    Frags,
    /// For older kernels.
    OneBuffer,
}

impl Build {
    fn object(self) -> &'static [u8] {
        match self {
            Self::Frags => include_bytes!(concat!(env!("OUT_DIR"), "/steer.bpf.o")),
            Self::OneBuffer => include_bytes!(concat!(env!("OUT_DIR"), "/steer-5.15.bpf.o")),
        }
    }
}

/// A loaded program.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) object: Object,
    pub(crate) build: Build,
}

/// The program's name in the kernel's lists.
pub(crate) const NAME: &str = "sidestep_steer";

/// The end of the loader's messages that is kept; a verifier's log can have a megabyte.
const MESSAGES_BYTES_MAX: usize = 2048;

thread_local! {
    /// The loader's messages on this thread, kept from standard error.
    static MESSAGES: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Loads program and maps; they are freed with the object unless something else refers to them.
pub(crate) fn load() -> Result<Loaded, Problem> {
    best(load_build)
}

/// Loads program and maps of one build.
pub(crate) fn load_build(build: Build) -> Result<Loaded, Problem> {
    load_with(build, |_| Ok(()))
}

/// Loads the program with maps that exist already.
pub(crate) fn load_onto(maps: &Maps) -> Result<Loaded, Problem> {
    best(|build| {
        load_with(build, |object| {
            for mut map in object.maps_mut() {
                if let Some(existing) = map.name().to_str().and_then(|name| maps.named(name)) {
                    map.reuse_fd(existing.as_fd())?;
                }
            }
            Ok(())
        })
    })
}

/// Loads the best build. An older kernel knows neither the flag nor the helper of the program for several buffers, and
/// does not say which; so the other build is tried. The error is that of the first one.
fn best(load: impl Fn(Build) -> Result<Loaded, Problem>) -> Result<Loaded, Problem> {
    load(Build::Frags).or_else(|problem| load(Build::OneBuffer).map_err(|_| problem))
}

fn load_with(build: Build, prepare: impl FnOnce(&mut OpenObject) -> libbpf_rs::Result<()>) -> Result<Loaded, Problem> {
    MESSAGES.take();
    libbpf_rs::set_print(Some((PrintLevel::Warn, keep)));
    let loaded = ObjectBuilder::default().open_memory(build.object()).and_then(|mut object| {
        prepare(&mut object)?;
        object.load()
    });
    loaded.map(|object| Loaded { object, build }).map_err(|error| {
        let problem = Problem::failed("cannot load the steering program", describe(&error, &MESSAGES.take()));
        if error.kind() == libbpf_rs::ErrorKind::PermissionDenied {
            problem.next("run as root: loading needs CAP_BPF and CAP_NET_ADMIN")
        } else {
            problem.next("check that the kernel is 5.15 or later, with CONFIG_BPF_SYSCALL and CONFIG_XDP_SOCKETS")
        }
    })
}

fn describe(error: &libbpf_rs::Error, messages: &str) -> String {
    if messages.is_empty() { format!("{error:#}") } else { format!("{error:#}; the loader says: {}", messages.trim()) }
}

#[expect(clippy::needless_pass_by_value, reason = "the library's type for it")]
fn keep(_: PrintLevel, message: String) {
    MESSAGES.with_borrow_mut(|messages| {
        messages.push_str(&message);
        let mut excess = messages.len().saturating_sub(MESSAGES_BYTES_MAX);
        while !messages.is_char_boundary(excess) {
            excess += 1;
        }
        messages.drain(..excess);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_kept_to_their_end() {
        MESSAGES.take();
        for _ in 0..1000 {
            keep(PrintLevel::Warn, "äöü".to_owned());
        }
        keep(PrintLevel::Warn, "the end".to_owned());
        let messages = MESSAGES.take();
        assert!(messages.len() <= MESSAGES_BYTES_MAX && messages.ends_with("the end"));
    }
}
