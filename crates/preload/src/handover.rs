//! The kernel gets a description: before another process has its descriptor (fork, exec, SCM_RIGHTS), for a call that our side cannot
//! follow, when the engine has handed it over, and when nothing has begun.

use crate::answer::{Answer, Stop};
use crate::description::{Description, Kind};
use crate::descriptors::State;
use crate::engine::{Shared, duplicate_briefly};
use crate::signals::Inside;
use crate::stream::Stream;
use crate::{accelerate, descriptors, engine, inherited, process};
use libc::c_int;
use rustix::io::{Errno, FdFlags, fcntl_getfd};
use sidestep_socket::tcp::HandOver;
use std::fmt;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Control answers within microseconds; one that does not has gone.
const ANSWER_WAIT: Duration = Duration::from_secs(2);

/// Between two looks whether a hand-over is decided, which takes tenths of a millisecond.
const DECISION_PAUSE: Duration = Duration::from_micros(50);

macro_rules! causes {
    ($($name:ident $text:literal $call:literal,)+) => {
        /// The call that the kernel gets a description for.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Cause {
            $(#[doc = $call] $name,)+
        }

        impl fmt::Display for Cause {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Self::$name => $text,)+ })
            }
        }

        /// What all of them are called.
        #[cfg(test)]
        pub(crate) const CAUSES: &[&str] = &[$($text),+];
    };
}

causes! {
    Urgent "the program sends urgent data" "Urgent data.",
    UrgentArrived "urgent data has come" "Urgent data that has come.",
    Shutdown "the program shuts the socket down" "shutdown(2) of a listener, or of a socket of UDP.",
    Splice "the program splices it" "splice(2).",
    Option "the program has set an option that the kernel alone has" "An option that we do not follow.",
    Request "the program asks for what the kernel alone knows" "A request of ioctl(2) that the kernel alone answers.",
    Unnamed "the program asks for its port before it has one, and does not wait" "getsockname(2) that does not wait until there is a port.",
    Signals "the program asks for signals of it (O_ASYNC)" "O_ASYNC: the kernel raises the signals.",
    Stdio "the program reads or writes it by stdio" "fdopen(3), dprintf(3).",
    Asynchronous "the program reads or writes it asynchronously" "aio_read(3), io_submit(2).",
    Ring "the program sets up an io_uring, to which it may give any descriptor" "io_uring_setup(2).",
    ForeignSet "the program watches it by an epoll set that the library cannot follow" "An epoll set beside which there can be none of ours.",
    Passed "the program passes the descriptor to another process" "SCM_RIGHTS.",
    Fork "the program forks, and its child has the descriptor, too" "fork(2) with datagrams.",
    Closed "the program closes it, and another process may have it" "close(2), where another process may have it.",
    Exec "the program executes another, which keeps the descriptor" "execve(2).",
}

/// The kernel gets what a number stands for, if it is ours.
pub(crate) fn number_to_kernel(number: c_int, cause: Cause) {
    if !descriptors::is_ours_to_use(number) || Inside::is_entered() {
        return;
    }
    if process::is_child() {
        // A child of vfork(2): the tables and the engine are its parent's.
        return inherited::claim(number);
    }
    let _inside = Inside::enter();
    number_to_kernel_inside(number, cause);
}

/// The same, of a thread that is inside already.
pub(crate) fn number_to_kernel_inside(number: c_int, cause: Cause) {
    if let Some(description) = descriptors::find(number) {
        // Where it cannot be had, the twin answers that it is not connected.
        let _ = give_to_kernel(&description, cause);
    }
}

/// The kernel gets a description.
pub(crate) fn give_to_kernel(description: &Arc<Description>, cause: Cause) -> Answer<()> {
    let found = descriptors::all().into_iter().find(|(_, other)| Arc::ptr_eq(other, description));
    let (number, _) = found.ok_or(Stop::Kernel)?;
    give_all(&[(number, Arc::clone(description))], cause)
}

/// The kernel gets everything from now on.
pub(crate) fn everything_to_kernel(cause: Cause) {
    if Inside::is_entered() || process::is_child() && process::is_owner() {
        return;
    }
    let _inside = Inside::enter();
    if engine::refuse_new() {
        engine::report_reason(|| format!("everything from now on: to the kernel: {cause}"));
    }
    // What control refuses stays ours: by its number it can be used.
    let _ = give_all(&descriptors::all(), cause);
}

