//! mdp
pub mod schema;
