//! `sidestep ps --release`: a program goes on by the kernel.

use crate::{exit, output};
use serde::Serialize;
use sidestep_control_api::client::Client;
use sidestep_sys::Problem;
use std::path::Path;

#[derive(Serialize)]
struct Released {
    released_pid: u32,
}

/// Has a process hand its connections over to the kernel; returns when it has.
pub(super) fn release(control: &Path, pid: u32, is_json: bool) -> Result<u8, Problem> {
    Client::connect_to(control, "sidestep ps")?.release_process(pid)?;
    if is_json {
        let text = serde_json::to_string(&Released { released_pid: pid });
        output::print(
            &(text.map_err(|error| Problem::failed("cannot print JSON", error).next("leave --json out"))? + "\n"),
        )?;
    } else {
        output::print(&format!(
            "process {pid}: its connections are the kernel's now, and so are the sockets that it opens\n"
        ))?;
    }
    Ok(exit::GOOD)
}
