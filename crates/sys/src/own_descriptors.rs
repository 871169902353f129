//! Descriptor numbers of this library in a program that does not know of them: libsidestep.so notes them, to close those that a forked
//! child has from its parent, and to keep them from the program's calls. In other programs nothing is noted.

use rustix::io::{Errno, fcntl_dupfd_cloexec, fcntl_getfd};
use rustix::process::{Resource, Rlimit, getrlimit, prlimit};
use std::cell::Cell;
use std::ffi::c_int;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// The default limit of descriptors of a process (fs.nr_open). Numbers beyond are not noted.
const NUMBERS_MAX: usize = 1 << 20;
const WORD_BITS: usize = 64;

/// The library's descriptors are numbered from here, or from three quarters of the limit, so that the program gets the lowest free numbers.
const NUMBERS_FROM: u64 = 16_384;

/// A bit for each number. In zeroed memory, of which only the pages that are touched exist.
static OWN: [AtomicU64; NUMBERS_MAX / WORD_BITS] = [const { AtomicU64::new(0) }; NUMBERS_MAX / WORD_BITS];
/// One more than the last word that ever had a bit.
static END: AtomicUsize = AtomicUsize::new(0);
/// The process whose descriptors are noted; 0: none.
static OWNER: AtomicU32 = AtomicU32::new(0);
/// A thread has raised the limit, or forks.
static LIMIT_IS_HELD: AtomicBool = AtomicBool::new(false);
const HOLD_TURNS_MAX: u32 = 100_000;

thread_local! {
    static IS_OWN_THREAD: Cell<bool> = const { Cell::new(false) };
}

/// Descriptors of this process are noted from now on, and of children that the C library tells of their fork.
pub fn begin() {
    if OWNER.load(Ordering::Relaxed) == 0 {
        // SAFETY: the handler takes nothing and returns; it stores a number.
        unsafe { libc::pthread_atfork(None, None, Some(own)) };
    }
    own();
}

extern "C" fn own() {
    OWNER.store(std::process::id(), Ordering::Relaxed);
}

/// Returns whether this process's descriptors are noted. A system call, where any are.
fn is_noted() -> bool {
    match OWNER.load(Ordering::Relaxed) {
        0 => false,
        owner => owner == std::process::id(),
    }
}

/// Notes a descriptor that was just made, and numbers it high. Where there is no high number it keeps its own.
pub fn keep(descriptor: OwnedFd) -> OwnedFd {
    if !is_noted() {
        return descriptor;
    }
    let is_high = descriptor.as_raw_fd() >= Range::now().lowest;
    let high = if is_high { None } else { duplicate(descriptor.as_fd()).ok() };
    match high {
        Some(high) => {
            // Not by close(3), which libsidestep.so serves.
            // SAFETY: nobody else has it, and it is not used any more.
            unsafe { rustix::io::close(descriptor.into_raw_fd()) };
            high
        }
        None => {
            note(descriptor.as_raw_fd());
            descriptor
        }
    }
}

/// A duplicate with a high number, noted; an error where there is none.
pub fn duplicate(descriptor: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let range = Range::now();
    let high = match range.limit {
        Some(limit) => raised(limit, || fcntl_dupfd_cloexec(descriptor, range.lowest))?,
        None => fcntl_dupfd_cloexec(descriptor, range.lowest)?,
    };
    note(high.as_raw_fd());
    Ok(high)
}

/// The numbers of the library's descriptors.
struct Range {
    lowest: c_int,
    /// The limit that has to be raised for them.
    limit: Option<Rlimit>,
}

impl Range {
    /// From [`NUMBERS_FROM`] on, above the limit if need be, so that the program may have as many as without the library; where that
    /// must not be raised so far, in its last quarter.
    fn now() -> Self {
        let limit = getrlimit(Resource::Nofile);
        let bound = |limit: Option<u64>| limit.unwrap_or(u64::MAX);
        let (soft, hard) = (bound(limit.current), bound(limit.maximum));
        let from = |limit: u64| NUMBERS_FROM.min(limit / 4 * 3);
        if from(soft) == NUMBERS_FROM || hard <= soft {
            return Self { lowest: from(soft) as c_int, limit: None };
        }
        Self { lowest: from(hard).max(soft) as c_int, limit: Some(limit) }
    }
}

/// Runs `work` with the limit of descriptors raised as far as the process may: descriptors beyond the program's limit stay open.
fn raised<T>(limit: Rlimit, work: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
    hold_limit();
    let set = |limit| prlimit(None, Resource::Nofile, limit);
    let all = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let done = set(all).and_then(|before| {
        let done = work();
        let found = set(before)?;
        if found != all {
            // Another thread has set it meanwhile.
            set(found)?;
        }
        done
    });
    release_limit();
    done
}

/// Before fork(2), so that no child begins with a raised limit, and before the limit is raised. Waits for a moment at most: whoever holds
/// it makes three system calls.
pub extern "C" fn hold_limit() {
    let mut turns = 0;
    while LIMIT_IS_HELD.swap(true, Ordering::Acquire) && turns < HOLD_TURNS_MAX {
        turns += 1;
        std::thread::yield_now();
    }
}

/// After fork(2), in both processes.
pub extern "C" fn release_limit() {
    LIMIT_IS_HELD.store(false, Ordering::Release);
}

/// The library's numbers in a range, the lowest first.
pub fn numbers(first: u32, last: u32) -> impl Iterator<Item = u32> {
    let end = END.load(Ordering::Relaxed);
    let words = first as usize / WORD_BITS..end.min((last as usize / WORD_BITS).saturating_add(1));
    let of_word = |index: usize| (index * WORD_BITS..(index + 1) * WORD_BITS).map(|number| number as u32);
    let is_any = |index: &usize| OWN[*index].load(Ordering::Relaxed) != 0;
    words
        .filter(is_any)
        .flat_map(of_word)
        .filter(move |number| (first..=last).contains(number) && is_own(*number as c_int))
}

