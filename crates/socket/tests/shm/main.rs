//! Shared memory: what it does beyond the conformance of every link. How its ends end, and what strangers can do to it.

mod datagrams;
mod deaths;
mod readiness;
mod silence;
mod streams;
mod support;
