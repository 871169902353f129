//! The instruments of the day: symbols by locate.
//!
//! ```text
//!  0        8           12         13       14    15             16       18   19
//!  | symbol | round lot | category | status | ETP | authenticity | locate | 1  | 0 ... 56
//! ```

use super::RECORD_WORDS;
use crate::itch::StockDirectory;
use crate::units::{Locate, Symbol};
use sidestep_ring::seqlock::{ReadError, Reader};

/// An instrument of a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instrument {
    /// Its number on this day.
    pub locate: Locate,
    /// Its name.
    pub symbol: Symbol,
    /// Round lot.
    pub round_lot: u32,
    /// Market category, a letter of the feed.
    pub market_category: u8,
    /// Financial status, a letter of the feed.
    pub financial_status: u8,
    /// `Y` if it is an exchange-traded product.
    pub etp: u8,
    /// `P` production, `T` test.
    pub authenticity: u8,
}

const IS_PRESENT: u64 = 1 << 16;

impl Instrument {
    /// The instrument of a stock directory message.
    pub fn of_itch(message: &StockDirectory<'_>) -> Self {
        Self {
            locate: message.locate(),
            symbol: message.stock(),
            round_lot: message.round_lot(),
            market_category: message.market_category(),
            financial_status: message.financial_status(),
            etp: message.etp(),
            authenticity: message.authenticity(),
        }
    }

    pub(super) fn words(&self) -> [u64; RECORD_WORDS] {
        let letters = [self.market_category, self.financial_status, self.etp, self.authenticity];
        let facts = u64::from(self.round_lot) | u64::from(u32::from_le_bytes(letters)) << 32;
        [u64::from_le_bytes(self.symbol.0), facts, u64::from(self.locate.0) | IS_PRESENT, 0, 0, 0, 0]
    }

    pub(super) fn of_words(words: &[u64; RECORD_WORDS]) -> Option<Self> {
        let &[symbol, facts, locate, ..] = words;
        let [market_category, financial_status, etp, authenticity] = ((facts >> 32) as u32).to_le_bytes();
        (locate & IS_PRESENT != 0).then_some(Self {
            locate: Locate(locate as u16),
            symbol: crate::units::Alpha(symbol.to_le_bytes()),
            round_lot: facts as u32,
            market_category,
            financial_status,
            etp,
            authenticity,
        })
    }
}

/// A reader of the instruments.
#[derive(Clone)]
pub struct Directory {
    reader: Reader<RECORD_WORDS>,
}

impl Directory {
    /// Reads this array.
    pub fn new(reader: Reader<RECORD_WORDS>) -> Self {
        Self { reader }
    }

    /// The instrument of a locate, if it has been told on this day.
    pub fn instrument(&self, locate: Locate) -> Result<Option<Instrument>, ReadError> {
        let found = Instrument::of_words(&self.reader.read(u32::from(locate.0))?.words);
        Ok(found.filter(|found| found.locate == locate))
    }

    /// The instrument of a symbol. It looks at every record, so ask once and keep the locate until the next
    /// [`Update::Reset`](super::Update::Reset). Records that are being written are left out.
    pub fn find(&self, symbol: Symbol) -> Option<Instrument> {
        self.iter().find(|instrument| instrument.symbol == symbol)
    }

    /// All instruments, by locate.
    pub fn iter(&self) -> impl Iterator<Item = Instrument> {
        let locates = 1..=u16::MAX;
        locates
            .map_while(|locate| match self.instrument(Locate(locate)) {
                Err(ReadError::NoRecord) => None,
                found => Some(found.ok().flatten()),
            })
            .flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidestep_ring::seqlock;

    #[test]
    fn a_symbol_is_found_by_name_and_by_locate() {
        let (mut writer, reader) = seqlock::pair(5).unwrap();
        let directory = Directory::new(reader);
        let symbol = Symbol::new("AAPL").unwrap();
        assert_eq!(directory.find(symbol), None);
        let [market_category, financial_status, etp, authenticity] = *b"QNYP";
        let (locate, round_lot) = (Locate(4), u32::MAX);
        let apple = Instrument { locate, symbol, round_lot, market_category, financial_status, etp, authenticity };
        writer.write(4, 1, &apple.words()).unwrap();
        assert_eq!((directory.find(symbol), directory.instrument(Locate(4))), (Some(apple), Ok(Some(apple))));
        // A record that is about another locate says nothing.
        writer.write(3, 1, &apple.words()).unwrap();
        assert_eq!(directory.instrument(Locate(3)), Ok(None));
        assert_eq!(directory.iter().count(), 1);
        assert_eq!(directory.instrument(Locate(5)), Err(ReadError::NoRecord));
    }
}
