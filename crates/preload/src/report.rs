//! What the library reports: to where the user wants it.

use sidestep_sys::problem;
use sidestep_unmodified::options::Log;
use std::ffi::CString;
use std::fs::OpenOptions;
use std::io::Write;

/// Reports a line. A failure to write is ignored: the program goes on.
pub(crate) fn say(log: &Log, text: &str) {
    match log {
        Log::Stderr => problem::say(text),
        Log::None => {}
        Log::Syslog => to_syslog(text),
        Log::File(path) => {
            let file = OpenOptions::new().append(true).create(true).open(path);
            let _ = file.and_then(|mut file| writeln!(file, "sidestep[{}]: {text}", std::process::id()));
        }
    }
}

fn to_syslog(text: &str) {
    if let Ok(text) = CString::new(format!("sidestep: {text}")) {
        // SAFETY: the format takes one string, which is given.
        unsafe { libc::syslog(libc::LOG_INFO, c"%s".as_ptr(), text.as_ptr()) };
    }
}
