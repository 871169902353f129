//! What is made of the fields: a sum that every contestant has to have. Additions do not wait for each other, so that the sum costs less than the
//! decoding.

#[derive(Default)]
pub struct Sum(u64);

impl Sum {
    #[inline(always)]
    pub fn add(&mut self, value: u64) {
        self.0 = self.0.wrapping_add(value);
    }

    /// An optional value: null counts as all ones.
    #[inline(always)]
    pub fn optional(&mut self, value: Option<u64>) {
        self.add(value.unwrap_or(u64::MAX));
    }

    pub fn value(&self) -> u64 {
        self.0
    }
}
