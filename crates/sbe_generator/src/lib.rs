//! Reads a schema of Simple Binary Encoding 1.0 and writes Rust: decode views and encoders that need `sidestep_market::sbe` alone.
//!
//! [`generate`] is all of it: XML in, files out. The same schema makes the same bytes. `schema` reads and checks, `emit` writes.
//!
//! Schemas come from venues, and from anybody: size, depth and number of elements are bounded, nothing outside of the file is read, and names and
//! descriptions cannot end a comment or a string of what is written.
//!
//! Source: FIX Trading Community, Simple Binary Encoding 1.0, sections 2 to 5.
#![forbid(unsafe_code)]

mod emit;
mod problem;
mod schema;
mod xml;

use sidestep_sys::Problem;

/// Bytes of a schema; those that venues publish have up to 0.4 MB.
pub const XML_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The path of the runtime in generated code.
pub const RUNTIME: &str = "sidestep_market::sbe";

/// A file of generated code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Its path in the folder, with `/` between the parts.
    pub path: String,
    /// Its text.
    pub text: String,
}

/// Makes the files of a schema, sorted by path; `mod.rs` is among them. `name` is how errors call the schema, and `runtime` the path of
/// the runtime in the code ([`RUNTIME`] outside of its own crate).
///
/// # Errors
/// Fails if the schema is no XML, breaks a rule of SBE 1.0, or passes a limit of this crate. The error names file, line, element and reason.
pub fn generate(name: &str, xml: &[u8], runtime: &str) -> Result<Vec<File>, Problem> {
    let schema = xml::read(xml).and_then(|root| schema::Schema::read(&root));
    let schema = schema.map_err(|fault| fault.problem(name))?;
    Ok(emit::files(&schema, runtime))
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
