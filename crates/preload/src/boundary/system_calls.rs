//! syscall(2): calls that a program makes by their numbers are served as those by their names are. Numbers of descriptors that are the
//! kernel's go to it as they are.

use crate::boundary::{accept, descriptors, epoll, namespaces, options, process, receive, send, sockets, waiting};
use crate::handover::{self, Cause};
use crate::table::real;
use libc::{c_int, c_long, c_uint, c_ulong, c_void, iocb, sigset_t};

/// The registers of a system call.
type Words = [c_long; 6];

/// Reads six words, however many the caller has given: those that it has not are read from registers, and from the stack, and nobody
/// looks at them.
pub(crate) unsafe fn syscall(call: c_long, a: c_long, b: c_long, c: c_long, d: c_long, e: c_long, f: c_long) -> c_long {
    let words = [a, b, c, d, e, f];
    // SAFETY: as the system call's.
    let served = unsafe {
        if is_use(call) && crate::descriptors::is_ours_to_use(a as c_int) {
            transfer(call, &words).or_else(|| about_socket(call, &words))
        } else {
            about_numbers(call, &words).or_else(|| wait(call, &words)).or_else(|| about_process(call, &words))
        }
    };
    // SAFETY: as the system call's.
    served.unwrap_or_else(|| unsafe { real::syscall(call, a, b, c, d, e, f) })
}

/// Returns whether a call's first word is a descriptor, which it uses.
fn is_use(call: c_long) -> bool {
    matches!(
        call,
        libc::SYS_read
            | libc::SYS_readv
            | libc::SYS_preadv2
            | libc::SYS_recvfrom
            | libc::SYS_recvmsg
            | libc::SYS_recvmmsg
            | libc::SYS_write
            | libc::SYS_writev
            | libc::SYS_pwritev2
            | libc::SYS_sendto
            | libc::SYS_sendmsg
            | libc::SYS_sendmmsg
            | libc::SYS_sendfile
            | libc::SYS_accept
            | libc::SYS_accept4
            | libc::SYS_shutdown
            | libc::SYS_getsockname
            | libc::SYS_getpeername
            | libc::SYS_getsockopt
            | libc::SYS_setsockopt
            | libc::SYS_ioctl
    )
}

/// # Safety
/// As the system call's.
unsafe fn transfer(call: c_long, words: &Words) -> Option<c_long> {
    let [a, b, c, d, e, f] = *words;
    let number = a as c_int;
    // SAFETY: the caller promises it.
    let count = unsafe {
        match call {
            libc::SYS_read => receive::read(number, b as *mut c_void, c as usize),
            libc::SYS_readv => receive::readv(number, b as *const _, c as c_int),
            // The fifth word is the offset's upper half, where words have half of its bits.
            libc::SYS_preadv2 => receive::preadv2(number, b as *const _, c as c_int, d, f as c_int),
            libc::SYS_recvfrom => {
                receive::recvfrom(number, b as *mut c_void, c as usize, d as c_int, e as *mut _, f as *mut _)
            }
            libc::SYS_recvmsg => receive::recvmsg(number, b as *mut _, c as c_int),
            libc::SYS_recvmmsg => receive::recvmmsg(number, b as *mut _, c as c_uint, d as c_int, e as *mut _) as isize,
            libc::SYS_write => send::write(number, b as *const c_void, c as usize),
            libc::SYS_writev => send::writev(number, b as *const _, c as c_int),
            libc::SYS_pwritev2 => send::pwritev2(number, b as *const _, c as c_int, d, f as c_int),
            libc::SYS_sendto => send::sendto(number, b as *const c_void, c as usize, d as c_int, e as *const _, f as _),
            libc::SYS_sendmsg => send::sendmsg(number, b as *const _, c as c_int),
            libc::SYS_sendmmsg => send::sendmmsg(number, b as *mut _, c as c_uint, d as c_int) as isize,
            libc::SYS_sendfile => send::sendfile(number, b as c_int, c as *mut _, d as usize),
            _ => return None,
        }
    };
    Some(count as c_long)
}

/// # Safety
/// As the system call's.
unsafe fn about_socket(call: c_long, words: &Words) -> Option<c_long> {
    let [a, b, c, d, e, _] = *words;
    let number = a as c_int;
    // SAFETY: the caller promises it.
    let result = unsafe {
        match call {
            libc::SYS_accept => accept::accept(number, b as *mut _, c as *mut _),
            libc::SYS_accept4 => accept::accept4(number, b as *mut _, c as *mut _, d as c_int),
            libc::SYS_shutdown => sockets::shutdown(number, b as c_int),
            libc::SYS_getsockname => sockets::getsockname(number, b as *mut _, c as *mut _),
            libc::SYS_getpeername => sockets::getpeername(number, b as *mut _, c as *mut _),
            libc::SYS_getsockopt => options::getsockopt(number, b as c_int, c as c_int, d as *mut _, e as *mut _),
            libc::SYS_setsockopt => options::setsockopt(number, b as c_int, c as c_int, d as *const _, e as _),
            libc::SYS_ioctl => descriptors::ioctl(number, b as c_ulong, c as c_ulong),
            _ => return None,
        }
    };
    Some(result.into())
}

