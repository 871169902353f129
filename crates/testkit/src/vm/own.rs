//! Modules of ours, which tests load and unload themselves, with parameters.

use rustix::system::{delete_module, finit_module};
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// The folder of such modules in the machine.
const FOLDER: &str = "/vm/own";

/// The file of a module in the machine.
pub(super) fn place(name: &str) -> PathBuf {
    Path::new(FOLDER).join(format!("{name}.ko"))
}

/// Loads a module of [`Plan::own_modules`](super::Plan::own_modules) with parameters in the form `name=value name=value`.
pub fn load_module(name: &str, parameters: &str) -> io::Result<()> {
    let file = File::open(place(name))?;
    Ok(finit_module(&file, &CString::new(parameters)?, 0)?)
}

/// Unloads a module; does not wait where it is in use.
pub fn unload_module(name: &str) -> io::Result<()> {
    Ok(delete_module(&CString::new(name)?, libc::O_NONBLOCK)?)
}
