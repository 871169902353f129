//! Datagrams out of a socket: those past the kernel, and those of the program's own socket.

use super::control::Control;
use super::{Datagrams, Side};
use crate::address;
use crate::answer::{Answer, Stop};
use crate::description::Description;
use crate::descriptors;
use crate::engine::Woken;
use crate::vectors::{Scatter, list};
use crate::waiting::Waiting;
use libc::{MSG_DONTWAIT, MSG_ERRQUEUE, MSG_OOB, MSG_PEEK, MSG_TRUNC, MSG_WAITFORONE, c_int, mmsghdr, msghdr};
use rustix::event::PollFlags;
use rustix::io::Errno;
use sidestep_socket::{Datagram, Engine};
use std::convert::Infallible;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Flags with which a call asks for something that the kernel alone has.
const KERNELS: c_int = MSG_ERRQUEUE | MSG_OOB;

/// Datagrams past the kernel between two looks at the program's own socket, which is a system call: neither side starves the other.
const TURNS: u32 = 64;

/// A receiving call.
pub(crate) struct Call<'a> {
    pub(crate) description: &'a Arc<Description>,
    pub(crate) number: c_int,
    pub(crate) flags: c_int,
}

impl Call<'_> {
    fn socket(&self) -> BorrowedFd<'_> {
        // SAFETY: the program has the number open during its call; a closed one gives an error.
        unsafe { BorrowedFd::borrow_raw(self.number) }
    }
}

impl Datagrams {
    /// Receives one datagram. recvmsg(2)
    ///
    /// # Safety
    /// The message is valid: its buffers for writes, and nobody else's.
    pub(crate) unsafe fn receive(
        &self,
        call: &Call<'_>,
        message: &mut msghdr,
        waiting: &mut Waiting<'_>,
    ) -> Answer<usize> {
        let mut messages = [mmsghdr { msg_hdr: *message, msg_len: 0 }];
        // SAFETY: as the caller's.
        unsafe { self.receive_many(call, &mut messages, None, waiting) }?;
        *message = messages[0].msg_hdr;
        Ok(messages[0].msg_len as usize)
    }

