//! Metrics as Prometheus reads them: the text format ([`text`]), histograms with fixed buckets ([`histogram`]), and the HTTP listener
//! that serves them ([`http`]).
#![forbid(unsafe_code)]

pub mod histogram;
pub mod http;
pub mod text;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
