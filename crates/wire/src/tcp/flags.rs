//! The control bits of a segment.

use core::fmt;
use core::ops::BitOr;

/// Control bits (RFC 9293 section 3.1, with those of RFC 3168).
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Flags(pub u8);

impl Flags {
    /// None at all.
    pub const NONE: Self = Self(0);
    /// The sender has no more to say.
    pub const FIN: Self = Self(0x01);
    /// Take up my sequence numbers.
    pub const SYN: Self = Self(0x02);
    /// Abort.
    pub const RST: Self = Self(0x04);
    /// Give it to the application now.
    pub const PSH: Self = Self(0x08);
    /// The acknowledgement number counts.
    pub const ACK: Self = Self(0x10);
    /// The urgent pointer counts.
    pub const URG: Self = Self(0x20);
    /// Congestion was seen (RFC 3168).
    pub const ECE: Self = Self(0x40);
    /// The congestion window was made smaller (RFC 3168).
    pub const CWR: Self = Self(0x80);

    /// Whether all of `flags` are set.
    #[inline]
    pub fn has(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// Whether any of `flags` is set.
    #[inline]
    pub fn has_any(self, flags: Self) -> bool {
        self.0 & flags.0 != 0
    }

    /// These without `flags`.
    #[must_use]
    #[inline]
    pub fn without(self, flags: Self) -> Self {
        Self(self.0 & !flags.0)
    }
}

impl BitOr for Flags {
    type Output = Self;

    #[inline]
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// As tcpdump shows them: `S`, `S.`, `P.`, `F.`, `R`, `.`; `none`.
impl fmt::Display for Flags {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letters = [
            (Self::FIN, "F"),
            (Self::SYN, "S"),
            (Self::RST, "R"),
            (Self::PSH, "P"),
            (Self::ACK, "."),
            (Self::URG, "U"),
            (Self::ECE, "E"),
            (Self::CWR, "W"),
        ];
        if *self == Self::NONE {
            return formatter.write_str("none");
        }
        letters.iter().filter(|(flag, _)| self.has(*flag)).try_for_each(|(_, letter)| formatter.write_str(letter))
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Flags({self})")
    }
}