    /// Receives datagrams until the list is full, or as long as the flags and the deadline say. recvmmsg(2)
    ///
    /// # Safety
    /// As of [`Self::receive`], each.
    pub(crate) unsafe fn receive_many(
        &self,
        call: &Call<'_>,
        messages: &mut [mmsghdr],
        deadline: Option<Instant>,
        waiting: &mut Waiting<'_>,
    ) -> Answer<usize> {
        if call.flags & KERNELS != 0 {
            return Err(Stop::Kernel);
        }
        let waits_for_one = call.flags & MSG_WAITFORONE != 0;
        let mut done = 0;
        loop {
            let left = &mut messages[done..];
            // SAFETY: as the caller's.
            let count = match unsafe { self.receive_now(call, left) } {
                Ok(count) => count,
                Err(_) if done > 0 => return Ok(done),
                Err(stop) => return Err(stop),
            };
            done += count;
            let may_end = done > 0 && (waits_for_one || waiting.is_nonblocking());
            if done == messages.len() || may_end || deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                return Ok(done);
            }
            if count == 0 && waiting.is_nonblocking() {
                return Err(Errno::AGAIN.into());
            }
            let first = &mut messages[done];
            // SAFETY: as the caller's.
            let ready = |engine: &mut Engine| unsafe { self.take(engine, first, call.flags) }.or(self.is_over(engine));
            match waiting.wait(&self.engine, &[(call.socket(), PollFlags::IN)], ready) {
                Woken::Ready(true) => done += 1,
                Woken::Ready(false) | Woken::Kernel => {}
                _ if done > 0 => return Ok(done),
                Woken::Interrupted => return Err(Errno::INTR.into()),
                Woken::Deadline => return Err(Errno::AGAIN.into()),
            }
            if done == messages.len() {
                return Ok(done);
            }
        }
    }

    /// Returns `Some(false)` where nothing will come past the kernel any more.
    fn is_over(&self, engine: &mut Engine) -> Option<bool> {
        (self.is_left() && engine.unread(self.handle) == Ok(0)).then_some(false)
    }

    /// Receives what is there: what was looked at before, or past the kernel first, but for every now and then.
    ///
    /// # Safety
    /// As of [`Self::receive_many`].
    unsafe fn receive_now(&self, call: &Call<'_>, messages: &mut [mmsghdr]) -> Answer<usize> {
        let is_own_first = match self.looked_at() {
            Side::Own => true,
            Side::Engine => false,
            Side::Unknown => call.flags & MSG_PEEK == 0 && self.is_own_turn(messages.len()),
        };
        if is_own_first {
            // SAFETY: as the caller's.
            let count = unsafe { self.receive_own(call, messages) }?;
            if count > 0 {
                return Ok(count);
            }
        }
        let count = self.engine.with(|engine| {
            let mut count = 0;
            for message in messages.iter_mut() {
                // SAFETY: as the caller's.
                if unsafe { self.take(engine, message, call.flags) }.is_none() {
                    break;
                }
                count += 1;
            }
            count
        });
        if count > 0 {
            return Ok(count);
        }
        if self.is_left() {
            descriptors::release(call.description);
            return Err(Stop::Kernel);
        }
        // SAFETY: as the caller's.
        unsafe { self.receive_own(call, messages) }
    }

    /// Receives what the program's own socket has, without waiting.
    ///
    /// # Safety
    /// As of [`Self::receive_many`].
    unsafe fn receive_own(&self, call: &Call<'_>, messages: &mut [mmsghdr]) -> Answer<usize> {
        // SAFETY: as the caller's.
        let count = unsafe { receive_own(call, messages) }?;
        if count > 0 {
            self.look_at(if call.flags & MSG_PEEK != 0 { Side::Own } else { Side::Unknown });
        }
        Ok(count)
    }

    /// Counts a call for so many datagrams; returns whether the program's own socket is asked first.
    fn is_own_turn(&self, wanted: usize) -> bool {
        let wanted = u32::try_from(wanted).unwrap_or(TURNS).min(TURNS);
        let is_own = self.turns.fetch_add(wanted, Ordering::Relaxed) + wanted > TURNS;
        if is_own {
            self.turns.store(0, Ordering::Relaxed);
        }
        is_own
    }

    /// Takes the next datagram past the kernel, or looks at it; `None` where there is none.
    ///
    /// # Safety
    /// As of [`Self::receive`].
    unsafe fn take(&self, engine: &mut Engine, message: &mut mmsghdr, flags: c_int) -> Option<bool> {
        let is_peek = flags & MSG_PEEK != 0;
        let dropped =
            if self.wanted.is_empty() { 0 } else { engine.statistics(self.handle).map_or(0, |now| now.dropped) };
        let length = if is_peek {
            let (datagram, payload) = engine.peek(self.handle).ok()??;
            // SAFETY: as the caller's.
            unsafe { self.give(datagram, payload, dropped, &mut message.msg_hdr, flags) }
        } else {
            let datagram = engine.receive(self.handle).ok()??;
            // SAFETY: as the caller's.
            let length =
                unsafe { self.give(&datagram, engine.payload(&datagram), dropped, &mut message.msg_hdr, flags) };
            engine.release(datagram);
            length
        };
        message.msg_len = length as u32;
        self.look_at(if is_peek { Side::Engine } else { Side::Unknown });
        self.report(engine);
        Some(true)
    }

    /// Gives the program a datagram: payload, source, ancillary data. Returns the call's result.
    ///
    /// # Safety
    /// As of [`Self::receive`].
    unsafe fn give(
        &self,
        datagram: &Datagram,
        payload: &[u8],
        dropped: u64,
        message: &mut msghdr,
        flags: c_int,
    ) -> usize {
        // SAFETY: as the caller's. A list that the kernel would refuse was refused before.
        let mut into = unsafe { list(message.msg_iov, message.msg_iovlen).and_then(|list| Scatter::new(list)) };
        let mut rest = payload;
        let filled = into.iter_mut().map(|into| {
            let Ok(count) = into.fill(0, |part| {
                let count = part.len().min(rest.len());
                part[..count].copy_from_slice(&rest[..count]);
                rest = &rest[count..];
                Ok::<usize, Infallible>(count)
            });
            count
        });
        let count = filled.sum();
        message.msg_flags = if count < payload.len() { MSG_TRUNC } else { 0 };
        let source = self.shown(datagram.source());
        // SAFETY: the caller promises a name that is null, or valid for so many bytes.
        unsafe { address::write(source, message.msg_name.cast(), &raw mut message.msg_namelen) };
        if message.msg_name.is_null() {
            message.msg_namelen = 0;
        }
        // SAFETY: as the caller's.
        let mut control = unsafe { Control::new(message) };
        if !self.wanted.is_empty() {
            self.wanted.write(&mut control, datagram, self.shown(datagram.destination()), dropped);
        }
        control.finish();
        if flags & MSG_TRUNC != 0 { payload.len() } else { count }
    }
}

/// Receives what the program's own socket has, without waiting.
///
/// # Safety
/// As of [`Datagrams::receive_many`].
unsafe fn receive_own(call: &Call<'_>, messages: &mut [mmsghdr]) -> Answer<usize> {
    let flags = call.flags | MSG_DONTWAIT;
    // By the system call: the C library's function is a cancellation point.
    let count = match messages {
        // SAFETY: as the caller's.
        [one] => match unsafe { libc::syscall(libc::SYS_recvmsg, call.number, &raw mut one.msg_hdr, flags) } {
            length @ 0.. => {
                one.msg_len = length as u32;
                1
            }
            failed => failed,
        },
        // SAFETY: as the caller's.
        many => unsafe {
            let none = std::ptr::null_mut::<libc::timespec>();
            libc::syscall(libc::SYS_recvmmsg, call.number, many.as_mut_ptr(), many.len(), flags, none)
        },
    };
    match usize::try_from(count).map_err(|_| crate::errno::last()) {
        Ok(count) => Ok(count),
        Err(Errno::AGAIN) => Ok(0),
        Err(errno) => Err(errno.into()),
    }
}
