//! Paths of traffic, and the texts of reasons.

use sidestep_socket::{Mode, Path, Reason};
use std::ffi::{CStr, CString, c_char};
use std::sync::OnceLock;

/// The reason number of accelerated traffic.
pub const ACCELERATED: u32 = 0;

/// [`Mode::ZeroCopy`].
pub const MODE_ZERO_COPY: u32 = 0;
/// [`Mode::Copy`].
pub const MODE_COPY: u32 = 1;
/// [`Mode::Generic`].
pub const MODE_GENERIC: u32 = 2;

/// `sidestep_path`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CPath {
    /// [`ACCELERATED`], or the [`reason_number`] of traffic by the kernel.
    pub reason: u32,
    /// One of `MODE_*`.
    pub mode: u32,
}

impl From<Path> for CPath {
    fn from(path: Path) -> Self {
        match path {
            Path::Accelerated { mode } => Self { reason: ACCELERATED, mode: mode_number(mode) },
            Path::Kernel(reason) => Self { reason: reason_number(reason), mode: 0 },
        }
    }
}

/// The number of a mode in C.
pub(crate) fn mode_number(mode: Mode) -> u32 {
    match mode {
        Mode::ZeroCopy => MODE_ZERO_COPY,
        Mode::Copy => MODE_COPY,
        Mode::Generic => MODE_GENERIC,
    }
}

/// The number of a reason in C, from 1 on.
pub fn reason_number(reason: Reason) -> u32 {
    reason as u32 + 1
}

/// A reason's name in lists; lives as long as the program.
#[unsafe(no_mangle)]
pub extern "C" fn sidestep_reason_name(reason: u32) -> *const c_char {
    words(reason).0.as_ptr()
}

/// A reason's sentence; lives as long as the program.
#[unsafe(no_mangle)]
pub extern "C" fn sidestep_reason_text(reason: u32) -> *const c_char {
    words(reason).1.as_ptr()
}

fn words(reason: u32) -> (&'static CStr, &'static CStr) {
    static WORDS: OnceLock<Vec<(CString, CString)>> = OnceLock::new();
    let terminated = |text: &str| CString::new(text).unwrap_or_default();
    let known = WORDS.get_or_init(|| {
        let pair = |reason: &Reason| (terminated(reason.name()), terminated(reason.description()));
        Reason::ALL.iter().map(pair).collect()
    });
    if reason == ACCELERATED {
        return (c"accelerated", c"past the kernel");
    }
    match known.get(reason as usize - 1) {
        Some((name, sentence)) => (name, sentence),
        None => (c"unknown", c"a reason that this library does not know"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_its_words() {
        for reason in Reason::ALL {
            let (name, sentence) = words(reason_number(*reason));
            assert_eq!(name.to_str(), Ok(reason.name()));
            assert_eq!(sentence.to_str(), Ok(reason.description()));
        }
        assert_eq!(words(ACCELERATED).0, c"accelerated");
        assert_eq!((words(Reason::ALL.len() as u32 + 1).0, words(u32::MAX).0), (c"unknown", c"unknown"));
    }
}
