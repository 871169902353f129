//! The session from outside: scripts of ours and of the public suite, simulations, hostile counterparties.

mod conformance;
mod floods;
mod hostile;
mod refresh;
mod scripting;
mod scripts;
mod simulation;
mod splits;
mod steps;
