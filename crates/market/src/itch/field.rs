//! How a field is read from its place in a message.

use crate::units::{Alpha, Locate, OrderReference, Price, Side};

/// A type of field.
pub(super) trait Field: Sized {
    /// Its length on the wire.
    const BYTES: usize;

    /// Reads it at an offset; the view has checked that it is inside.
    fn read(bytes: &[u8], at: usize) -> Self;
}

#[inline(always)]
fn chunk<const BYTES: usize>(bytes: &[u8], at: usize) -> [u8; BYTES] {
    let mut chunk = [0; BYTES];
    chunk.copy_from_slice(&bytes[at..at + BYTES]);
    chunk
}

macro_rules! integers {
    ($($integer:ty),*) => {$(
        impl Field for $integer {
            const BYTES: usize = size_of::<$integer>();

            #[inline(always)]
            fn read(bytes: &[u8], at: usize) -> Self {
                Self::from_be_bytes(chunk(bytes, at))
            }
        }
    )*};
}

integers!(u8, u16, u32, u64);

/// A Price(4): four bytes on the wire.
impl Field for Price {
    const BYTES: usize = 4;

    #[inline(always)]
    fn read(bytes: &[u8], at: usize) -> Self {
        Self(i64::from(u32::read(bytes, at)))
    }
}

impl Field for Locate {
    const BYTES: usize = 2;

    #[inline(always)]
    fn read(bytes: &[u8], at: usize) -> Self {
        Self(u16::read(bytes, at))
    }
}

impl Field for OrderReference {
    const BYTES: usize = 8;

    #[inline(always)]
    fn read(bytes: &[u8], at: usize) -> Self {
        Self(u64::read(bytes, at))
    }
}

/// `B` or `S`; nothing for any other byte.
impl Field for Option<Side> {
    const BYTES: usize = 1;

    #[inline(always)]
    fn read(bytes: &[u8], at: usize) -> Self {
        match bytes[at] {
            b'B' => Some(Side::Buy),
            b'S' => Some(Side::Sell),
            _ => None,
        }
    }
}

impl<const LENGTH: usize> Field for Alpha<LENGTH> {
    const BYTES: usize = LENGTH;

    #[inline(always)]
    fn read(bytes: &[u8], at: usize) -> Self {
        Self(chunk(bytes, at))
    }
}

/// A timestamp: six bytes, ns since midnight.
#[inline(always)]
pub(super) fn timestamp_ns(bytes: &[u8], at: usize) -> u64 {
    // The two bytes before belong to the tracking number.
    u64::read(bytes, at - 2) & 0xFFFF_FFFF_FFFF
}
