//! Failures of calls, and the storage of the reason for `sidestep_last_error`.

use crate::codes::{
    EBUG, ECLOSED, EEMPTY, EFAILED, EFAULTY, EFULL, ELOST, EPEERGONE, ETIMEDOUT, ETOOLONG, ETOOSHORT, EUSAGE,
};
use sidestep_ring::{ClaimError, ReadError, WaitError};
use sidestep_socket::{Error, SendError};
use sidestep_sys::Problem;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::ffi::{CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The reason why a call failed. Full and empty occur on the hot path, so this is small and has no destructor: its text is made on
/// request.
#[derive(Clone, Copy)]
pub(crate) enum Failure {
    /// An argument is a null pointer.
    Null(&'static str),
    /// The call is wrong for this reason.
    Usage(&'static str),
    /// More bytes than were claimed.
    BeyondClaim {
        claimed: usize,
    },
    Claim(ClaimError),
    Read(ReadError),
    Wait(WaitError),
    /// No datagram is there.
    NothingCame,
    Socket(Error),
    Send(SendError),
    /// A problem or a panic with this code, and an errno or 0; its text is in [`TOLD`].
    Told(c_int, c_int),
}

thread_local! {
    /// The last failure of a thread and its call. Plain, without a destructor: polling an empty ring from C takes 11 ns
    /// instead of 14 (50 million polls on a shared machine; 2 ns from Rust).
    static LAST: Cell<Option<(&'static str, Failure)>> = const { Cell::new(None) };
    /// The text of the last problem or panic.
    static TOLD: RefCell<String> = const { RefCell::new(String::new()) };
    /// The text that `sidestep_last_error` has returned.
    static ASKED: RefCell<Option<CString>> = const { RefCell::new(None) };
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        let is_usage = problem.kind() == sidestep_sys::Kind::Usage;
        let errno = problem.raw_os_error().unwrap_or(0);
        Self::told(if is_usage { EUSAGE } else { EFAILED }, errno, problem.to_string())
    }
}

impl From<ClaimError> for Failure {
    fn from(error: ClaimError) -> Self {
        Self::Claim(error)
    }
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        Self::Read(error)
    }
}

impl From<WaitError> for Failure {
    fn from(error: WaitError) -> Self {
        Self::Wait(error)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Socket(error)
    }
}

impl From<SendError> for Failure {
    fn from(error: SendError) -> Self {
        Self::Send(error)
    }
}

impl Failure {
    /// A thread that is ending cannot store a text any more; the code is enough.
    fn told(code: c_int, errno: c_int, words: String) -> Self {
        let _ = TOLD.try_with(|told| told.replace(words));
        Self::Told(code, errno)
    }

    fn code(&self) -> c_int {
        match self {
            Self::Null(_) | Self::Usage(_) | Self::Socket(_) => EUSAGE,
            Self::Send(SendError::Refused(_) | SendError::NoPeer) => EUSAGE,
            Self::Send(SendError::Kernel(_) | SendError::Beside) => EFAILED,
            Self::Send(SendError::Full) => EFULL,
            Self::Send(SendError::TooLong { .. }) => ETOOLONG,
            Self::NothingCame => EEMPTY,
            Self::BeyondClaim { .. } => ETOOLONG,
            Self::Claim(ClaimError::Forked) | Self::Read(ReadError::Forked) | Self::Wait(WaitError::Forked) => EUSAGE,
            Self::Claim(ClaimError::Full) => EFULL,
            Self::Claim(ClaimError::TooLong) | Self::Wait(WaitError::TooLong) => ETOOLONG,
            Self::Claim(ClaimError::Closed) | Self::Read(ReadError::Closed) | Self::Wait(WaitError::Closed) => ECLOSED,
            Self::Claim(ClaimError::Faulty(_))
            | Self::Read(ReadError::Faulty(_))
            | Self::Wait(WaitError::Faulty(_)) => EFAULTY,
            Self::Read(ReadError::Empty) => EEMPTY,
            Self::Read(ReadError::TooShort { .. }) => ETOOSHORT,
            Self::Read(ReadError::Lost(_)) => ELOST,
            Self::Wait(WaitError::TimedOut) => ETIMEDOUT,
            Self::Wait(WaitError::PeerGone) => EPEERGONE,
            Self::Told(code, _) => *code,
        }
    }

    fn reason(&self) -> String {
        match self {
            Self::Null(argument) => format!("`{argument}` is a null pointer"),
            Self::Usage(reason) => (*reason).to_owned(),
            Self::BeyondClaim { claimed } => format!("only {claimed} bytes are claimed"),
            Self::Claim(error) => error.to_string(),
            Self::Read(error) => error.to_string(),
            Self::Wait(error) => error.to_string(),
            Self::NothingCame => "no datagram has come".to_owned(),
            Self::Socket(error) => error.to_string(),
            Self::Send(error) => error.to_string(),
            Self::Told(..) => TOLD.try_with(|told| told.borrow().clone()).unwrap_or_default(),
        }
    }

    /// The next step; a [`Problem`] has its own.
    fn next(&self) -> &'static str {
        match (self, self.code()) {
            (Self::Told(EFAILED | EUSAGE, _), _) => "",
            (Self::Null(_), _) => "check what the call before this one returned",
            (Self::NothingCame, _) => "call again: receiving does not wait",
            (Self::Socket(error) | Self::Send(SendError::Refused(error)), _) => match error {
                Error::NotOpen => "use a number that bind has stored and close has not seen",
                Error::Forked => "open an engine in this process",
            },
            (Self::Claim(ClaimError::Forked) | Self::Read(ReadError::Forked) | Self::Wait(WaitError::Forked), _) => {
                "attach to the ring in this process; freeing the copy here leaves the parent's alone"
            }
            (Self::Send(error), _) => send_next(*error),
            (_, EFULL) => "wait for space with sidestep_producer_wait",
            (_, EEMPTY) => "wait for a message with the handle's wait call",
            (_, ETOOLONG) => "the info of the handle has the longest message; make a ring of more bytes",
            (_, ECLOSED) => "free the handle; a new peer can open the ring again",
            (_, EFAULTY) => "free the handle and make a new ring: this one was overwritten",
            (_, ETOOSHORT) => "give a buffer as long as the length that was stored",
            (_, ELOST) => "read on: the next message is the first one after the gap",
            (_, ETIMEDOUT) => "wait again, or ask for the peer",
            (_, EPEERGONE) => "start the other side again: it resumes where the last one stopped",
            (_, EBUG) => "free the handle and report this",
            _ => "see the header",
        }
    }

    /// The errno that a kernel socket would have given; 0 if none fits.
    fn errno(&self) -> c_int {
        match self {
            Self::Send(error) => error.errno(),
            Self::Socket(error) => SendError::Refused(*error).errno(),
            Self::NothingCame => SendError::Full.errno(),
            Self::Told(_, errno) => *errno,
            _ => 0,
        }
    }
}

fn send_next(error: SendError) -> &'static str {
    match error {
        SendError::NoPeer => "give `to`, or connect the socket first",
        SendError::Full => "call sidestep_engine_poll, which frees memory, and send again",
        SendError::TooLong { .. } => "send less at a time, or let the kernel fragment it: `may_fragment`",
        SendError::Refused(_) | SendError::Kernel(_) | SendError::Beside => {
            "see the path of datagrams: sidestep_udp_path_to"
        }
    }
}

