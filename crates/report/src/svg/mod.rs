//! Charts, drawn by our own code: the same document gives the same bytes.
//!
//! Each chart is drawn twice, wide and narrow, and the page shows the one that fits: scaled down to a phone, the
//! letters of one drawing would be too small to read. Colours and dashes are classes, so that the page can swap them
//! for a dark one.

pub(crate) mod axis;
pub(crate) mod bars;
pub(crate) mod canvas;
pub(crate) mod causes;
pub(crate) mod cdf;
pub(crate) mod histogram;
pub(crate) mod palette;
pub(crate) mod rates;
pub(crate) mod scale;
pub(crate) mod sizes;

/// For which page width a chart is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// A desk or paper.
    Wide,
    /// A phone.
    Narrow,
}

impl Shape {
    /// Width in the units of the drawing; a unit is about a pixel where it is shown.
    pub(crate) fn width(self) -> f64 {
        match self {
            Self::Wide => 880.0,
            Self::Narrow => 340.0,
        }
    }

    /// Height of a chart with two axes.
    pub(crate) fn height(self) -> f64 {
        match self {
            Self::Wide => 380.0,
            Self::Narrow => 290.0,
        }
    }

    /// The class by which the style sheet shows one and hides the other.
    pub(crate) fn class(self) -> &'static str {
        match self {
            Self::Wide => "wide",
            Self::Narrow => "narrow",
        }
    }

    /// Most letters of a name that stand beside something else.
    pub(crate) fn name_letters(self) -> usize {
        match self {
            Self::Wide => 24,
            Self::Narrow => 20,
        }
    }
}

/// A name that fits its place.
pub(crate) fn cut(name: &str, letters: usize) -> String {
    if name.chars().count() <= letters {
        return name.into();
    }
    name.chars().take(letters.saturating_sub(1)).chain(['…']).collect()
}
