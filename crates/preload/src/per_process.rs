//! Values that a forked child makes anew: its parent's may be locked by a thread that the child does not have.

use std::fmt;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A value of this process, made by its first use. It lives as long as the process, and the copy of its parent's is left alone: dropping
/// that would end what is the parent's.
pub(crate) struct PerProcess<T: 'static>(AtomicPtr<T>);

impl<T: Default> PerProcess<T> {
    pub(crate) const fn new() -> Self {
        Self(AtomicPtr::new(null_mut()))
    }

    #[inline]
    pub(crate) fn get(&self) -> &'static T {
        // SAFETY: it is null, or a value that was leaked below.
        match unsafe { self.0.load(Ordering::Acquire).as_ref() } {
            Some(value) => value,
            None => self.make(),
        }
    }

    #[cold]
    fn make(&self) -> &'static T {
        let made = Box::into_raw(Box::default());
        match self.0.compare_exchange(null_mut(), made, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: it was leaked just now, and is never freed.
            Ok(_) => unsafe { &*made },
            Err(first) => {
                // SAFETY: nobody else has seen it.
                drop(unsafe { Box::from_raw(made) });
                // SAFETY: it was leaked by the thread that was first.
                unsafe { &*first }
            }
        }
    }

    /// Forgets the parent's value: in a forked child, before it has a second thread.
    pub(crate) fn renew(&self) {
        self.0.store(null_mut(), Ordering::Release);
    }
}

impl<T> fmt::Debug for PerProcess<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PerProcess")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn one_value_until_it_is_renewed() {
        static VALUE: PerProcess<Mutex<u32>> = PerProcess::new();
        let first = VALUE.get();
        *first.lock().unwrap() = 7;
        std::thread::scope(|scope| {
            (0..4).for_each(|_| drop(scope.spawn(|| assert!(std::ptr::eq(VALUE.get(), first)))));
        });
        let _locked = first.lock().unwrap();
        VALUE.renew();
        assert_eq!(*VALUE.get().lock().unwrap(), 0, "a lock that is held does not keep anybody from the new one");
    }
}
