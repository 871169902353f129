//! The instruments of the day: names by stock locate.

use sidestep_market::units::{Locate, Symbol};

/// The names that the feed has told.
#[derive(Debug)]
pub struct Directory {
    symbols: Box<[Symbol]>,
}

impl Directory {
    /// For locates up to this one.
    pub(crate) fn new(instruments: u16) -> Self {
        Self { symbols: vec![Symbol::default(); usize::from(instruments) + 1].into_boxed_slice() }
    }

    /// The highest locate.
    pub(crate) fn instruments(&self) -> u16 {
        (self.symbols.len() - 1) as u16
    }

    pub(crate) fn learn(&mut self, locate: Locate, symbol: Symbol) {
        if let Some(place) = self.symbols.get_mut(usize::from(locate.0)) {
            *place = symbol;
        }
    }

    pub(crate) fn clear(&mut self) {
        self.symbols.fill(Symbol::default());
    }

    /// The name of an instrument; nothing if it was not told.
    pub fn symbol(&self, locate: Locate) -> Option<Symbol> {
        self.symbols.get(usize::from(locate.0)).copied().filter(|symbol| *symbol != Symbol::default())
    }

    /// The instrument of this name. Looks at all of them: ask once, and keep the locate for the day.
    pub fn find(&self, symbol: Symbol) -> Option<Locate> {
        self.iter().find(|(_, one)| *one == symbol).map(|(locate, _)| locate)
    }

    /// The instruments that were named, by locate.
    pub fn iter(&self) -> impl Iterator<Item = (Locate, Symbol)> {
        let named = self.symbols.iter().enumerate().filter(|(_, symbol)| **symbol != Symbol::default());
        named.map(|(locate, symbol)| (Locate(locate as u16), *symbol))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instruments_are_found_by_either_name() {
        let mut directory = Directory::new(3);
        let symbol = Symbol::new("AAPL").unwrap();
        directory.learn(Locate(3), symbol);
        directory.learn(Locate(4), symbol);
        assert_eq!((directory.symbol(Locate(3)), directory.symbol(Locate(2))), (Some(symbol), None));
        assert_eq!((directory.find(symbol), directory.find(Symbol::default())), (Some(Locate(3)), None));
        assert_eq!(directory.iter().count(), 1, "above the limit nothing is kept");
        directory.clear();
        assert_eq!(directory.find(symbol), None);
    }
}
