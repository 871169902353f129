//! Names in the libraries behind ours, looked up once.

use libc::{c_int, c_void, sighandler_t, ssize_t};
use std::ffi::CStr;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicPtr, Ordering};

/// An intercepted name, and the address of the function that the program would have called without us.
#[derive(Debug)]
pub(crate) struct Symbol {
    /// Ends with a zero byte.
    name: &'static str,
    address: AtomicPtr<c_void>,
}

impl Symbol {
    pub(crate) const fn new(name: &'static str) -> Self {
        Self { name, address: AtomicPtr::new(null_mut()) }
    }

    /// The address; `None` where no library behind ours has the name. Looked up by the first call, for a library that is initialised
    /// before ours may be the caller.
    #[inline]
    pub(crate) fn address(&self) -> Option<NonNull<c_void>> {
        NonNull::new(self.address.load(Ordering::Relaxed)).or_else(|| self.look_up())
    }

    /// dlsym(3) takes the loader's lock, which a forked child may find locked for ever: so everything is looked up when the library is
    /// initialised.
    #[cold]
    pub(crate) fn look_up(&self) -> Option<NonNull<c_void>> {
        let name = CStr::from_bytes_with_nul(self.name.as_bytes()).ok()?;
        // SAFETY: the name is a C string, and RTLD_NEXT asks for the libraries behind this one.
        let address = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
        self.address.store(address, Ordering::Relaxed);
        NonNull::new(address)
    }

    #[cfg(test)]
    fn name(&self) -> &'static str {
        self.name.trim_end_matches('\0')
    }
}

/// The answer of a function that the C library does not have.
pub(crate) trait Absent {
    fn answer() -> Self;
}

fn no_such_call() {
    crate::errno::set(rustix::io::Errno::NOSYS);
}

impl Absent for c_int {
    fn answer() -> Self {
        no_such_call();
        -1
    }
}

impl Absent for ssize_t {
    fn answer() -> Self {
        no_such_call();
        -1
    }
}

impl Absent for *mut libc::FILE {
    fn answer() -> Self {
        no_such_call();
        null_mut()
    }
}

impl Absent for () {
    fn answer() {
        no_such_call();
    }
}

impl Absent for libc::c_long {
    fn answer() -> Self {
        no_such_call();
        -1
    }
}

impl Absent for sighandler_t {
    fn answer() -> Self {
        no_such_call();
        libc::SIG_ERR
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::SYMBOLS;

    #[test]
    #[cfg(target_env = "gnu")]
    fn the_c_library_has_every_name() {
        let absent: Vec<&str> = SYMBOLS.iter().filter(|symbol| symbol.look_up().is_none()).map(Symbol::name).collect();
        // glibc 2.33 and older lack these.
        let newer = ["_Fork", "close_range", "closefrom", "epoll_pwait2", "pidfd_spawn", "pidfd_spawnp"];
        assert!(absent.iter().all(|name| newer.contains(name)), "{absent:?}");
    }

    #[test]
    fn each_name_stands_once() {
        for symbol in &SYMBOLS {
            let same = SYMBOLS.iter().filter(|other| other.name() == symbol.name());
            assert_eq!(same.count(), 1, "{}", symbol.name());
        }
    }
}
