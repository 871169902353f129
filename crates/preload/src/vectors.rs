//! The program's buffers, as slices.

use crate::answer::Answer;
use libc::{c_void, iovec, size_t};
use rustix::io::Errno;
use std::marker::PhantomData;

/// The most buffers of one call (UIO_MAXIOV, linux/uio.h).
pub(crate) const VECTORS_MAX: usize = 1024;

/// The most bytes of one call (MAX_RW_COUNT, linux/fs.h).
const BYTES_MAX: usize = 0x7fff_f000;

/// Buffers to be filled.
#[derive(Debug)]
pub(crate) struct Scatter<'a>(&'a [iovec], PhantomData<&'a mut [u8]>);

/// Buffers to be sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gather<'a>(&'a [iovec]);

/// One buffer.
pub(crate) fn single(buffer: *const c_void, length: size_t) -> [iovec; 1] {
    [iovec { iov_base: buffer.cast_mut(), iov_len: length.min(BYTES_MAX) }]
}

/// The buffers of a call.
///
/// # Safety
/// `vector` is valid for `count` entries, or null.
pub(crate) unsafe fn list<'a>(vector: *const iovec, count: usize) -> Answer<&'a [iovec]> {
    if count > VECTORS_MAX {
        return Err(Errno::INVAL.into());
    }
    if count == 0 {
        return Ok(&[]);
    }
    if vector.is_null() {
        return Err(Errno::FAULT.into());
    }
    // SAFETY: the caller promises it.
    Ok(unsafe { std::slice::from_raw_parts(vector, count) })
}

/// Refuses what the kernel refuses: null where bytes are to be, and more bytes than a result can tell.
fn check(list: &[iovec]) -> Answer<()> {
    sum(list)?;
    let has_null = list.iter().any(|one| one.iov_base.is_null() && one.iov_len != 0);
    if has_null { Err(Errno::FAULT.into()) } else { Ok(()) }
}

/// Bytes of a list; more than a result can tell are refused.
fn sum(list: &[iovec]) -> Answer<usize> {
    let add = |sum: usize, one: &iovec| sum.checked_add(one.iov_len).filter(|sum| isize::try_from(*sum).is_ok());
    Ok(list.iter().try_fold(0, add).ok_or(Errno::INVAL)?)
}

impl<'a> Scatter<'a> {
    /// # Safety
    /// Each buffer is valid for writes, and nobody else's, while the value is used.
    pub(crate) unsafe fn new(list: &'a [iovec]) -> Answer<Self> {
        check(list)?;
        Ok(Self(list, PhantomData))
    }

    /// Buffers that tell how much is to be discarded: they need not be valid, and [`Scatter::fill`] is not called.
    ///
    /// # Safety
    /// As that: nothing is filled.
    pub(crate) unsafe fn discarding(list: &'a [iovec]) -> Answer<Self> {
        sum(list)?;
        Ok(Self(list, PhantomData))
    }

    /// Bytes of all buffers.
    pub(crate) fn len(&self) -> usize {
        self.0.iter().map(|one| one.iov_len).sum()
    }

    /// Hands each part that lies behind the first `skip` bytes to `fill`, which returns how many bytes it has filled; ends with
    /// the first that is not filled wholly. Returns the sum.
    pub(crate) fn fill<E>(
        &mut self,
        skip: usize,
        mut fill: impl FnMut(&mut [u8]) -> Result<usize, E>,
    ) -> Result<usize, E> {
        let (mut skip, mut sum) = (skip, 0);
        for one in self.0 {
            if skip >= one.iov_len {
                skip -= one.iov_len;
                continue;
            }
            // SAFETY: `new` was promised that the buffer is valid and nobody else's; it is not empty, so not null.
            let bytes = unsafe { std::slice::from_raw_parts_mut(one.iov_base.cast::<u8>(), one.iov_len) };
            let part = &mut bytes[std::mem::take(&mut skip)..];
            let length = part.len();
            let count = match fill(part) {
                Ok(count) => count,
                Err(_) if sum > 0 => break,
                Err(error) => return Err(error),
            };
            sum += count;
            if count < length {
                break;
            }
        }
        Ok(sum)
    }
}

impl<'a> Gather<'a> {
    /// # Safety
    /// Each buffer is valid for reads while the value is used.
    pub(crate) unsafe fn new(list: &'a [iovec]) -> Answer<Self> {
        check(list)?;
        Ok(Self(list))
    }

    /// Bytes of all buffers.
    pub(crate) fn len(&self) -> usize {
        self.0.iter().map(|one| one.iov_len).sum()
    }

    /// The parts behind the first `skip` bytes.
    pub(crate) fn parts(&self, skip: usize) -> impl Iterator<Item = &'a [u8]> + 'a {
        let mut skip = skip;
        self.0.iter().filter_map(move |one| {
            if skip >= one.iov_len {
                skip -= one.iov_len;
                return None;
            }
            // SAFETY: `new` was promised that the buffer is valid; it is not empty, so not null.
            let bytes = unsafe { std::slice::from_raw_parts(one.iov_base.cast_const().cast::<u8>(), one.iov_len) };
            Some(&bytes[std::mem::take(&mut skip)..])
        })
    }
}
