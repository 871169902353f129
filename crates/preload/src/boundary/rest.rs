//! The rest of a call whose connection has become the kernel's when a part of the call was done: the kernel's own call does it.

use crate::table::real;
use libc::{MSG_DONTWAIT, MSG_MORE, MSG_NOSIGNAL, MSG_WAITALL, c_int, c_void, iovec, ssize_t};

/// Sends what lies behind the first `done` bytes; returns how many are sent altogether. Called in the outermost frame.
///
/// # Safety
/// The buffers are valid for reads.
pub(super) unsafe fn send(number: c_int, vector: &[iovec], flags: c_int, done: usize) -> ssize_t {
    let mut left = bytes(vector) - done;
    each(vector, done, |part, length| {
        left -= length;
        // Whoever has sent a part is told of that, not of an error.
        let flags = flags | MSG_NOSIGNAL | if left == 0 { 0 } else { MSG_MORE };
        // SAFETY: the caller's promise.
        unsafe { real::send(number, part, length, flags) }
    })
}

/// Receives behind the first `done` bytes; returns how many are received altogether. Called in the outermost frame.
///
/// # Safety
/// The buffers are valid for writes, and nobody else's.
pub(super) unsafe fn receive(number: c_int, vector: &[iovec], flags: c_int, done: usize) -> ssize_t {
    // A call that did not ask for all of it takes what is there.
    let flags = if flags & MSG_WAITALL == 0 { flags | MSG_DONTWAIT } else { flags };
    each(vector, done, |part, length| {
        // SAFETY: the caller's promise.
        unsafe { real::recv(number, part, length, flags) }
    })
}

fn bytes(vector: &[iovec]) -> usize {
    vector.iter().map(|one| one.iov_len).sum()
}

/// Does the parts behind the first `done` bytes, until one is not done wholly. Returns the sum, which is not 0.
fn each(vector: &[iovec], done: usize, mut work: impl FnMut(*mut c_void, usize) -> ssize_t) -> ssize_t {
    let (mut sum, mut skip) = (done, done);
    for one in vector {
        let length = one.iov_len.saturating_sub(skip);
        let part = one.iov_base.wrapping_byte_add(one.iov_len - length);
        skip -= one.iov_len - length;
        if length == 0 {
            continue;
        }
        let count = usize::try_from(work(part, length)).unwrap_or(0);
        sum += count;
        if count < length {
            break;
        }
    }
    sum as ssize_t
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(lengths: &[usize], done: usize, limit: usize) -> (ssize_t, Vec<(usize, usize)>) {
        let vector: Vec<iovec> =
            lengths.iter().map(|length| iovec { iov_base: std::ptr::null_mut(), iov_len: *length }).collect();
        let mut seen = Vec::new();
        let sum = each(&vector, done, |part, length| {
            seen.push((part.addr(), length));
            length.min(limit) as ssize_t
        });
        (sum, seen)
    }

    #[test]
    fn the_parts_behind_what_is_done() {
        assert_eq!(parts(&[10, 0, 20, 5], 4, 99), (35, vec![(4, 6), (0, 20), (0, 5)]));
        assert_eq!(parts(&[10, 20], 10, 99), (30, vec![(0, 20)]));
        assert_eq!(parts(&[10, 20, 5], 13, 7), (20, vec![(3, 17)]));
    }
}
