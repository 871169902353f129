//! ITCH 5.0 against packets that were typed from the specification a second time. Nothing here uses the offsets of the views.

#[path = "../support/layout.rs"]
mod layout;

mod by_hand;
mod encoder;
mod round_trip;
