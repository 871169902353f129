//! Results of a run, and their output.
//!
//! [`schema`] is the result; [`json`], [`terminal`] and [`html`] are its three forms. The two for people are built
//! from the same findings, tables and sentences, so that they cannot say different things.
#![forbid(unsafe_code)]

pub mod cmdline;
pub mod findings;
pub mod histogram;
pub mod html;
pub mod json;
pub mod knee;
pub mod schema;
pub mod terminal;

mod markup;
mod number;
mod possible;
mod svg;
mod tables;
mod view;

#[cfg(test)]
mod sample;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
