//! The words of a table, and access to them: real memory, or loom's in a model.

use std::sync::atomic::Ordering;

#[cfg(loom)]
pub(super) use loom::sync::atomic::fence;
#[cfg(not(loom))]
pub(super) use std::sync::atomic::fence;

/// Words that can be loaded.
pub(super) trait Load {
    fn load(&self, index: usize, order: Ordering) -> u64;
}

/// Words that can be stored to, by one thread of one process.
pub(super) trait Store: Load {
    fn store(&self, index: usize, value: u64, order: Ordering);
}

#[cfg(not(loom))]
mod machine {
    use super::{Load, Ordering, Store};
    use sidestep_sys::words::{Words, WordsView};

    impl Load for Words {
        #[inline]
        fn load(&self, index: usize, order: Ordering) -> u64 {
            self.word(index).load(order)
        }
    }

    impl Store for Words {
        #[inline]
        fn store(&self, index: usize, value: u64, order: Ordering) {
            self.word(index).store(value, order);
        }
    }

    impl Load for WordsView {
        #[inline]
        fn load(&self, index: usize, order: Ordering) -> u64 {
            Self::load(self, index, order)
        }
    }
}

#[cfg(loom)]
impl Load for Vec<loom::sync::atomic::AtomicU64> {
    fn load(&self, index: usize, order: Ordering) -> u64 {
        self[index].load(order)
    }
}

#[cfg(loom)]
impl Store for Vec<loom::sync::atomic::AtomicU64> {
    fn store(&self, index: usize, value: u64, order: Ordering) {
        self[index].store(value, order);
    }
}
