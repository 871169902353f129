//! fix-codec-rs: CheckSum and BodyLength are verified by calls of their own.

use crate::contestant::Contestant;
use fix_codec_rs::decoder::Decoder;

#[derive(Default)]
pub struct FixCodec {
    decoder: Decoder,
}

impl Contestant for FixCodec {
    fn name(&self) -> &'static str {
        "fix-codec-rs 0.3"
    }

    fn decode(&mut self, order: &[u8], read: &[u32]) -> (usize, usize) {
        let message = self.decoder.decode(order).expect("a good order");
        message.validate_body_length().and_then(|()| message.validate_checksum()).expect("a good order");
        (message.len(), read.iter().map(|tag| message.find(*tag).expect("it is there").value.len()).sum())
    }

    fn accepts(&mut self, message: &[u8]) -> bool {
        let Ok(message) = self.decoder.decode(message) else { return false };
        message.validate_body_length().and_then(|()| message.validate_checksum()).is_ok()
    }
}
