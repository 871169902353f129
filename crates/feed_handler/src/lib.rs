//! L5: feed handlers: market data from the wire to books, on one thread.
#![forbid(unsafe_code)]

mod line;
mod lines;

pub use line::{LINES_MAX, Line, SOURCES_MAX, name};
pub use lines::{Arrival, LineOptions, Lines};