/// Calls that make descriptors, begin to use them, or change what numbers stand for.
///
/// # Safety
/// As the system call's.
unsafe fn about_numbers(call: c_long, words: &Words) -> Option<c_long> {
    let [a, b, c, d, e, f] = *words;
    let number = a as c_int;
    // SAFETY: the caller promises it.
    let result = unsafe {
        match call {
            libc::SYS_socket => sockets::socket(number, b as c_int, c as c_int),
            libc::SYS_connect => sockets::connect(number, b as *const _, c as _),
            libc::SYS_bind => sockets::bind(number, b as *const _, c as _),
            libc::SYS_listen => sockets::listen(number, b as c_int),
            libc::SYS_close => descriptors::close(number),
            libc::SYS_close_range => descriptors::close_range(a as c_uint, b as c_uint, c as c_int),
            libc::SYS_dup => descriptors::dup(number),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_dup2 => descriptors::dup2(number, b as c_int),
            libc::SYS_dup3 => descriptors::dup3(number, b as c_int, c as c_int),
            libc::SYS_fcntl => descriptors::fcntl(number, b as c_int, c as c_ulong),
            libc::SYS_splice => {
                return Some(
                    send::splice(number, b as *mut _, c as c_int, d as *mut _, e as usize, f as c_uint) as c_long
                );
            }
            // A datagram socket may go past the kernel with its first.
            libc::SYS_sendto | libc::SYS_sendmsg | libc::SYS_sendmmsg => return transfer(call, words),
            libc::SYS_setsockopt => return about_socket(call, words),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_epoll_create => epoll::epoll_create(number),
            libc::SYS_epoll_create1 => epoll::epoll_create1(number),
            libc::SYS_epoll_ctl => epoll::epoll_ctl(number, b as c_int, c as c_int, d as *mut _),
            _ => return None,
        }
    };
    Some(result.into())
}

/// # Safety
/// As the system call's.
unsafe fn wait(call: c_long, words: &Words) -> Option<c_long> {
    let [a, b, c, d, e, f] = *words;
    // SAFETY: the caller promises it.
    let result = unsafe {
        match call {
            #[cfg(target_arch = "x86_64")]
            libc::SYS_poll => waiting::poll(a as *mut _, b as _, c as c_int),
            libc::SYS_ppoll => with_wide(d, |mask| waiting::ppoll(a as *mut _, b as _, c as *const _, mask)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_select => waiting::select(a as c_int, b as *mut _, c as *mut _, d as *mut _, e as *mut _),
            libc::SYS_pselect6 => with_wide(mask_of_pselect(f), |mask| {
                waiting::pselect(a as c_int, b as *mut _, c as *mut _, d as *mut _, e as *const _, mask)
            }),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_epoll_wait => epoll::epoll_wait(a as c_int, b as *mut _, c as c_int, d as c_int),
            libc::SYS_epoll_pwait => {
                with_wide(e, |mask| epoll::epoll_pwait(a as c_int, b as *mut _, c as c_int, d as c_int, mask))
            }
            libc::SYS_epoll_pwait2 => {
                with_wide(e, |mask| epoll::epoll_pwait2(a as c_int, b as *mut _, c as c_int, d as *const _, mask))
            }
            _ => return None,
        }
    };
    Some(result.into())
}

/// # Safety
/// As the system call's.
unsafe fn about_process(call: c_long, words: &Words) -> Option<c_long> {
    let [a, b, c, d, e, _] = *words;
    // SAFETY: the caller promises it.
    unsafe {
        match call {
            libc::SYS_execve => Some(process::execve(a as *const _, b as *const _, c as *const _).into()),
            libc::SYS_execveat => {
                Some(process::execveat(a as c_int, b as *const _, c as *const _, d as *const _, e as c_int).into())
            }
            libc::SYS_setns => Some(namespaces::setns(a as c_int, b as c_int).into()),
            libc::SYS_unshare => Some(namespaces::unshare(a as c_int).into()),
            libc::SYS_exit_group => {
                process::_exit(a as c_int);
                None
            }
            // What a ring does with descriptors is not seen.
            libc::SYS_io_uring_setup => {
                handover::everything_to_kernel(Cause::Ring);
                None
            }
            libc::SYS_io_submit => {
                before_submission(b, c as *const *const iocb);
                None
            }
            _ => None,
        }
    }
}

/// # Safety
/// As io_submit(2).
unsafe fn before_submission(count: c_long, list: *const *const iocb) {
    let Ok(count) = usize::try_from(count) else { return };
    if list.is_null() {
        return;
    }
    // SAFETY: the caller promises a list of so many pointers.
    for block in unsafe { std::slice::from_raw_parts(list, count) } {
        // SAFETY: the caller promises null or a block.
        if let Some(block) = unsafe { block.as_ref() } {
            handover::number_to_kernel(block.aio_fildes as c_int, Cause::Asynchronous);
        }
    }
}

/// The kernel's set of signals has one word; the C library's has more.
///
/// # Safety
/// `mask` is null, or the address of a set of the kernel's.
unsafe fn with_wide<T>(mask: c_long, work: impl FnOnce(*const sigset_t) -> T) -> T {
    // SAFETY: the caller promises it.
    let Some(mask) = (unsafe { (mask as *const u64).as_ref() }) else { return work(std::ptr::null()) };
    // SAFETY: a set is words, and one without members is zeroes.
    let mut wide: sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the C library's set begins with the kernel's (sigset_t of both C libraries).
    unsafe { (&raw mut wide).cast::<u64>().write(*mask) };
    work(&raw const wide)
}

/// The address of the set: the sixth word is that of a pair of it and its size (select(2)).
///
/// # Safety
/// As pselect6's.
unsafe fn mask_of_pselect(word: c_long) -> c_long {
    if word == 0 {
        return 0;
    }
    // SAFETY: the caller promises it.
    unsafe { (word as *const c_long).read_unaligned() }
}
