//! The same bytes through every decoder: field by field the same values.

use crate::value::Value;
use std::collections::HashMap;

/// Compares the fields of all messages of a stream; how many messages and fields. Ends the process at the first difference.
pub fn compare(other: &str, kinds: &[u8], ours: &[Vec<Value>], theirs: &[Vec<Value>]) -> (usize, usize) {
    assert_eq!((ours.len(), theirs.len()), (kinds.len(), kinds.len()), "{other}: the number of messages");
    let mut meanings = Meanings::default();
    let mut fields = 0;
    for (at, kind) in kinds.iter().enumerate() {
        let (ours, theirs) = (&ours[at], &theirs[at]);
        assert_eq!(ours.len(), theirs.len(), "{other}: the fields of type '{}'", kind.escape_ascii());
        for (field, pair) in ours.iter().zip(theirs).enumerate() {
            assert!(
                meanings.agree((*kind, field), pair),
                "{other}: field {field} of type '{}': {pair:?}",
                kind.escape_ascii()
            );
            fields += 1;
        }
    }
    (kinds.len(), fields)
}

/// The meaning of letters to the other decoder, by type and field, both ways.
#[derive(Default)]
struct Meanings {
    of: HashMap<((u8, usize), Vec<u8>), String>,
    letters: HashMap<((u8, usize), String), Vec<u8>>,
}

impl Meanings {
    fn agree(&mut self, place: (u8, usize), pair: (&Value, &Value)) -> bool {
        match pair {
            (Value::Letters(letters), Value::Meaning(meaning)) => {
                let known = self.of.entry((place, letters.clone())).or_insert_with(|| meaning.clone());
                let back = self.letters.entry((place, meaning.clone())).or_insert_with(|| letters.clone());
                known == meaning && back == letters
            }
            (ours, theirs) => ours == theirs,
        }
    }
}
