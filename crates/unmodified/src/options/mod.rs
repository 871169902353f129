//! The options of programs under `sidestep run`: one table, from which flags, environment and documentation are made.
//!
//! An option is set, from the weakest to the strongest, by its default, a profile, its environment variable, its flag.
//! `table` has the options, `kind` the types of their values, `accelerate` the rules that choose sockets, `profile` the
//! files, `resolve` the order above, `document` the page in docs.

mod accelerate;
mod document;
mod kind;
mod profile;
mod resolve;
mod table;

pub use accelerate::{Accelerate, Transport};
pub use document::markdown;
pub use kind::{IoUring, Log, Range, SPIN_FOR_EVER};
pub use profile::{CUSTOM, names as profile_names};
pub use table::{OptionRow, Scope, Settings, TABLE};
