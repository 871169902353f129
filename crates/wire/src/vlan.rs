//! VLAN tags: IEEE 802.1Q, and a second one as of 802.1ad.
//!
//! ```text
//!  0               16      19  20          32
//!  | 0x8100/0x88a8 |priority|DE|   VLAN id   |   then the type of what follows
//! ```

use crate::{Refusal, ether_type::EtherType};

/// The length of one tag, bytes.
pub(crate) const TAG_BYTES: usize = 4;

/// The most tags that are parsed: the customer's, and the provider's in front of it. No trading network uses more.
pub(crate) const TAGS_MAX: usize = 2;

/// The id of a VLAN, 0 to 4094. Zero means no VLAN: the tag then only carries the priority.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VlanId(u16);

impl VlanId {
    /// Makes an id; `None` above 4094: 4095 is reserved, and the field ends there.
    pub fn new(number: u16) -> Option<Self> {
        (number < 4095).then_some(Self(number))
    }

    /// The number.
    pub fn number(self) -> u16 {
        self.0
    }
}

/// The kind of a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// 802.1Q, type 0x8100.
    Customer,
    /// 802.1ad, type 0x88a8: the outer one of two.
    Service,
}

impl Kind {
    /// The EtherType of such a tag.
    pub fn ether_type(self) -> EtherType {
        match self {
            Self::Customer => EtherType::CUSTOMER_TAG,
            Self::Service => EtherType::SERVICE_TAG,
        }
    }

    #[inline]
    pub(crate) fn of(ether_type: EtherType) -> Option<Self> {
        match ether_type {
            EtherType::CUSTOMER_TAG => Some(Self::Customer),
            EtherType::SERVICE_TAG => Some(Self::Service),
            _ => None,
        }
    }
}

/// One tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tag {
    kind: Kind,
    control: u16,
}

impl Tag {
    /// A plain 802.1Q tag without priority.
    pub fn customer(id: VlanId) -> Self {
        Self::new(Kind::Customer, id, 0, false)
    }

    /// A tag of any kind. The low three bits of `priority` (0 to 7, IEEE 802.1p) are used.
    pub fn new(kind: Kind, id: VlanId, priority: u8, drop_eligible: bool) -> Self {
        let control = u16::from(priority & 7) << 13 | u16::from(drop_eligible) << 12 | id.0;
        Self { kind, control }
    }

    /// Parses the 16 bits after the EtherType.
    #[inline]
    pub(crate) fn from_control(kind: Kind, control: u16) -> Result<Self, Refusal> {
        if control & 0xfff == 0xfff { Err(Refusal::VlanReserved) } else { Ok(Self { kind, control }) }
    }

    /// The kind: 802.1Q or 802.1ad.
    pub fn kind(self) -> Kind {
        self.kind
    }

    /// The VLAN.
    pub fn id(self) -> VlanId {
        VlanId(self.control & 0xfff)
    }

    /// The priority, 0 to 7.
    pub fn priority(self) -> u8 {
        (self.control >> 13) as u8
    }

    /// The 16 bits after the EtherType.
    pub fn control(self) -> u16 {
        self.control
    }
}

/// No tag, one, or two; the outermost first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tags {
    outer: Option<Tag>,
    inner: Option<Tag>,
}

impl Tags {
    /// No tag.
    pub const NONE: Self = Self { outer: None, inner: None };

    /// One tag.
    pub fn one(tag: Tag) -> Self {
        Self { outer: Some(tag), inner: None }
    }

    /// Two tags.
    pub fn two(outer: Tag, inner: Tag) -> Self {
        Self { outer: Some(outer), inner: Some(inner) }
    }

    /// The tags with one more inside.
    #[inline]
    pub(crate) fn with(self, tag: Tag) -> Result<Self, Refusal> {
        match (self.outer, self.inner) {
            (None, _) => Ok(Self::one(tag)),
            (Some(outer), None) => Ok(Self::two(outer, tag)),
            _ => Err(Refusal::VlanTooManyTags),
        }
    }

    /// The outermost tag.
    #[inline]
    pub fn outer(&self) -> Option<Tag> {
        self.outer
    }

    /// The second tag.
    #[inline]
    pub fn inner(&self) -> Option<Tag> {
        self.inner
    }

    /// All of them, the outermost first.
    pub fn iter(&self) -> impl Iterator<Item = Tag> + use<> {
        [self.outer, self.inner].into_iter().flatten()
    }

    /// The number of tags, 0 to 2.
    pub fn len(&self) -> usize {
        usize::from(self.outer.is_some()) + usize::from(self.inner.is_some())
    }

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.outer.is_none()
    }
}
