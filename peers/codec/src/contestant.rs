//! What each codec has to be able to do.

/// A decoder that is made once and used for message after message.
pub trait Contestant {
    /// Its name and version.
    fn name(&self) -> &'static str;

    /// Decodes one whole message, verifies CheckSum and BodyLength, and looks up the values of these tags; how many fields it
    /// has found and how many bytes these values have. Panics where it takes a good order for a bad one.
    fn decode(&mut self, order: &[u8], read: &[u32]) -> (usize, usize);

    /// Whether it takes this message.
    fn accepts(&mut self, message: &[u8]) -> bool;
}

/// Who finds something else than the first, or takes what is damaged, is not measured.
pub fn agree(contestants: &mut [Box<dyn Contestant>], orders: &[Vec<u8>], read: &[u32]) {
    let Some((first, others)) = contestants.split_first_mut() else { return };
    for order in orders {
        let expected = first.decode(order, read);
        for other in others.iter_mut() {
            assert_eq!(other.decode(order, read).1, expected.1, "{} against {}", other.name(), first.name());
        }
    }
    let mut damaged = orders[0].clone();
    let at = damaged.len() / 2;
    damaged[at] ^= 1;
    for contestant in contestants.iter_mut() {
        assert!(contestant.accepts(&orders[0]) && !contestant.accepts(&damaged), "{}", contestant.name());
    }
}
