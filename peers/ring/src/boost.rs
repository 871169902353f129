//! Boost's single-producer queue, through C functions (`boost/shim.cpp`).
//!
//! `boost::lockfree::spsc_queue` of structs of the message's size, capacity given at run time, `-O3 -march=native`, read in
//! place by `front` and `pop`.

use crate::by_size::{BySize, Family};
use sidestep_bench::ring::{Channel, Contestant, End, Shape, Step};
use sidestep_sys::Problem;
use std::ffi::c_void;
use std::sync::Arc;

pub(crate) fn all() -> Vec<Box<dyn Contestant>> {
    vec![BySize::<Boost>::boxed()]
}

struct Boost;

impl Family for Boost {
    const NAME: &'static str = "boost-spsc";
    const DESCRIPTION: &'static str = "Boost's lockfree::spsc_queue of structs of the message's size, push, front and pop \
                                       through C functions (-O3 -march=native), both ends spinning.";
    type Of<const N: usize> = Queues<N>;
}

/// The functions of one size.
#[derive(Clone, Copy)]
struct Functions {
    new: unsafe extern "C" fn(usize) -> *mut c_void,
    free: unsafe extern "C" fn(*mut c_void),
    push: unsafe extern "C" fn(*mut c_void, *const u8) -> bool,
    front: unsafe extern "C" fn(*mut c_void) -> *const u8,
    pop: unsafe extern "C" fn(*mut c_void),
}

macro_rules! functions {
    ($($size:literal $new:ident $free:ident $push:ident $front:ident $pop:ident;)*) => {
        unsafe extern "C" {
            $(fn $new(messages: usize) -> *mut c_void;
            fn $free(queue: *mut c_void);
            fn $push(queue: *mut c_void, message: *const u8) -> bool;
            fn $front(queue: *mut c_void) -> *const u8;
            fn $pop(queue: *mut c_void);)*
        }

        /// The functions for messages of `size` bytes. A constant size makes this a constant.
        #[inline(always)]
        const fn functions(size: usize) -> Option<Functions> {
            match size {
                $($size => Some(Functions { new: $new, free: $free, push: $push, front: $front, pop: $pop }),)*
                _ => None,
            }
        }
    };
}

functions! {
    8 boost_new_8 boost_free_8 boost_push_8 boost_front_8 boost_pop_8;
    16 boost_new_16 boost_free_16 boost_push_16 boost_front_16 boost_pop_16;
    32 boost_new_32 boost_free_32 boost_push_32 boost_front_32 boost_pop_32;
    48 boost_new_48 boost_free_48 boost_push_48 boost_front_48 boost_pop_48;
    64 boost_new_64 boost_free_64 boost_push_64 boost_front_64 boost_pop_64;
    128 boost_new_128 boost_free_128 boost_push_128 boost_front_128 boost_pop_128;
    256 boost_new_256 boost_free_256 boost_push_256 boost_front_256 boost_pop_256;
    512 boost_new_512 boost_free_512 boost_push_512 boost_front_512 boost_pop_512;
    1024 boost_new_1024 boost_free_1024 boost_push_1024 boost_front_1024 boost_pop_1024;
}

/// A queue, freed with its last holder.
struct Queue<const N: usize>(*mut c_void);

// SAFETY: the queue is made for one thread that pushes and one that pops; each of its two ends is used by one thread.
unsafe impl<const N: usize> Send for Queue<N> {}
// SAFETY: as above.
unsafe impl<const N: usize> Sync for Queue<N> {}

impl<const N: usize> Queue<N> {
    const FUNCTIONS: Functions = match functions(N) {
        Some(functions) => functions,
        None => panic!("there is a shim for the sizes above only"),
    };

    fn new(messages: usize) -> Result<Arc<Self>, Problem> {
        // SAFETY: the function takes a number.
        let queue = unsafe { (Self::FUNCTIONS.new)(messages) };
        if queue.is_null() {
            Err(Problem::failed("cannot open boost-spsc", "no memory"))
        } else {
            Ok(Arc::new(Self(queue)))
        }
    }
}

impl<const N: usize> Drop for Queue<N> {
    fn drop(&mut self) {
        // SAFETY: made by `new`, and this is its last holder.
        unsafe { (Self::FUNCTIONS.free)(self.0) };
    }
}

#[derive(Default)]
struct Queues<const N: usize>;

struct QueueEnd<const N: usize> {
    out: Arc<Queue<N>>,
    back: Arc<Queue<N>>,
}

impl<const N: usize> Channel for Queues<N> {
    type End = QueueEnd<N>;
    type Ticket = QueueEnd<N>;

    fn open(&self, shape: Shape) -> Result<(Self::End, Self::End), Problem> {
        let (out, back) = (Queue::new(shape.messages)?, Queue::new(shape.messages)?);
        let far = QueueEnd { out: Arc::clone(&back), back: Arc::clone(&out) };
        Ok((QueueEnd { out, back }, far))
    }

    fn join(&self, ticket: Self::End) -> Result<Self::End, Problem> {
        Ok(ticket)
    }
}

impl<const N: usize> End for QueueEnd<N> {
    #[inline(always)]
    fn send(&mut self, message: &[u8]) -> Step {
        if message.len() != N {
            return Step::Gone;
        }
        // SAFETY: the queue lives as long as this end, whose thread is the only one that pushes; the message has N bytes,
        // which is what the function copies, and any alignment does for a struct of bytes.
        if unsafe { (Queue::<N>::FUNCTIONS.push)(self.out.0, message.as_ptr()) } { Step::Done } else { Step::Again }
    }

    #[inline(always)]
    fn receive(&mut self, take: impl FnOnce(&[u8])) -> Step {
        // SAFETY: the queue lives as long as this end, whose thread is the only one that pops.
        let front = unsafe { (Queue::<N>::FUNCTIONS.front)(self.back.0) };
        if front.is_null() {
            return Step::Again;
        }
        // SAFETY: the element has N bytes and stays where it is until it is popped.
        take(unsafe { std::slice::from_raw_parts(front, N) });
        // SAFETY: as above; `front` has seen that there is an element.
        unsafe { (Queue::<N>::FUNCTIONS.pop)(self.back.0) };
        Step::Done
    }
}