/// Before fork(2): listeners whose connections nobody has waited for are the kernel's until somebody does, the parent or a child. Datagrams
/// that come by the kernel reach whoever reads them. Everything else stays as it is.
pub(crate) fn before_fork() {
    let _inside = Inside::enter();
    let mut was_any = false;
    for (number, description) in descriptors::all() {
        let listener = match &description.kind {
            Kind::Listener(listener) if !listener.is_waited() => listener,
            Kind::Datagrams(_) => {
                // It cannot fail.
                let _ = give_all(&[(number, description)], Cause::Fork);
                continue;
            }
            _ => continue,
        };
        was_any = true;
        listener.leave();
        drop(descriptors::remove(number));
        descriptors::set_state(number, State::Listens);
    }
    if was_any {
        engine::close_unused();
    }
}

/// Before the last number of a description is closed: a connection that another process may have goes on.
pub(crate) fn before_close(number: c_int, description: &Arc<Description>) {
    if description.is_shared(number) {
        // What control refuses ends here.
        let _ = give_all(&[(number, Arc::clone(description))], Cause::Closed);
    }
}

/// Before execve(2): the kernel gets all that the new program or another process has, and then the rest, which exec closes: each
/// connection ends as it does by the kernel, closed ones with bytes unsent among them, and the ports of the others are free. Where exec
/// fails, the kernel keeps them.
pub(crate) fn before_exec() {
    let _inside = Inside::enter();
    let is_needed = |(number, description): &(c_int, Arc<Description>)| {
        let has_unsent = || description.queued().is_some_and(|(_, unacknowledged)| unacknowledged != 0);
        is_kept(*number) || description.is_shared(*number) || has_unsent()
    };
    let mut all = descriptors::all();
    all.retain(is_needed);
    let _ = give_all(&all, Cause::Exec);
    if let Some(engine) = engine::opened() {
        engine.release();
    }
}

/// Before the process ends: the kernel gets all connections, closed ones with bytes unsent among them, and goes on with them. Ports are
/// given back.
pub(crate) fn at_exit() {
    let _inside = Inside::enter();
    let Some(engine) = engine::opened() else { return };
    let all = descriptors::all();
    engine.release();
    for (_, description) in &all {
        if let Kind::Listener(listener) = &description.kind {
            listener.unlisten();
        }
    }
}

/// Returns whether a number stays open in another program.
pub(crate) fn is_kept(number: c_int) -> bool {
    // SAFETY: borrowed for one system call; a closed one gives an error.
    let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
    fcntl_getfd(descriptor).is_ok_and(|flags| !flags.contains(FdFlags::CLOEXEC))
}

/// Returns whether one of our numbers stays open in another program.
pub(crate) fn has_kept() -> bool {
    descriptors::numbers_of(State::Socket).any(is_kept)
}

/// The kernel gets what stays open in another program.
pub(crate) fn give_kept() {
    let mut all = descriptors::all();
    all.retain(|(number, _)| is_kept(*number));
    // What control refuses stays ours alone.
    let _ = give_all(&all, Cause::Exec);
}

/// The same in a child of vfork(2), by way of control: the parent's threads do it.
pub(crate) fn claim_kept() {
    descriptors::numbers_of(State::Socket).filter(|number| is_kept(*number)).for_each(inherited::claim);
}

/// The kernel gets several descriptions: all are asked for before the first answer is waited for.
fn give_all(list: &[(c_int, Arc<Description>)], cause: Cause) -> Answer<()> {
    let Some(engine) = engine::opened() else { return Err(Stop::Kernel) };
    let begun: Vec<_> =
        list.iter().map(|(number, description)| (description, begin(&engine, *number, description, cause))).collect();
    let mut answer = Ok(());
    for (description, begun) in begun {
        match begun {
            Ok(Some(hand_over)) => answer = answer.and(finish(&engine, description, &hand_over)),
            Ok(None) => {}
            Err(stop) => answer = Err(stop),
        }
    }
    answer
}