/// Runs the body of a call: nothing unwinds into C, and a failure is stored.
#[inline(always)]
pub(crate) fn call(name: &'static str, body: impl FnOnce() -> Result<(), Failure>) -> c_int {
    let failure = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => return 0,
        Ok(Err(failure)) => failure,
        Err(payload) => Failure::told(EBUG, 0, format!("a bug in the library: {}", message(payload))),
    };
    LAST.set(Some((name, failure)));
    failure.code()
}

fn message(payload: Box<dyn Any + Send>) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
    // Dropping a foreign payload could panic again.
    std::mem::forget(payload);
    text.unwrap_or_else(|| "a panic without a message".into())
}

/// The last failure of the calling thread, as text: thing, reason, next step. Empty before the first one. Valid until
/// this thread asks again.
#[unsafe(no_mangle)]
pub extern "C" fn sidestep_last_error() -> *const c_char {
    let Some((call, failure)) = LAST.get() else { return c"".as_ptr() };
    let next = failure.next();
    let next = if next.is_empty() { String::new() } else { format!("\n  next: {next}") };
    let text = format!("{call}: {}{next}", failure.reason()).replace('\0', " ");
    let words = ASKED.try_with(|asked| asked.borrow_mut().insert(CString::new(text).unwrap_or_default()).as_ptr());
    words.unwrap_or(c"".as_ptr())
}

/// The errno that fits the last failure of the calling thread; 0 for none.
#[unsafe(no_mangle)]
pub extern "C" fn sidestep_last_errno() -> c_int {
    LAST.get().map_or(0, |(_, failure)| failure.errno())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    fn last() -> String {
        // SAFETY: the pointer is to a C string of this thread, which asks only here.
        unsafe { CStr::from_ptr(sidestep_last_error()) }.to_str().unwrap().to_owned()
    }

    #[test]
    fn a_panic_becomes_a_code_and_its_words() {
        assert_eq!(call("sidestep_test", || panic!("{} of them", 7)), EBUG);
        assert_eq!(last(), "sidestep_test: a bug in the library: 7 of them\n  next: free the handle and report this");
        assert_eq!(call("sidestep_test", || std::panic::panic_any(7)), EBUG);
        assert!(last().contains("a panic without a message"));
    }

    #[test]
    fn the_last_failure_is_kept_per_thread_and_success_keeps_it() {
        assert_eq!(last(), "");
        assert_eq!(call("sidestep_a", || Err(Failure::Null("ring"))), EUSAGE);
        assert_eq!(call("sidestep_b", || Ok(())), 0);
        assert!(last().starts_with("sidestep_a: `ring` is a null pointer\n  next: "), "{}", last());
        std::thread::spawn(|| assert_eq!(last(), "")).join().unwrap();
    }

    #[test]
    fn a_problem_brings_its_own_next_step() {
        let problem = Problem::failed("cannot attach to x", "no such file").next("make it");
        assert_eq!(call("sidestep_segment_open", || Err(problem.into())), EFAILED);
        assert_eq!(last(), "sidestep_segment_open: cannot attach to x: no such file\n  next: make it");
    }
}
