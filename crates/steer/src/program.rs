//! The compiled program: loading it into the kernel, and what the loader has to say when that fails.

use std::cell::RefCell;
use std::os::fd::AsFd;

use libbpf_rs::{Object, ObjectBuilder, OpenObject, PrintLevel};
use sidestep_sys::Problem;

use crate::maps::Maps;

/// `bpf/steer.bpf.c`, compiled by the build script.
const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/steer.bpf.o"));

/// The program's name in the kernel's lists.
pub(crate) const NAME: &str = "sidestep_steer";

/// Of the loader's messages the last are the ones that matter; a verifier's log can have a megabyte.
const MESSAGES_BYTES_MAX: usize = 2048;

thread_local! {
    /// What the loader said on this thread, instead of on standard error.
    static MESSAGES: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Loads program and maps; they go with the object unless something else holds them.
pub(crate) fn load() -> Result<Object, Problem> {
    load_with(|_| Ok(()))
}

/// Loads the program onto maps that exist already.
pub(crate) fn load_onto(maps: &Maps) -> Result<Object, Problem> {
    load_with(|object| {
        for mut map in object.maps_mut() {
            if let Some(existing) = map.name().to_str().and_then(|name| maps.named(name)) {
                map.reuse_fd(existing.as_fd())?;
            }
        }
        Ok(())
    })
}

fn load_with(prepare: impl FnOnce(&mut OpenObject) -> libbpf_rs::Result<()>) -> Result<Object, Problem> {
    MESSAGES.take();
    libbpf_rs::set_print(Some((PrintLevel::Warn, keep)));
    let loaded = ObjectBuilder::default().open_memory(OBJECT).and_then(|mut object| {
        prepare(&mut object)?;
        object.load()
    });
    loaded.map_err(|error| {
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