/// Notes a number.
pub fn note(number: c_int) {
    if !is_noted() {
        return;
    }
    if let Some((word, bit)) = place(number) {
        OWN[word].fetch_or(bit, Ordering::Relaxed);
        END.fetch_max(word + 1, Ordering::Relaxed);
    }
}

/// Forgets a number that is about to be closed.
#[inline]
pub fn forget(number: c_int) {
    if is_own(number)
        && is_noted()
        && let Some((word, bit)) = place(number)
    {
        OWN[word].fetch_and(!bit, Ordering::Relaxed);
    }
}

/// Returns whether a number is the library's.
#[inline]
pub fn is_own(number: c_int) -> bool {
    place(number).is_some_and(|(word, bit)| OWN[word].load(Ordering::Relaxed) & bit != 0)
}

/// Closes the parent's in a forked child, whose own are noted from then on. No destructor of the parent's values may run there, for they
/// would close them again.
pub fn close_inherited() {
    own();
    for (index, word) in OWN[..END.load(Ordering::Relaxed)].iter().enumerate() {
        let mut bits = word.swap(0, Ordering::Relaxed);
        while bits != 0 {
            let number = (index * WORD_BITS + bits.trailing_zeros() as usize) as c_int;
            // The kernel copies descriptors before memory: what another thread has noted in between is not open here.
            // SAFETY: borrowed for one system call; a number that is not open gives an error.
            if fcntl_getfd(unsafe { BorrowedFd::borrow_raw(number) }).is_ok() {
                // SAFETY: the number is the parent's, of which this process uses nothing.
                unsafe { rustix::io::close(number) };
            }
            bits &= bits - 1;
        }
    }
}

/// The calling thread is the library's: so is every descriptor that it makes.
pub fn own_thread() {
    IS_OWN_THREAD.set(true);
}

/// Returns whether the calling thread is the library's.
pub fn is_own_thread() -> bool {
    IS_OWN_THREAD.get()
}

#[inline]
fn place(number: c_int) -> Option<(usize, u64)> {
    let number = usize::try_from(number).ok().filter(|number| *number < NUMBERS_MAX)?;
    Some((number / WORD_BITS, 1 << (number % WORD_BITS)))
}

#[cfg(test)]
mod tests {
    use super::*;
    fn is_open(number: c_int) -> bool {
        // SAFETY: F_GETFD takes no pointer.
        unsafe { libc::fcntl(number, libc::F_GETFD) >= 0 }
    }

    #[test]
    fn a_child_closes_what_was_noted_and_nothing_else() {
        let file = || OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
        let theirs = file();
        note(theirs.as_raw_fd());
        assert!(!is_own(theirs.as_raw_fd()), "nothing is noted before it was begun");
        begin();
        let (kept, closed) = (keep(file()), keep(file()).into_raw_fd());
        assert!(is_own(kept.as_raw_fd()) && is_own(closed) && !is_own(-1) && !is_own(c_int::MAX));
        forget(closed);
        assert!(!is_own(closed));
        let lowest = Range::now().lowest;
        assert!(kept.as_raw_fd() >= lowest && closed >= lowest);
        let number = kept.as_raw_fd() as u32;
        assert!(numbers(0, u32::MAX).any(|own| own == number) && numbers(number, number).eq([number]));
        assert!(!numbers(0, number - 1).any(|own| own == number) && numbers(number + 1, number).next().is_none());
        // SAFETY: the child makes system calls alone.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // One that is not open here.
            note(kept.as_raw_fd() + 1000);
            close_inherited();
            let mut is_good = !is_open(kept.as_raw_fd()) && is_open(closed) && is_open(theirs.as_raw_fd());
            note(closed);
            is_good &= is_own(closed);
            // SAFETY: _exit runs no handler of this process.
            unsafe { libc::_exit(i32::from(!is_good)) };
        }
        let mut status = -1;
        // SAFETY: `status` is a valid place for the result.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0);
        assert!(is_open(kept.as_raw_fd()) && !is_own(closed));
        a_child_with_this_memory_notes_nothing(kept.as_fd());
        forget(kept.as_raw_fd());
        // SAFETY: it was made above, and nobody else has it.
        unsafe { libc::close(closed) };
    }

    /// As after vfork(2): the memory is the parent's, and descriptors are copies.
    fn a_child_with_this_memory_notes_nothing(kept: BorrowedFd<'_>) {
        extern "C" fn child(kept: *mut libc::c_void) -> c_int {
            let kept = kept as usize as c_int;
            note(kept + 1);
            forget(kept);
            // SAFETY: the parent, which waits, has it open, and so has this process.
            let copy = unsafe { BorrowedFd::borrow_raw(kept) }.try_clone_to_owned().map(keep);
            c_int::from(copy.is_err())
        }
        let mut stack = vec![0_u8; 1 << 20];
        let top = stack.as_mut_ptr_range().end.cast();
        let argument = std::ptr::without_provenance_mut(kept.as_raw_fd() as usize);
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        let numbers_before: Vec<u32> = numbers(0, u32::MAX).collect();
        // SAFETY: the stack is large enough and lives until the child has ended, for which the call waits.
        let process = unsafe { libc::clone(child, top, flags, argument) };
        let mut status = -1;
        // SAFETY: `status` is a valid place for the result.
        assert_eq!(unsafe { libc::waitpid(process, &raw mut status, 0) }, process);
        assert_eq!((status, numbers(0, u32::MAX).collect::<Vec<_>>()), (0, numbers_before));
    }
}
