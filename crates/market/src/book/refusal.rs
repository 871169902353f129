//! Messages that a book does not take, and what that makes of it.

use std::fmt::{self, Display, Formatter};

macro_rules! refusals {
    ($($(#[$about:meta])* $name:ident $text:literal)*) => {
        /// The reason for which a message was refused. It has changed nothing.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Refusal {
            $($(#[$about])* $name,)*
        }

        impl Refusal {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            fn text(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

refusals! {
    /// The order is not in any book: its add was lost, or refused.
    UnknownOrder "the order is unknown"
    /// An order with this reference is live.
    DuplicateReference "an order with this reference is live"
    /// More shares were executed or cancelled than the order has left.
    TooManyShares "the order has fewer shares left"
    /// A new order without shares.
    NoShares "a new order has no shares"
    /// The order is of another instrument than the message. Both books are suspect.
    OtherInstrument "the order is of another instrument"
    /// The stock locate is 0 or above [`super::Limits::instruments`]. No book is suspect.
    UnknownInstrument "the stock locate is 0 or above the limit"
    /// The side is neither buy nor sell.
    BadSide "the side is neither buy nor sell"
    /// The price is below 0 or above 2^31 - 1.
    BadPrice "the price is below 0 or above 2147483647"
    /// [`super::Limits::orders`] are live, or all places are taken that a reference like this one may have.
    OrdersFull "there is no room for an order"
    /// [`super::Limits::levels`] are live.
    LevelsFull "there is no room for a price level"
    /// The side has [`super::Limits::side_levels`].
    SideFull "the side has as many price levels as it may have"
}

impl Display for Refusal {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str(self.text())
    }
}

impl std::error::Error for Refusal {}

/// The reason for which a book is not the exchange's any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suspect {
    /// A message was refused; the first one since the book was live.
    Refused(Refusal),
    /// The caller has told so: messages were lost ([`super::Books::suspect_all`]).
    Lost,
}

impl Display for Suspect {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refusal) => write!(out, "a message was refused: {refusal}"),
            Self::Lost => out.write_str("messages were lost"),
        }
    }
}

/// What is wrong with each book, and how often messages were refused.
pub(super) struct Trust {
    suspects: Vec<Option<Suspect>>,
    refused: [u64; Refusal::ALL.len()],
}

impl Trust {
    /// For locates below `books`.
    pub(super) fn new(books: usize) -> Self {
        Self { suspects: vec![None; books], refused: [0; Refusal::ALL.len()] }
    }

    pub(super) fn bytes(&self) -> usize {
        bytes(self.suspects.capacity())
    }

    pub(super) fn count(&mut self, refusal: Refusal) {
        self.refused[refusal as usize] += 1;
    }

    pub(super) fn refused(&self, refusal: Refusal) -> u64 {
        self.refused[refusal as usize]
    }

    /// Marks a book if there is one. The first reason stays.
    pub(super) fn suspect(&mut self, book: usize, why: Suspect) {
        if let Some(suspect) = self.suspects.get_mut(book).filter(|suspect| suspect.is_none()) {
            *suspect = Some(why);
        }
    }

    pub(super) fn why(&self, book: usize) -> Option<Suspect> {
        self.suspects.get(book).copied().flatten()
    }

    pub(super) fn all(&mut self, why: Suspect) {
        (0..self.suspects.len()).for_each(|book| self.suspect(book, why));
    }

    pub(super) fn live(&mut self, book: usize) {
        if let Some(suspect) = self.suspects.get_mut(book) {
            *suspect = None;
        }
    }

    pub(super) fn all_live(&mut self) {
        self.suspects.fill(None);
    }
}

/// The memory of the marks of so many books.
pub(super) fn bytes(books: usize) -> usize {
    books * size_of::<Option<Suspect>>()
}
