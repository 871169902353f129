//! How a field stands in a message.

use super::letters::*;
use super::{ClOrdId, UserRefNum};
use crate::units::{Alpha, OrderReference, Price};

/// A type of field.
pub(super) trait Wire: Sized {
    /// Its length on the wire.
    const BYTES: usize;

    /// Reads it at an offset; the view has checked that it is inside.
    fn read(bytes: &[u8], at: usize) -> Self;
}

/// A type of field that is written, too.
pub(super) trait Put: Wire {
    /// Writes it at an offset; the builder has checked that it is inside.
    fn put(self, bytes: &mut [u8], at: usize);
}

#[inline(always)]
fn chunk<const BYTES: usize>(bytes: &[u8], at: usize) -> [u8; BYTES] {
    let mut chunk = [0; BYTES];
    chunk.copy_from_slice(&bytes[at..at + BYTES]);
    chunk
}

macro_rules! integers {
    ($($integer:ty),*) => {$(
        impl Wire for $integer {
            const BYTES: usize = size_of::<$integer>();

            #[inline(always)]
            fn read(bytes: &[u8], at: usize) -> Self {
                Self::from_be_bytes(chunk(bytes, at))
            }
        }

        impl Put for $integer {
            #[inline(always)]
            fn put(self, bytes: &mut [u8], at: usize) {
                bytes[at..at + Self::BYTES].copy_from_slice(&self.to_be_bytes());
            }
        }
    )*};
}

integers!(u8, u16, u32, u64, i32);

/// Types that are an integer on the wire.
macro_rules! newtypes {
    ($($name:ident: $integer:ty),*) => {$(
        impl Wire for $name {
            const BYTES: usize = size_of::<$integer>();

            #[inline(always)]
            fn read(bytes: &[u8], at: usize) -> Self {
                Self(<$integer>::read(bytes, at))
            }
        }

        impl Put for $name {
            #[inline(always)]
            fn put(self, bytes: &mut [u8], at: usize) {
                self.0.put(bytes, at);
            }
        }
    )*};
}

newtypes!(UserRefNum: u32, OrderReference: u64);

/// Eight bytes. What is beyond the range of a price is read as the highest one: no exchange has it.
impl Wire for Price {
    const BYTES: usize = 8;

    #[inline(always)]
    fn read(bytes: &[u8], at: usize) -> Self {
        Self(i64::try_from(u64::read(bytes, at)).unwrap_or(i64::MAX))
    }
}

/// A negative price is written as 0; the builders refuse it before.
impl Put for Price {
    #[inline(always)]
    fn put(self, bytes: &mut [u8], at: usize) {
        u64::try_from(self.0).unwrap_or(0).put(bytes, at);
    }
}

impl<const LENGTH: usize> Wire for Alpha<LENGTH> {
    const BYTES: usize = LENGTH;

    #[inline(always)]
    fn read(bytes: &[u8], at: usize) -> Self {
        Self(chunk(bytes, at))
    }
}

impl<const LENGTH: usize> Put for Alpha<LENGTH> {
    #[inline(always)]
    fn put(self, bytes: &mut [u8], at: usize) {
        bytes[at..at + LENGTH].copy_from_slice(&self.0);
    }
}

macro_rules! letters {
    ($($name:ident),*) => {$(
        /// One letter; nothing if it has no meaning in this version.
        impl Wire for Option<$name> {
            const BYTES: usize = 1;

            #[inline(always)]
            fn read(bytes: &[u8], at: usize) -> Self {
                $name::of(bytes[at])
            }
        }
    )*};
}

letters!(OrderSide, TimeInForce, Display, Capacity, CrossType);

const _: () = assert!(<ClOrdId as Wire>::BYTES == 14);
