//! fefix (FerrumFIX): its decoder for tag=value, with its dictionary of FIX 4.4, and lookup by tag; it verifies both by default.

use crate::contestant::Contestant;
use fefix::Dictionary;
use fefix::prelude::FieldAccess;
use fefix::tagvalue::{Config, Decoder};

pub struct Fefix {
    decoder: Decoder<Config>,
}

impl Default for Fefix {
    fn default() -> Self {
        Self { decoder: Decoder::new(Dictionary::fix44()) }
    }
}

impl Contestant for Fefix {
    fn name(&self) -> &'static str {
        "fefix 0.7"
    }

    fn decode(&mut self, order: &[u8], read: &[u32]) -> (usize, usize) {
        let message = self.decoder.decode(order).expect("a good order");
        (message.len(), read.iter().map(|tag| message.fv_raw(tag).expect("it is there").len()).sum())
    }

    fn accepts(&mut self, message: &[u8]) -> bool {
        self.decoder.decode(message).is_ok()
    }
}
