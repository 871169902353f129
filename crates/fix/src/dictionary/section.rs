//! The fields of a header, a body, a trailer or one entry of a repeating group.

/// A field's place in a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// The tag.
    pub tag: u32,
    /// Has to be there.
    pub required: bool,
    /// The repeating group that this field opens: its number in [`Dictionary::group`](super::Dictionary::group).
    pub group: Option<u16>,
}

/// The members of a section in order, with a table from tag to place.
#[derive(Clone, Debug, Default)]
pub struct Section {
    members: Box<[Member]>,
    /// Places by the hash of their tags, one more than the place; 0 is free. Twice as many as members at least, so that a
    /// search ends.
    slots: Box<[u16]>,
}

impl Section {
    /// A section of these members; of a tag named twice the first counts.
    pub(crate) fn new(members: impl IntoIterator<Item = Member>) -> Self {
        let mut seen = std::collections::HashSet::new();
        let members: Box<[Member]> =
            members.into_iter().filter(|member| seen.insert(member.tag)).take(usize::from(u16::MAX) - 1).collect();
        let mut slots = vec![0u16; (2 * members.len()).next_power_of_two().max(2)].into_boxed_slice();
        for (place, member) in members.iter().enumerate() {
            let mut at = hash(member.tag, slots.len());
            while slots[at] != 0 {
                at = (at + 1) & (slots.len() - 1);
            }
            slots[at] = place as u16 + 1;
        }
        Self { members, slots }
    }

    /// The place of a field in this section.
    pub fn place(&self, tag: u32) -> Option<usize> {
        let mut at = hash(tag, self.slots.len().max(1));
        loop {
            let place = usize::from(*self.slots.get(at)?).checked_sub(1)?;
            if self.members[place].tag == tag {
                return Some(place);
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
    }

    /// The member with this tag.
    pub fn member(&self, tag: u32) -> Option<&Member> {
        self.place(tag).map(|place| &self.members[place])
    }

    /// All members in the order of the dictionary.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// The field that begins each entry of a repeating group.
    pub fn delimiter(&self) -> Option<u32> {
        self.members.first().map(|member| member.tag)
    }
}

/// Multiplicative hashing; `size` is a power of two.
pub(super) fn hash(tag: u32, size: usize) -> usize {
    (tag.wrapping_mul(0x9e37_79b1) >> 7) as usize & (size - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_member_is_found_and_no_other() {
        let members =
            |tags: &[u32]| Section::new(tags.iter().map(|tag| Member { tag: *tag, required: false, group: None }));
        let tags: Vec<u32> = (1..3000).map(|tag| tag * 7).collect();
        let section = members(&tags);
        for tag in 0..30_000 {
            assert_eq!(section.place(tag), tags.iter().position(|one| *one == tag), "{tag}");
        }
        assert_eq!(members(&[5, 6, 5]).members().len(), 2);
        assert_eq!(Section::default().place(8), None);
        assert_eq!(members(&[]).place(8), None);
        assert_eq!(members(&[3, 1]).delimiter(), Some(3));
    }
}
