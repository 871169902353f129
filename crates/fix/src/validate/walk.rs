//! One pass over the fields of a message.

use super::{Reason, Rejection, USER_DEFINED_MIN, ValidationOptions};
use crate::decode::Message;
use crate::dictionary::{Dictionary, Member, Section};
use crate::value;

/// Groups within groups: deeper ones are not entered. The standard's own go 5 deep.
const DEPTH_MAX: usize = 16;

/// The parts of a message, in the order in which they have to come.
const HEADER: usize = 0;
const BODY: usize = 1;
const TRAILER: usize = 2;

pub(super) struct Walk<'w, 'a, 'i> {
    message: &'w Message<'a, 'i>,
    dictionary: &'w Dictionary,
    options: &'w ValidationOptions,
    seen: &'w mut Vec<u64>,
    /// The first fault of a field; what is missing or out of order goes before it.
    fault: Option<Rejection>,
}

impl<'w, 'a, 'i> Walk<'w, 'a, 'i> {
    pub(super) fn new(
        message: &'w Message<'a, 'i>,
        dictionary: &'w Dictionary,
        options: &'w ValidationOptions,
        seen: &'w mut Vec<u64>,
    ) -> Self {
        Self { message, dictionary, options, seen, fault: None }
    }

    pub(super) fn run(mut self) -> Result<(), Rejection> {
        if !self.options.use_data_dictionary {
            return self.without_dictionary();
        }
        let dictionary = self.dictionary;
        let definition = dictionary.message(self.message.msg_type());
        let body = definition.ok_or(Rejection { reason: Reason::InvalidMsgType, tag: None })?;
        self.parts(&body.body)?;
        self.fault.map_or(Ok(()), Err)
    }

    /// The checks that need no dictionary: tags are numbers above 0, and values are not empty.
    fn without_dictionary(&self) -> Result<(), Rejection> {
        for place in 0..self.message.len() {
            let Some((tag, value)) = self.message.field(place) else { break };
            if tag == 0 {
                return Err(self.no_tag(place));
            }
            if value.is_empty() && self.options.validate_fields_have_values {
                return Err(Rejection::of(Reason::TagWithoutValue, tag));
            }
        }
        Ok(())
    }

    /// Tag 0 stands for one that was 0 or negative: the answer names the one that was written.
    fn no_tag(&self, place: usize) -> Rejection {
        Rejection { reason: Reason::InvalidTagNumber, tag: self.message.written_tag(place) }
    }

    fn parts(&mut self, body: &Section) -> Result<(), Rejection> {
        let dictionary = self.dictionary;
        let sections = [dictionary.header(), body, dictionary.trailer()];
        let bases = sections.map(|section| self.open(section));
        let (mut place, mut reached) = (0, HEADER);
        while let Some((tag, value)) = self.message.field(place) {
            let found = (HEADER..=TRAILER).find_map(|part| Some((part, sections[part].place(tag)?)));
            let part = found.map_or(BODY, |(part, _)| part);
            if part < reached && self.options.validate_fields_out_of_order {
                return Err(Rejection::of(Reason::TagOutOfOrder, tag));
            }
            reached = part;
            place = match found {
                Some((_, at)) => self.known(place, sections[part], bases[part], at),
                None => {
                    self.unknown(place, tag, value);
                    place + 1
                }
            };
        }
        if self.options.check_required_tags {
            for (section, base) in sections.iter().zip(bases) {
                self.required(section, base)?;
            }
        }
        Ok(())
    }

    /// Makes room for one bit per member; returns where it starts.
    fn open(&mut self, section: &Section) -> usize {
        let base = self.seen.len();
        self.seen.resize(base + section.members().len().div_ceil(64), 0);
        base
    }

    /// Notes that a member is there; returns whether it was before.
    fn note(&mut self, base: usize, at: usize) -> bool {
        let word = &mut self.seen[base + at / 64];
        let bit = 1 << (at % 64);
        let was = *word & bit != 0;
        *word |= bit;
        was
    }

    fn required(&self, section: &Section, base: usize) -> Result<(), Rejection> {
        let is_missing = |at: &usize| self.seen[base + at / 64] >> (at % 64) & 1 == 0;
        let members = section.members();
        let missing = (0..members.len()).find(|at| members[*at].required && is_missing(at));
        missing.map_or(Ok(()), |at| Err(Rejection::of(Reason::RequiredTagMissing, members[at].tag)))
    }

