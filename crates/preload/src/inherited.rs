//! Numbers whose connection is another process's: a forked child has them from its parent, and a program from the one that has started it.
//! The first call that uses one makes the connection the kernel's: control asks the owner.

use crate::descriptors::{self, State};
use crate::epoll::foreign;
use crate::signals::Inside;
use crate::stream::unfollowed;
use crate::table::real;
use crate::{engine, environment, handover, process};
use libc::{c_char, c_int, nfds_t, pollfd};
use sidestep_control_api::client::{Client, Error};
use sidestep_control_api::place;
use sidestep_sys::socket::{TcpState, tcp_state};
use sidestep_sys::tcp_repair;
use sidestep_unmodified::program::Program;
use std::ffi::{CStr, OsStr};
use std::os::fd::BorrowedFd;

/// The name by which control knows this process while it asks.
const NAME: &str = "inherited";

/// Makes what a number stands for the kernel's, if it is another process's. Returns whether the number is ours.
#[cold]
pub(crate) fn use_number(number: c_int) -> bool {
    if Inside::is_entered() {
        return descriptors::is_ours(number);
    }
    process::begin_child();
    let _inside = Inside::enter();
    match descriptors::state(number) {
        State::InheritedSocket => take(number),
        State::InheritedSet => {
            // The kernel's set is the parent's, too: it has the sockets once they are the kernel's. This process's own stand beside it.
            descriptors::numbers_of(State::InheritedSocket).for_each(take);
            descriptors::set_state(number, State::Kernel);
            let _ = foreign::adopt(number);
        }
        State::Kernel | State::Socket | State::Set | State::Listens => {}
    }
    descriptors::is_ours(number)
}

/// Returns whether an inherited number stays open in another program.
pub(crate) fn has_kept() -> bool {
    kept().next().is_some()
}

/// Makes all inherited numbers the kernel's that stay open in another program.
pub(crate) fn take_kept() {
    kept().for_each(take);
}

fn kept() -> impl Iterator<Item = c_int> {
    descriptors::numbers_of(State::InheritedSocket).filter(|number| handover::is_kept(*number))
}

/// Returns whether a program will have the library, with this environment, and so asks for what it uses itself ([`look`]).
///
/// # Safety
/// `environment` is null, or an array of strings that ends with null.
pub(crate) unsafe fn will_ask(program: &OsStr, environment: *const *const c_char) -> bool {
    // SAFETY: the caller promises it.
    let names_library = unsafe { strings(environment) }.any(|variable| {
        let value = variable.to_bytes().strip_prefix(PRELOAD);
        value.is_some_and(|value| value.windows(LIBRARY.len()).any(|part| part == LIBRARY))
    });
    let search = std::env::var_os("PATH");
    names_library && Program::find(program, search.as_deref()).is_ok_and(|program| program.obstacle.is_none())
}

/// # Safety
/// `list` is null, or an array of strings that ends with null.
unsafe fn strings<'a>(list: *const *const c_char) -> impl Iterator<Item = &'a CStr> {
    let mut next = list;
    std::iter::from_fn(move || {
        // SAFETY: the caller promises it, and nothing is read behind the end.
        let string = unsafe { next.as_ref() }.filter(|string| !string.is_null())?;
        next = next.wrapping_add(1);
        // SAFETY: as above.
        Some(unsafe { CStr::from_ptr(*string) })
    })
}

/// The variable that has the library, and a part of the library's name.
const PRELOAD: &[u8] = b"LD_PRELOAD=";
const LIBRARY: &[u8] = b"libsidestep";

/// Returns whether a socket may be the twin of another process's connection. A listening socket is the kernel's in this process, and one
/// that is connected everywhere; but control may be making the connection at this moment (TCP_REPAIR), in which receiving fails (EPERM):
/// it answers when it is made.
fn may_be_twin(socket: BorrowedFd<'_>) -> bool {
    // In this order: what is made after the first look is found by the second.
    tcp_state(socket).is_ok_and(|state| state == TcpState::Closed || tcp_repair::is_on(socket).unwrap_or(false))
}

/// Looks for sockets that the program was started with, and that may be twins of another process's: one system call, and one for
/// each descriptor.
#[cfg_attr(test, allow(dead_code))] // The constructor calls it, which tests do not have.
pub(crate) fn look() {
    let mut list: [pollfd; LOOKED_AT] =
        std::array::from_fn(|number| pollfd { fd: number as c_int, events: 0, revents: 0 });
    // SAFETY: the list is that long, and the call does not wait.
    unsafe { real::poll(list.as_mut_ptr(), LOOKED_AT as nfds_t, 0) };
    for entry in list.iter().filter(|entry| entry.revents & libc::POLLNVAL == 0) {
        // SAFETY: borrowed for two system calls; what is no socket of TCP gives an error.
        let socket = unsafe { BorrowedFd::borrow_raw(entry.fd) };
        if tcp_state(socket).is_err() {
            continue;
        }
        unfollowed::note_any();
        if may_be_twin(socket) {
            descriptors::set_state(entry.fd, State::InheritedSocket);
        }
    }
}

/// The numbers that programs are started with.
#[cfg_attr(test, allow(dead_code))]
const LOOKED_AT: usize = 256;

fn take(number: c_int) {
    claim(number);
    descriptors::set_state(number, State::Kernel);
}

/// Has the owner of a number's connection hand it over. Nothing of this process's tables changes.
pub(crate) fn claim(number: c_int) {
    // The questions are for the kernel's socket.
    let _inside = Inside::enter();
    // SAFETY: the program has the number open during its call; a closed one gives an error.
    let twin = unsafe { BorrowedFd::borrow_raw(number) };
    if !may_be_twin(twin) {
        return;
    }
    match ask(twin) {
        Ok(()) => engine::report_reason(|| format!("descriptor {number}: to the kernel: another process gave it")),
        Err(why) => engine::report_reason(|| format!("descriptor {number}: its connection cannot be had: {why}")),
    }
}

fn ask(twin: BorrowedFd<'_>) -> Result<(), String> {
    let brief = |error| match error {
        Error::Lost(problem) => problem.brief(),
        Error::Refused(refusal) => refusal.to_string(),
    };
    let place = environment::control().map_or_else(place::socket, Ok).map_err(|problem| problem.brief())?;
    let mut client = Client::connect_to(&place, NAME).map_err(brief)?;
    let done = client.hand_over_twin(twin).map_err(brief);
    // What control has done is done.
    let _ = client.bye();
    done
}
