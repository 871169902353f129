//! OUCH 5.0 against messages that were typed from the specification a second time. Nothing here uses the offsets of the views and
//! builders.

#[path = "../support/layout.rs"]
mod layout;

mod answers;
mod reconnects;
mod requests;