    fn fail(&mut self, rejection: Rejection) {
        self.fault.get_or_insert(rejection);
    }

    /// Checks a field of its section; returns the place after it, or after the group that it opens.
    fn known(&mut self, place: usize, section: &Section, base: usize, at: usize) -> usize {
        let Some((tag, value)) = self.message.field(place) else { return place + 1 };
        if self.note(base, at) {
            self.fail(Rejection::of(Reason::TagAppearsMoreThanOnce, tag));
        }
        self.value(tag, value);
        let member = section.members()[at];
        let dictionary = self.dictionary;
        match member.group.and_then(|group| dictionary.group(group)) {
            Some(entry) => self.group(place + 1, &member, value, entry, 0),
            None => place + 1,
        }
    }

    /// A field that the message does not have.
    fn unknown(&mut self, place: usize, tag: u32, value: &[u8]) {
        if tag == 0 {
            return self.fail(self.no_tag(place));
        }
        if value.is_empty() && self.options.validate_fields_have_values {
            self.fail(Rejection::of(Reason::TagWithoutValue, tag));
        }
        let passes = if tag >= USER_DEFINED_MIN {
            !self.options.validate_user_defined_fields
        } else {
            self.options.allow_unknown_msg_fields
        };
        if passes {
            return;
        }
        if self.dictionary.field(tag).is_none() {
            self.fail(Rejection::of(Reason::InvalidTagNumber, tag));
        } else {
            self.value(tag, value);
            self.fail(Rejection::of(Reason::TagNotDefinedForMessageType, tag));
        }
    }

    fn value(&mut self, tag: u32, value: &[u8]) {
        if value.is_empty() {
            if self.options.validate_fields_have_values {
                self.fail(Rejection::of(Reason::TagWithoutValue, tag));
            }
            return;
        }
        let Some(field) = self.dictionary.field(tag) else { return };
        if !field.kind.accepts(value) {
            self.fail(Rejection::of(Reason::IncorrectDataFormat, tag));
        } else if !self.options.allow_unknown_enum_values && !field.allows(value) {
            self.fail(Rejection::of(Reason::ValueIncorrect, tag));
        }
    }

    /// Checks the entries of a repeating group; returns the place after them.
    fn group(&mut self, mut place: usize, counter: &Member, count: &[u8], entry: &Section, depth: usize) -> usize {
        let stated = value::unsigned(count);
        let mut found = 0;
        while let Some((tag, _)) = self.message.field(place) {
            if entry.place(tag).is_none() || depth > DEPTH_MAX {
                break;
            }
            if entry.delimiter() != Some(tag) && self.options.validate_unordered_group_fields {
                self.fail(Rejection::of(Reason::GroupFieldsOutOfOrder, tag));
            }
            found += 1;
            place = self.entry(place, entry, depth);
        }
        if stated.is_some_and(|stated| stated != found) {
            self.fail(Rejection::of(Reason::IncorrectNumInGroup, counter.tag));
        }
        place
    }

    /// One entry: it ends where its first field comes again, any of its fields comes again, or another field comes.
    fn entry(&mut self, first: usize, entry: &Section, depth: usize) -> usize {
        let base = self.open(entry);
        let mut place = first;
        let mut last = 0;
        while let Some((tag, value)) = self.message.field(place) {
            let Some(at) = entry.place(tag) else { break };
            if self.note(base, at) {
                break;
            }
            if at < last && self.options.validate_unordered_group_fields {
                self.fail(Rejection::of(Reason::GroupFieldsOutOfOrder, tag));
            }
            last = at;
            self.value(tag, value);
            let member = entry.members()[at];
            let dictionary = self.dictionary;
            place = match member.group.and_then(|group| dictionary.group(group)) {
                Some(inner) => self.group(place + 1, &member, value, inner, depth + 1),
                None => place + 1,
            };
        }
        if self.options.check_required_tags
            && let Err(missing) = self.required(entry, base)
        {
            self.fail(missing);
        }
        self.seen.truncate(base);
        place
    }
}
