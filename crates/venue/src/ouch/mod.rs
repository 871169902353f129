//! Orders by OUCH 5.0 over SoupBinTCP.
//!
//! * `message`: what clients ask for, and the answers.
//! * `account`: a user's orders, and the answers that are kept.
//! * `server`: connections, logins, resuming.
//!
//! Taken: Enter (continuous orders; time in force 0, 5 and E rest, 3 is immediate), Replace, Cancel, Modify, Account Query. A
//! display of `A` publishes the firm of the appendage (F instead of A), `N` hides the order. Options that change how an order
//! trades are rejected, not ignored. A UserRefNum that is not above all before is ignored without an answer, as is a message
//! about an order that is gone, but for Replace, which is rejected.

mod account;
pub mod message;
mod server;

pub use account::{KEPT_ALL_MAX, KEPT_MAX, LIVE_ALL_MAX, LIVE_MAX};
pub use server::{CONNECTIONS_MAX, Ouch, OuchCounters, OuchSettings, USERS_MAX};

#[cfg(test)]
mod tests;
