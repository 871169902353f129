//! Netlink attributes: length (16 bits), type (16 bits), bytes, padded to four (linux/netlink.h, struct nlattr).

const HEADER: usize = 4;
/// Mask of the type, without NLA_F_NESTED and NLA_F_NET_BYTEORDER.
const TYPE_MASK: u16 = 0x3fff;
const NESTED: u16 = 0x8000;
/// The most attributes read from one message: a feature set has under a hundred bits, a NIC hundreds of queues.
const ATTRIBUTES_MAX: usize = 16_384;

/// Attributes to send.
#[derive(Debug, Default)]
pub(crate) struct Attributes(Vec<u8>);

impl Attributes {
    pub(crate) fn bytes(mut self, kind: u16, value: &[u8]) -> Self {
        let length = u16::try_from(HEADER + value.len()).expect("what we send is short");
        self.0.extend(length.to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    pub(crate) fn u8(self, kind: u16, value: u8) -> Self {
        self.bytes(kind, &[value])
    }

    pub(crate) fn u32(self, kind: u16, value: u32) -> Self {
        self.bytes(kind, &value.to_ne_bytes())
    }

    pub(crate) fn text(self, kind: u16, value: &str) -> Self {
        self.bytes(kind, format!("{value}\0").as_bytes())
    }

    pub(crate) fn nest(self, kind: u16, inner: Self) -> Self {
        self.bytes(kind | NESTED, &inner.into_bytes())
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

/// One received attribute.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attribute<'a> {
    pub(crate) kind: u16,
    pub(crate) value: &'a [u8],
}

impl<'a> Attribute<'a> {
    /// Returns a number of one, two, four or eight bytes.
    pub(crate) fn number(&self) -> Option<u64> {
        match *self.value {
            [a] => Some(a.into()),
            [a, b] => Some(u16::from_ne_bytes([a, b]).into()),
            [a, b, c, d] => Some(u32::from_ne_bytes([a, b, c, d]).into()),
            [a, b, c, d, e, f, g, h] => Some(u64::from_ne_bytes([a, b, c, d, e, f, g, h])),
            _ => None,
        }
    }

    pub(crate) fn text(&self) -> String {
        let end = self.value.iter().position(|byte| *byte == 0).unwrap_or(self.value.len());
        String::from_utf8_lossy(&self.value[..end]).into_owned()
    }

    pub(crate) fn inner(&self) -> impl Iterator<Item = Attribute<'a>> + use<'a> {
        parse(self.value)
    }
}

/// Parses attributes, up to the first that does not fit.
pub(crate) fn parse(bytes: &[u8]) -> impl Iterator<Item = Attribute<'_>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let (head, _) = rest.split_at_checked(HEADER)?;
        let length = usize::from(u16::from_ne_bytes([head[0], head[1]]));
        let value = rest.get(HEADER..length)?;
        let kind = u16::from_ne_bytes([head[2], head[3]]) & TYPE_MASK;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(Attribute { kind, value })
    })
    .take(ATTRIBUTES_MAX)
}

/// Returns the first attribute of a type.
pub(crate) fn find(bytes: &[u8], kind: u16) -> Option<Attribute<'_>> {
    parse(bytes).find(|attribute| attribute.kind == kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_built_is_read_back() {
        let inner = Attributes::default().text(2, "eth0").u8(3, 1);
        let bytes = Attributes::default().nest(1, inner).u32(4, 7).into_bytes();
        assert_eq!(bytes.len() % 4, 0);
        let header = find(&bytes, 1).unwrap();
        assert_eq!(header.inner().map(|one| one.kind).collect::<Vec<_>>(), [2, 3]);
        assert_eq!(header.inner().next().unwrap().text(), "eth0");
        assert_eq!(find(&bytes, 4).unwrap().number(), Some(7));
    }

    #[test]
    fn what_does_not_fit_ends_the_list() {
        for bytes in [&[][..], &[3, 0, 1, 0], &[9, 0, 1, 0, 5], &[0, 0, 0, 0, 0, 0, 0, 0], &[4, 0]] {
            assert_eq!(parse(bytes).count(), 0, "{bytes:?}");
        }
        assert_eq!(parse(&[5, 0, 1, 0, 9]).next().unwrap().number(), Some(9), "the last one needs no padding");
        assert_eq!(parse(&[4, 0, 1, 0]).next().unwrap().number(), None);
    }
}
