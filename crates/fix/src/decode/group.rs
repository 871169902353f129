//! Repeating groups, found by a dictionary while they are read: nothing is built beforehand.

use super::{Field, Message};
use crate::dictionary::{Dictionary, Section};

/// Groups within groups that are entered; the standard's own go 5 deep.
const DEPTH_MAX: usize = 16;

/// One entry of a repeating group.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a, 'i> {
    raw: &'a [u8],
    fields: &'i [Field],
    dictionary: &'i Dictionary,
    section: &'i Section,
}

/// The entries of a repeating group, as many as there are: NumInGroup is not believed.
#[derive(Clone, Debug)]
pub struct Entries<'a, 'i> {
    raw: &'a [u8],
    /// The unread fields, which may extend beyond the group.
    rest: &'i [Field],
    dictionary: &'i Dictionary,
    section: Option<&'i Section>,
}

impl<'a, 'i> Message<'a, 'i> {
    /// The entries of the repeating group that this field counts, in header, body or trailer as the dictionary has it. None if
    /// the message or the dictionary has no such group.
    pub fn group(&self, dictionary: &'i Dictionary, count_tag: u32) -> Entries<'a, 'i> {
        let body = dictionary.message(self.msg_type()).map(|message| &message.body);
        let mut sections = body.into_iter().chain([dictionary.header(), dictionary.trailer()]);
        let section = sections.find_map(|section| group_of(dictionary, section, count_tag));
        entries(self.raw, self.fields, dictionary, section, count_tag)
    }
}

impl<'a, 'i> Entry<'a, 'i> {
    /// The entries of a group within this entry.
    pub fn group(&self, count_tag: u32) -> Entries<'a, 'i> {
        let section = group_of(self.dictionary, self.section, count_tag);
        entries(self.raw, self.fields, self.dictionary, section, count_tag)
    }

    /// The value of the first field with this tag. A field of a group within the entry is found, too: a tag stands in one
    /// place only.
    pub fn get(&self, tag: u32) -> Option<&'a [u8]> {
        self.fields.iter().find(|field| field.tag == tag).map(|field| value(self.raw, field))
    }

    /// All fields in order, those of groups within the entry among them.
    pub fn fields(&self) -> impl ExactSizeIterator<Item = (u32, &'a [u8])> + Clone + use<'a, 'i> {
        let raw = self.raw;
        self.fields.iter().map(move |field| (field.tag, value(raw, field)))
    }
}

fn value<'a>(raw: &'a [u8], field: &Field) -> &'a [u8] {
    &raw[field.start as usize..field.end as usize]
}

fn group_of<'i>(dictionary: &'i Dictionary, section: &'i Section, count_tag: u32) -> Option<&'i Section> {
    dictionary.group(section.member(count_tag)?.group?)
}

fn entries<'a, 'i>(
    raw: &'a [u8],
    fields: &'i [Field],
    dictionary: &'i Dictionary,
    section: Option<&'i Section>,
    count_tag: u32,
) -> Entries<'a, 'i> {
    let counter = fields.iter().position(|field| field.tag == count_tag);
    let rest = counter.map_or(&fields[..0], |place| &fields[place + 1..]);
    Entries { raw, rest, dictionary, section }
}

impl<'a, 'i> Iterator for Entries<'a, 'i> {
    type Item = Entry<'a, 'i>;

    fn next(&mut self) -> Option<Entry<'a, 'i>> {
        let section = self.section?;
        let count = entry_fields(self.rest, section, self.dictionary, 0);
        if count == 0 {
            self.section = None;
            return None;
        }
        let (fields, rest) = self.rest.split_at(count);
        self.rest = rest;
        Some(Entry { raw: self.raw, fields, dictionary: self.dictionary, section })
    }
}

/// The number of fields of the first entry: up to the repetition of its first field, or a field that is not the
/// group's.
fn entry_fields(fields: &[Field], section: &Section, dictionary: &Dictionary, depth: usize) -> usize {
    let Some(first) = fields.first().filter(|field| section.place(field.tag).is_some()) else { return 0 };
    let mut count = 0;
    while let Some(field) = fields.get(count) {
        let Some(member) = section.member(field.tag).filter(|_| count == 0 || field.tag != first.tag) else { break };
        count += 1;
        let Some(inner) = member.group.and_then(|group| dictionary.group(group)).filter(|_| depth < DEPTH_MAX) else {
            continue;
        };
        loop {
            let more = entry_fields(&fields[count..], inner, dictionary, depth + 1);
            if more == 0 {
                break;
            }
            count += more;
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use crate::Index;
    use crate::decode::tests::whole;
    use crate::dictionary::{Dictionary, Version};

    #[test]
    fn groups_within_groups_are_read() {
        let dictionary = Dictionary::fixed(Version::Fix44);
        let body = "35=D|34=1|11=x|453=2|448=A|447=D|802=2|523=a|803=1|523=b|803=2|448=B|452=3|55=MSFT|";
        let (bytes, mut index) = (whole("FIX.4.4", body), Index::default());
        let message = index.decode(&bytes).unwrap();
        let parties: Vec<_> = message.group(&dictionary, 453).collect();
        let ids: Vec<_> = parties.iter().map(|party| party.get(448).unwrap()).collect();
        assert_eq!(ids, [b"A", b"B"]);
        let subs: Vec<_> = parties[0].group(802).map(|sub| (sub.required(523).unwrap(), sub.unsigned(803))).collect();
        assert_eq!(subs, [(&b"a"[..], Ok(1)), (&b"b"[..], Ok(2))]);
        assert_eq!(parties[1].group(802).count(), 0);
        assert_eq!(parties[1].fields().map(|(tag, _)| tag).collect::<Vec<_>>(), [448, 452]);
        assert_eq!(message.group(&dictionary, 555).count(), 0);
        assert_eq!(message.group(&dictionary, 11).count(), 0);
    }

    #[test]
    fn the_header_has_groups_too() {
        let dictionary = Dictionary::fixed(Version::Fix44);
        let body = "35=0|34=1|627=2|628=A|628=B|630=7|112=x|";
        let (bytes, mut index) = (whole("FIX.4.4", body), Index::default());
        let hops: Vec<_> =
            index.decode(&bytes).unwrap().group(&dictionary, 627).map(|hop| hop.fields().len()).collect();
        assert_eq!(hops, [1, 2]);
    }
}
