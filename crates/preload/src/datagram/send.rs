//! Datagrams into a socket: past the kernel, or by the program's own call.

use super::Datagrams;
use crate::address;
use crate::answer::{Answer, Stop};
use crate::vectors::{Gather, list};
use libc::{MSG_CONFIRM, MSG_DONTWAIT, MSG_EOR, MSG_MORE, MSG_NOSIGNAL, c_int, mmsghdr, msghdr};
use sidestep_socket::{Engine, SendError};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering;

/// Flags that change nothing of what is sent past the kernel.
const FOLLOWED: c_int = MSG_DONTWAIT | MSG_NOSIGNAL | MSG_CONFIRM | MSG_EOR;

/// Attempts while the device's ring is full: then the kernel sends, which waits or refuses as the program knows it.
const ATTEMPTS: u32 = 64;

/// The longest payload in several parts that is put together without memory of its own.
const JOINED_BYTES: usize = 2048;

impl Datagrams {
    /// Sends one datagram. sendmsg(2)
    ///
    /// # Safety
    /// The message is valid, and its buffers for reads.
    pub(crate) unsafe fn send(&self, message: &msghdr, flags: c_int) -> Answer<usize> {
        // SAFETY: as the caller's.
        let (from, to) = unsafe { self.parts(message, flags) }?;
        let length = from.len();
        match self.engine.with(|engine| self.put(engine, from, to).and_then(|()| engine.flush())) {
            Ok(()) => Ok(length),
            Err(_) => Err(Stop::Kernel),
        }
    }

    /// Sends datagrams up to the first that is the kernel's to send; returns how many. sendmmsg(2)
    ///
    /// # Safety
    /// As of [`Self::send`], each.
    pub(crate) unsafe fn send_many(&self, messages: &mut [mmsghdr], flags: c_int) -> usize {
        self.engine.with(|engine| {
            let mut done = 0;
            for message in messages {
                // SAFETY: as the caller's.
                let Ok((from, to)) = (unsafe { self.parts(&message.msg_hdr, flags) }) else { break };
                if self.put(engine, from, to).is_err() {
                    break;
                }
                message.msg_len = from.len() as u32;
                done += 1;
            }
            // What the device does not take is lost, as in the kernel.
            let _ = engine.flush();
            done
        })
    }

    /// The payload and destination of a message; an error where the kernel is to send it, or to refuse it.
    ///
    /// # Safety
    /// As of [`Self::send`].
    unsafe fn parts<'a>(&self, message: &'a msghdr, flags: c_int) -> Answer<(Gather<'a>, Option<SocketAddr>)> {
        if self.is_kernels(message, flags) {
            return Err(Stop::Kernel);
        }
        // SAFETY: as the caller's.
        let to = unsafe { self.destination(message) }?;
        // SAFETY: as the caller's.
        let from = unsafe { Gather::new(list(message.msg_iov, message.msg_iovlen)?) };
        Ok((from.map_err(|_| Stop::Kernel)?, to))
    }

    fn is_kernels(&self, message: &msghdr, flags: c_int) -> bool {
        let has_more = flags & MSG_MORE != 0;
        if has_more || self.is_corked.load(Ordering::Relaxed) {
            // The kernel has the beginning.
            self.is_corked.store(has_more, Ordering::Relaxed);
            return true;
        }
        flags & !FOLLOWED != 0
            || message.msg_controllen != 0
            || self.is_left()
            || self.has_error.load(Ordering::Acquire) && self.has_error.swap(false, Ordering::AcqRel)
    }

    /// # Safety
    /// As of [`Self::send`].
    unsafe fn destination(&self, message: &msghdr) -> Answer<Option<SocketAddr>> {
        if message.msg_name.is_null() {
            return Ok(None);
        }
        // SAFETY: the caller promises a name of so many bytes.
        let to = unsafe { address::read(message.msg_name.cast(), message.msg_namelen) }.ok_or(Stop::Kernel)?;
        let of_ipv6 = |to: &SocketAddr| match to {
            SocketAddr::V4(_) => !self.is_ipv6,
            SocketAddr::V6(v6) => self.is_ipv6 && v6.flowinfo() == 0,
        };
        let to = Some(to).filter(of_ipv6).filter(|to| to.port() != 0).ok_or(Stop::Kernel)?;
        match to.ip().to_canonical() {
            IpAddr::V4(_) if self.is_ipv6 && self.is_mixed.load(Ordering::Relaxed) => Err(Stop::Kernel),
            ip @ IpAddr::V4(_) => Ok(Some(SocketAddr::new(ip, to.port()))),
            IpAddr::V6(_) => Ok(Some(to)),
        }
    }

    fn put(&self, engine: &mut Engine, from: Gather<'_>, to: Option<SocketAddr>) -> Result<(), SendError> {
        let mut parts = from.parts(0);
        match (parts.next(), parts.next()) {
            (None, _) => self.put_one(engine, &[], to),
            (Some(whole), None) => self.put_one(engine, whole, to),
            (Some(_), Some(_)) if from.len() <= JOINED_BYTES => {
                let mut joined = [0; JOINED_BYTES];
                let mut length = 0;
                for part in from.parts(0) {
                    joined[length..length + part.len()].copy_from_slice(part);
                    length += part.len();
                }
                self.put_one(engine, &joined[..length], to)
            }
            // Longer than a frame, but for jumbo frames.
            (Some(_), Some(_)) => Err(SendError::Beside),
        }
    }

    fn put_one(&self, engine: &mut Engine, payload: &[u8], to: Option<SocketAddr>) -> Result<(), SendError> {
        if engine.take_beside_error(self.handle) {
            return Err(SendError::Beside);
        }
        for _ in 0..ATTEMPTS {
            match engine.put(self.handle, payload, to) {
                Err(SendError::Full) => {}
                done => {
                    self.report(engine);
                    return done;
                }
            }
        }
        Err(SendError::Beside)
    }
}
