//! An encoder for tests: fields one behind the other in the order of the specification, without any offset.

/// Writes a message of values drawn from `values`, and hands each of them back.
pub(crate) struct Encoder<'a> {
    pub(crate) bytes: Vec<u8>,
    values: &'a [u64],
}

impl<'a> Encoder<'a> {
    /// Begins a message: type, locate, tracking number, timestamp.
    pub(crate) fn new(kind: u8, values: &'a [u64]) -> (Self, (u16, u16, u64)) {
        let mut encoder = Self { bytes: vec![kind], values };
        let (locate, tracking) = (encoder.u16(), encoder.u16());
        let timestamp = encoder.draw() & 0xFFFF_FFFF_FFFF;
        encoder.bytes.extend_from_slice(&timestamp.to_be_bytes()[2..]);
        (encoder, (locate, tracking, timestamp))
    }

    fn draw(&mut self) -> u64 {
        let (first, rest) = self.values.split_first().expect("enough values");
        self.values = rest;
        *first
    }

    pub(crate) fn u8(&mut self) -> u8 {
        let value = self.draw() as u8;
        self.bytes.push(value);
        value
    }

    pub(crate) fn u16(&mut self) -> u16 {
        let value = self.draw() as u16;
        self.bytes.extend_from_slice(&value.to_be_bytes());
        value
    }

    pub(crate) fn u32(&mut self) -> u32 {
        let value = self.draw() as u32;
        self.bytes.extend_from_slice(&value.to_be_bytes());
        value
    }

    pub(crate) fn u64(&mut self) -> u64 {
        let value = self.draw();
        self.bytes.extend_from_slice(&value.to_be_bytes());
        value
    }

    /// Bytes of a name: any bytes at all, as a hostile sender has them.
    pub(crate) fn alpha<const BYTES: usize>(&mut self) -> [u8; BYTES] {
        let value = self.draw().to_le_bytes();
        let name = std::array::from_fn(|at| value[at]);
        self.bytes.extend_from_slice(&name);
        name
    }
}