/// Begins the hand-over of a connection; `None` where it is done already.
fn begin(engine: &Shared, number: c_int, description: &Arc<Description>, cause: Cause) -> Answer<Option<HandOver>> {
    let stream = match &description.kind {
        Kind::Stream(stream) => stream,
        Kind::Listener(listener) => {
            engine.report_change(|| format!("descriptor {number}: to the kernel: {cause}"));
            listener.leave();
            return Ok(None);
        }
        Kind::Datagrams(datagrams) => {
            engine.report_change(|| format!("descriptor {number}: to the kernel: {cause}"));
            datagrams.leave();
            return Ok(None);
        }
        // The program's set is the kernel's; what is ours of it stays with this process.
        Kind::Epoll(_) => return Ok(None),
    };
    let twin = twin_of(stream, number)?;
    if !stream.is_connected() {
        // Nobody has seen data of it: the kernel begins anew.
        engine.report_change(|| format!("descriptor {number}: to the kernel: {cause}"));
        accelerate::settle(twin.as_raw_fd(), description);
        return Ok(None);
    }
    let begin = |twin| engine.with(|engine| engine.tcp().begin_hand_over(stream.handle(), twin));
    let mut begun = begin(twin);
    // Another process has asked for it at this moment.
    while begun.as_ref().is_err_and(|error| error.errno() == libc::EALREADY) && await_decision(stream) {
        begun = begin(twin_of(stream, number)?);
    }
    match begun {
        Ok(hand_over) => {
            engine.report_change(|| format!("descriptor {number}: to the kernel: {cause}"));
            Ok(Some(hand_over))
        }
        // It has ended: the twin says so, too. Or it is the kernel's already.
        Err(error) if [Errno::NOTCONN, Errno::ISCONN].contains(&Errno::from_raw_os_error(error.errno())) => {
            leave(description);
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// A duplicate of a stream's twin. Since its number was looked up another thread may have closed it, and opened something else that has
/// the number now: then the stream is left alone.
fn twin_of(stream: &Stream, number: c_int) -> Answer<OwnedFd> {
    // SAFETY: borrowed for one system call; a closed one gives an error.
    let twin = duplicate_briefly(unsafe { BorrowedFd::borrow_raw(number) }).ok_or(Errno::MFILE)?;
    let is_twin = stream.engine().with(|engine| engine.tcp().may_be_twin(stream.handle(), twin.as_fd()))?;
    if is_twin { Ok(twin) } else { Err(Stop::Kernel) }
}

fn finish(engine: &Shared, description: &Arc<Description>, hand_over: &HandOver) -> Answer<()> {
    let deadline = Instant::now() + ANSWER_WAIT;
    hand_over.wait(ANSWER_WAIT).and_then(Result::ok).ok_or(Errno::OPNOTSUPP)?;
    let Some(stream) = description.stream() else { return Ok(()) };
    // The engine completes it in a poll.
    while !engine.with_polled(|engine| stream.is_kernels(engine)) && Instant::now() < deadline {}
    leave(description);
    Ok(())
}

/// Waits until a hand-over is decided that has begun elsewhere: for another process, by another thread, for all connections. Returns
/// false where control does not answer.
pub(crate) fn await_decision(stream: &Stream) -> bool {
    let deadline = Instant::now() + ANSWER_WAIT;
    while stream.engine().with_polled(|engine| engine.tcp().is_handing_over(stream.handle())) {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(DECISION_PAUSE);
    }
    true
}

/// Lets go of a description that the engine has handed over.
pub(crate) fn leave_if_handed_over(description: &Arc<Description>) {
    let Some(stream) = description.stream() else { return };
    if stream.engine().with(|engine| stream.is_kernels(engine)) && leave(description) {
        let text = || "a connection: to the kernel: control or another process has asked for it".to_owned();
        stream.engine().report_change(text);
    }
}

/// Makes a connection's numbers the kernel's, where nothing of it has been seen by a peer, nothing is left, or the kernel has it. Returns
/// false where another thread was first.
pub(crate) fn leave(description: &Arc<Description>) -> bool {
    if !description.end() {
        return false;
    }
    descriptors::release(description);
    true
}
