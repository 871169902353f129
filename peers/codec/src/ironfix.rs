//! ironfix-tagvalue: into an index that is made once, as its documentation advises for a hot path; it verifies both by default.

use crate::contestant::Contestant;
use ironfix_tagvalue::{Decoder, FieldIndex};

pub struct Ironfix {
    index: FieldIndex,
}

impl Default for Ironfix {
    fn default() -> Self {
        Self { index: FieldIndex::with_capacity(64) }
    }
}

impl Contestant for Ironfix {
    fn name(&self) -> &'static str {
        "ironfix-tagvalue 0.5"
    }

    fn decode(&mut self, order: &[u8], read: &[u32]) -> (usize, usize) {
        let message = Decoder::new(order).decode_into(&mut self.index).expect("a good order");
        let found = read.iter().map(|tag| message.get_field(*tag).expect("it is there").value.len()).sum();
        (message.field_count(), found)
    }

    fn accepts(&mut self, message: &[u8]) -> bool {
        Decoder::new(message).decode_into(&mut self.index).is_ok()
    }
}
