//! Objects on loan to C, stored under a token.

/// The initial capacity. It grows only while a program holds more at a time, which the engine's frames and buffers
/// bound.
const PLACES: usize = 64;

/// Objects on loan, each with a token that is valid once.
#[derive(Debug)]
pub(super) struct Lent<T> {
    places: Vec<(u32, Option<T>)>,
    free: Vec<u32>,
}

impl<T> Lent<T> {
    pub(super) fn new() -> Self {
        Self { places: Vec::with_capacity(PLACES), free: Vec::with_capacity(PLACES) }
    }

    /// Stores an object; its token is never 0.
    #[inline]
    pub(super) fn lend(&mut self, thing: T) -> u64 {
        let number = self.free.pop().unwrap_or_else(|| {
            self.places.push((0, None));
            self.places.len() as u32 - 1
        });
        let (generation, place) = &mut self.places[number as usize];
        // 0 stands for no loan.
        *generation = generation.wrapping_add(1).max(1);
        *place = Some(thing);
        u64::from(*generation) << 32 | u64::from(number)
    }

    /// The object of a token, which stays on loan.
    pub(super) fn look(&self, token: u64) -> Option<&T> {
        let (generation, place) = self.places.get(token as u32 as usize)?;
        place.as_ref().filter(|_| u64::from(*generation) == token >> 32)
    }

    /// The object of a token, which becomes invalid.
    #[inline]
    pub(super) fn take(&mut self, token: u64) -> Option<T> {
        let number = token as u32;
        let (generation, place) = self.places.get_mut(number as usize)?;
        if u64::from(*generation) != token >> 32 {
            return None;
        }
        let thing = place.take()?;
        self.free.push(number);
        Some(thing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_good_once() {
        let mut lent = Lent::new();
        let tokens: Vec<u64> = (0..100).map(|thing| lent.lend(thing)).collect();
        for (thing, token) in tokens.iter().enumerate() {
            assert_eq!(lent.look(*token), Some(&thing));
            assert_eq!(lent.take(*token), Some(thing));
            assert_eq!(lent.look(*token), None);
            assert_eq!(lent.take(*token), None);
        }
        let again = lent.lend(7);
        assert!(!tokens.contains(&again) && again as u32 == tokens[99] as u32, "the place is used again");
        assert_eq!(lent.take(tokens[99]), None);
        for wrong in [0, u64::MAX, again ^ 1, again + (1 << 32)] {
            assert_eq!(lent.take(wrong), None);
        }
        assert_eq!(lent.places.len(), 100);
    }
}
