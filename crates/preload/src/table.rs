//! The table of intercepted calls: each name once, with its C signature, and the function that serves it.
//!
//! From a row come the exported function of libsidestep.so, the real function of the C library (`real::NAME`), and an entry in
//! [`SYMBOLS`]. A variadic C function stands here with the registers that it reads: on x86-64 and AArch64 Linux variadic integers and
//! pointers are passed as named ones are.

use crate::boundary::{
    accept, descriptors, epoll, namespaces, options, process, receive, send, sockets, stdio, system_calls, waiting,
};
use crate::signals::{self, calls, cancellation};
use crate::symbol::{Absent, Symbol};
use libc::{
    FILE, aiocb, c_char, c_int, c_long, c_uint, c_ulong, c_void, epoll_event, fd_set, iovec, loff_t, mmsghdr, msghdr,
    nfds_t, off_t, off64_t, pid_t, pollfd, pthread_t, sigaction as SignalAction, sigevent, sighandler_t, sigset_t,
    size_t, sockaddr, socklen_t, ssize_t, timespec, timeval,
};

/// Calls a function that is never inlined, so that the calling frame has nothing to drop: such a frame alone can be unwound from any
/// instruction. The thread cannot be cancelled there while it is in the function (PTHREAD_CANCEL_ASYNCHRONOUS).
macro_rules! shielded {
    ($function:path, $($argument:ident),*) => {{
        if cancellation::is_any_asynchronous() {
            let is_deferred = cancellation::defer();
            // SAFETY: the program answers for its arguments, as it does to the C library.
            let result = unsafe { $function($($argument),*) };
            cancellation::resume(is_deferred);
            return result;
        }
        // SAFETY: as above.
        unsafe { $function($($argument),*) }
    }};
}

macro_rules! intercepted {
    ($($subject:ident {
        $(fn $name:ident($($argument:ident: $type:ty),* $(,)?) -> $result:ty = $handler:path;)+
    })+) => {
        #[allow(non_camel_case_types)]
        enum Name { $($($name,)+)+ }

        /// The intercepted names, in the order of the table.
        pub(crate) static SYMBOLS: [Symbol; COUNT] =
            [$($(Symbol::new(concat!(stringify!($name), "\0")),)+)+];
        const COUNT: usize = [$($(stringify!($name),)+)+].len();

        /// The functions of the C library, or of the next library that has the name.
        #[allow(non_snake_case)] // C's names.
        #[allow(dead_code)] // A row makes one, whether its handler calls it or another of the same meaning.
        pub(crate) mod real {
            use super::*;
            $($(
                /// # Safety
                /// As the C function of this name.
                #[inline]
                pub(crate) unsafe fn $name($($argument: $type),*) -> $result {
                    let Some(address) = SYMBOLS[Name::$name as usize].address() else {
                        return Absent::answer();
                    };
                    // SAFETY: the address is that of the C function of this name, whose signature the row has.
                    let function: unsafe extern "C-unwind" fn($($type),*) -> $result = unsafe { std::mem::transmute(address) };
                    // SAFETY: the caller answers for the arguments.
                    unsafe { function($($argument),*) }
                }
            )+)+
        }

        /// The functions of the rows, one for each name.
        #[allow(non_snake_case)]
        #[cfg_attr(test, allow(dead_code))]
        mod served {
            use super::*;
            $($(
                #[inline(never)]
                pub(super) unsafe extern "C-unwind" fn $name($($argument: $type),*) -> $result {
                    // SAFETY: the program answers for its arguments, as it does to the C library.
                    unsafe { $handler($($argument),*) }
                }
            )+)+
        }

        /// What libsidestep.so exports.
        #[allow(non_snake_case)]
        mod exported {
            use super::*;
            $($(
                #[cfg_attr(not(test), unsafe(no_mangle))]
                #[cfg_attr(test, allow(dead_code))]
                unsafe extern "C-unwind" fn $name($($argument: $type),*) -> $result {
                    shielded!(served::$name, $($argument),*)
                }
            )+)+
        }
    };
}

intercepted! {
    Sockets {
        fn socket(family: c_int, kind: c_int, protocol: c_int) -> c_int = sockets::socket;
        fn socketpair(family: c_int, kind: c_int, protocol: c_int, pair: *mut c_int) -> c_int = real::socketpair;
        fn bind(descriptor: c_int, address: *const sockaddr, length: socklen_t) -> c_int = sockets::bind;
        fn listen(descriptor: c_int, backlog: c_int) -> c_int = sockets::listen;
        fn accept(descriptor: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int = accept::accept;
        fn accept4(descriptor: c_int, address: *mut sockaddr, length: *mut socklen_t, flags: c_int) -> c_int = accept::accept4;
        fn connect(descriptor: c_int, address: *const sockaddr, length: socklen_t) -> c_int = sockets::connect;
        fn __connect(descriptor: c_int, address: *const sockaddr, length: socklen_t) -> c_int = sockets::connect;
        fn shutdown(descriptor: c_int, how: c_int) -> c_int = sockets::shutdown;
        fn getsockname(descriptor: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int = sockets::getsockname;
        fn getpeername(descriptor: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int = sockets::getpeername;
        fn getsockopt(descriptor: c_int, level: c_int, name: c_int, value: *mut c_void, length: *mut socklen_t) -> c_int
            = options::getsockopt;
        fn setsockopt(descriptor: c_int, level: c_int, name: c_int, value: *const c_void, length: socklen_t) -> c_int
            = options::setsockopt;
    }
    Transfer {
        fn read(descriptor: c_int, buffer: *mut c_void, length: size_t) -> ssize_t = receive::read;
        fn __read(descriptor: c_int, buffer: *mut c_void, length: size_t) -> ssize_t = receive::read;
        fn __read_chk(descriptor: c_int, buffer: *mut c_void, length: size_t, room: size_t) -> ssize_t = receive::read_chk;
        fn readv(descriptor: c_int, vector: *const iovec, count: c_int) -> ssize_t = receive::readv;
        fn preadv2(descriptor: c_int, vector: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t = receive::preadv2;
        fn preadv64v2(descriptor: c_int, vector: *const iovec, count: c_int, offset: off64_t, flags: c_int) -> ssize_t
            = receive::preadv2;
        fn recv(descriptor: c_int, buffer: *mut c_void, length: size_t, flags: c_int) -> ssize_t = receive::recv;
        fn __recv_chk(descriptor: c_int, buffer: *mut c_void, length: size_t, room: size_t, flags: c_int) -> ssize_t
            = receive::recv_chk;
        fn recvfrom(
            descriptor: c_int, buffer: *mut c_void, length: size_t, flags: c_int,
            address: *mut sockaddr, address_length: *mut socklen_t,
        ) -> ssize_t = receive::recvfrom;
        fn __recvfrom_chk(
            descriptor: c_int, buffer: *mut c_void, length: size_t, room: size_t, flags: c_int,
            address: *mut sockaddr, address_length: *mut socklen_t,
        ) -> ssize_t = receive::recvfrom_chk;
        fn recvmsg(descriptor: c_int, message: *mut msghdr, flags: c_int) -> ssize_t = receive::recvmsg;
        fn recvmmsg(descriptor: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int, timeout: *mut timespec) -> c_int
            = receive::recvmmsg;
        fn write(descriptor: c_int, buffer: *const c_void, length: size_t) -> ssize_t = send::write;
        fn __write(descriptor: c_int, buffer: *const c_void, length: size_t) -> ssize_t = send::write;
        fn writev(descriptor: c_int, vector: *const iovec, count: c_int) -> ssize_t = send::writev;
        fn pwritev2(descriptor: c_int, vector: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t
            = send::pwritev2;
        fn pwritev64v2(descriptor: c_int, vector: *const iovec, count: c_int, offset: off64_t, flags: c_int) -> ssize_t
            = send::pwritev2;
        fn send(descriptor: c_int, buffer: *const c_void, length: size_t, flags: c_int) -> ssize_t = send::send;
        fn __send(descriptor: c_int, buffer: *const c_void, length: size_t, flags: c_int) -> ssize_t = send::send;
        fn sendto(
            descriptor: c_int, buffer: *const c_void, length: size_t, flags: c_int,
            address: *const sockaddr, address_length: socklen_t,
        ) -> ssize_t = send::sendto;
        fn sendmsg(descriptor: c_int, message: *const msghdr, flags: c_int) -> ssize_t = send::sendmsg;
        fn sendmmsg(descriptor: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int = send::sendmmsg;
        fn sendfile(out: c_int, from: c_int, offset: *mut off_t, count: size_t) -> ssize_t = send::sendfile;
        fn sendfile64(out: c_int, from: c_int, offset: *mut off64_t, count: size_t) -> ssize_t = send::sendfile;
        fn splice(
            from: c_int, from_offset: *mut loff_t, to: c_int, to_offset: *mut loff_t, count: size_t, flags: c_uint,
        ) -> ssize_t = send::splice;
    }
    Descriptors {
        fn close(descriptor: c_int) -> c_int = descriptors::close;
        fn __close(descriptor: c_int) -> c_int = descriptors::close;
        fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int = descriptors::close_range;
        fn closefrom(first: c_int) -> () = descriptors::closefrom;
        fn dup(descriptor: c_int) -> c_int = descriptors::dup;
        fn dup2(descriptor: c_int, number: c_int) -> c_int = descriptors::dup2;
        fn __dup2(descriptor: c_int, number: c_int) -> c_int = descriptors::dup2;
        fn dup3(descriptor: c_int, number: c_int, flags: c_int) -> c_int = descriptors::dup3;
        fn fcntl(descriptor: c_int, command: c_int, argument: c_ulong) -> c_int = descriptors::fcntl;
        fn __fcntl(descriptor: c_int, command: c_int, argument: c_ulong) -> c_int = descriptors::fcntl;
        fn fcntl64(descriptor: c_int, command: c_int, argument: c_ulong) -> c_int = descriptors::fcntl64;
        fn ioctl(descriptor: c_int, request: c_ulong, argument: c_ulong) -> c_int = descriptors::ioctl;
    }
    SystemCalls {
        fn syscall(
            call: c_long, a: c_long, b: c_long, c: c_long, d: c_long, e: c_long, f: c_long,
        ) -> c_long = system_calls::syscall;
    }
    Stdio {
        fn fdopen(descriptor: c_int, mode: *const c_char) -> *mut FILE = stdio::fdopen;
        fn _IO_fdopen(descriptor: c_int, mode: *const c_char) -> *mut FILE = stdio::fdopen;
        fn vdprintf(descriptor: c_int, format: *const c_char, arguments: *mut c_void) -> c_int = stdio::vdprintf;
        fn __vdprintf_chk(descriptor: c_int, flag: c_int, format: *const c_char, arguments: *mut c_void) -> c_int
            = stdio::vdprintf_chk;
        fn aio_read(block: *mut aiocb) -> c_int = stdio::aio_read;
        fn aio_read64(block: *mut aiocb) -> c_int = stdio::aio_read;
        fn aio_write(block: *mut aiocb) -> c_int = stdio::aio_write;
        fn aio_write64(block: *mut aiocb) -> c_int = stdio::aio_write;
        fn lio_listio(mode: c_int, list: *const *mut aiocb, count: c_int, event: *mut sigevent) -> c_int
            = stdio::lio_listio;
        fn lio_listio64(mode: c_int, list: *const *mut aiocb, count: c_int, event: *mut sigevent) -> c_int
            = stdio::lio_listio;
    }
    Waiting {
        fn poll(list: *mut pollfd, count: nfds_t, timeout_ms: c_int) -> c_int = waiting::poll;
        fn __poll(list: *mut pollfd, count: nfds_t, timeout_ms: c_int) -> c_int = waiting::poll;
        fn __poll_chk(list: *mut pollfd, count: nfds_t, timeout_ms: c_int, room: size_t) -> c_int = waiting::poll_chk;
        fn ppoll(list: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t) -> c_int = waiting::ppoll;
        fn __ppoll_chk(
            list: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t, room: size_t,
        ) -> c_int = waiting::ppoll_chk;
        fn select(
            count: c_int, readable: *mut fd_set, writable: *mut fd_set, exceptional: *mut fd_set, timeout: *mut timeval,
        ) -> c_int = waiting::select;
        fn __select(
            count: c_int, readable: *mut fd_set, writable: *mut fd_set, exceptional: *mut fd_set, timeout: *mut timeval,
        ) -> c_int = waiting::select;
        fn pselect(
            count: c_int, readable: *mut fd_set, writable: *mut fd_set, exceptional: *mut fd_set,
            timeout: *const timespec, mask: *const sigset_t,
        ) -> c_int = waiting::pselect;
        fn epoll_create(size: c_int) -> c_int = epoll::epoll_create;
        fn epoll_create1(flags: c_int) -> c_int = epoll::epoll_create1;
        fn epoll_ctl(set: c_int, operation: c_int, descriptor: c_int, event: *mut epoll_event) -> c_int = epoll::epoll_ctl;
        fn epoll_wait(set: c_int, events: *mut epoll_event, count: c_int, timeout_ms: c_int) -> c_int = epoll::epoll_wait;
        fn epoll_pwait(
            set: c_int, events: *mut epoll_event, count: c_int, timeout_ms: c_int, mask: *const sigset_t,
        ) -> c_int = epoll::epoll_pwait;
        fn epoll_pwait2(
            set: c_int, events: *mut epoll_event, count: c_int, timeout: *const timespec, mask: *const sigset_t,
        ) -> c_int = epoll::epoll_pwait2;
    }
    Process {
        fn fork() -> pid_t = real::fork;
        fn _Fork() -> pid_t = process::fork_untold;
        fn execve(path: *const c_char, arguments: *const *const c_char, environment: *const *const c_char) -> c_int
            = process::execve;
        fn execv(path: *const c_char, arguments: *const *const c_char) -> c_int = process::execv;
        fn execvp(file: *const c_char, arguments: *const *const c_char) -> c_int = process::execvp;
        fn execvpe(file: *const c_char, arguments: *const *const c_char, environment: *const *const c_char) -> c_int
            = process::execvpe;
        fn fexecve(descriptor: c_int, arguments: *const *const c_char, environment: *const *const c_char) -> c_int
            = process::fexecve;
        fn execveat(
            folder: c_int, path: *const c_char, arguments: *const *const c_char, environment: *const *const c_char, flags: c_int,
        ) -> c_int = process::execveat;
        fn system(command: *const c_char) -> c_int = process::system;
        fn popen(command: *const c_char, mode: *const c_char) -> *mut FILE = process::popen;
        fn posix_spawn(
            pid: *mut pid_t, path: *const c_char, actions: *const c_void, attributes: *const c_void,
            arguments: *const *mut c_char, environment: *const *mut c_char,
        ) -> c_int = process::posix_spawn;
        fn posix_spawnp(
            pid: *mut pid_t, file: *const c_char, actions: *const c_void, attributes: *const c_void,
            arguments: *const *mut c_char, environment: *const *mut c_char,
        ) -> c_int = process::posix_spawnp;
        fn pidfd_spawn(
            process: *mut c_int, path: *const c_char, actions: *const c_void, attributes: *const c_void,
            arguments: *const *mut c_char, environment: *const *mut c_char,
        ) -> c_int = process::pidfd_spawn;
        fn pidfd_spawnp(
            process: *mut c_int, file: *const c_char, actions: *const c_void, attributes: *const c_void,
            arguments: *const *mut c_char, environment: *const *mut c_char,
        ) -> c_int = process::pidfd_spawnp;
        fn posix_spawn_file_actions_adddup2(actions: *mut c_void, descriptor: c_int, number: c_int) -> c_int
            = process::posix_spawn_file_actions_adddup2;
        fn daemon(stays: c_int, keeps: c_int) -> c_int = real::daemon;
        fn setns(descriptor: c_int, kind: c_int) -> c_int = namespaces::setns;
        fn unshare(flags: c_int) -> c_int = namespaces::unshare;
        fn _exit(status: c_int) -> () = process::_exit;
        fn _Exit(status: c_int) -> () = process::_exit;
    }
    Signals {
        fn sigaction(signal: c_int, action: *const SignalAction, old: *mut SignalAction) -> c_int = signals::sigaction;
        fn __sigaction(signal: c_int, action: *const SignalAction, old: *mut SignalAction) -> c_int = signals::sigaction;
        fn signal(signal: c_int, handler: sighandler_t) -> sighandler_t = calls::signal;
        fn bsd_signal(signal: c_int, handler: sighandler_t) -> sighandler_t = calls::signal;
        fn ssignal(signal: c_int, handler: sighandler_t) -> sighandler_t = calls::signal;
        fn sysv_signal(signal: c_int, handler: sighandler_t) -> sighandler_t = calls::sysv_signal;
        fn __sysv_signal(signal: c_int, handler: sighandler_t) -> sighandler_t = calls::sysv_signal;
        fn sigset(signal: c_int, handler: sighandler_t) -> sighandler_t = calls::sigset;
        fn sigignore(signal: c_int) -> c_int = calls::sigignore;
        fn siginterrupt(signal: c_int, interrupts: c_int) -> c_int = calls::siginterrupt;
        fn pthread_cancel(thread: pthread_t) -> c_int = cancellation::pthread_cancel;
        fn pthread_setcanceltype(kind: c_int, old: *mut c_int) -> c_int = cancellation::pthread_setcanceltype;
    }
}

/// Functions with a list of arguments that ends with null. What is exported gathers the list from registers and stack, and calls the
/// function that serves it with the first argument, and with the list as an array.
macro_rules! with_list {
    ($subject:ident {
        $(fn $name:ident(first, list) -> c_int = $handler:path;)+
    }) => {
        mod with_list {
            use super::*;
            $(
                #[unsafe(naked)]
                #[cfg_attr(not(test), unsafe(no_mangle))]
                #[cfg_attr(test, allow(dead_code))]
                extern "C-unwind" fn $name() {
                    unsafe extern "C-unwind" fn shell(first: *const c_char, list: *const *const c_char) -> c_int {
                        shielded!(served, first, list)
                    }
                    #[inline(never)]
                    unsafe extern "C-unwind" fn served(first: *const c_char, list: *const *const c_char) -> c_int {
                        // SAFETY: the program answers for its arguments, as it does to the C library.
                        unsafe { $handler(first, list) }
                    }
                    gathered!(shell)
                }
            )+
        }
    };
}

/// The registers of variadic arguments are stored below those on the stack, which makes them one array.
#[cfg(target_arch = "x86_64")]
macro_rules! gathered {
    ($handler:path) => {
        std::arch::naked_asm!(
            "pop rax", // Where to return to.
            "push r9", "push r8", "push rcx", "push rdx", "push rsi",
            "mov rsi, rsp",
            "push rax", // And the stack is aligned.
            "call {handler}",
            "pop rcx",
            "add rsp, 40",
            "push rcx",
            "ret",
            handler = sym $handler,
        )
    };
}

#[cfg(target_arch = "aarch64")]
macro_rules! gathered {
    ($handler:path) => {
        std::arch::naked_asm!(
            "sub sp, sp, #64",
            "str x30, [sp]",
            "stp x1, x2, [sp, #8]", "stp x3, x4, [sp, #24]", "stp x5, x6, [sp, #40]", "str x7, [sp, #56]",
            "add x1, sp, #8",
            "bl {handler}",
            "ldr x30, [sp]",
            "add sp, sp, #64",
            "ret",
            handler = sym $handler,
        )
    };
}

with_list! {
    Lists {
        fn execl(first, list) -> c_int = process::execl;
        fn execlp(first, list) -> c_int = process::execlp;
        fn execle(first, list) -> c_int = process::execle;
    }
}

/// Functions with arguments of any number and kind, which go on to the real function as they are. What is exported calls the function of
/// the row with the first argument, and jumps to the address that it returns.
macro_rules! passed_on {
    ($subject:ident {
        $(fn $name:ident(first, ...) -> c_int = $before:path;)+
    }) => {
        #[allow(non_snake_case)] // C's names.
        mod passed_on {
            use super::*;
            $(
                #[unsafe(naked)]
                #[cfg_attr(not(test), unsafe(no_mangle))]
                #[cfg_attr(test, allow(dead_code))]
                extern "C-unwind" fn $name() {
                    unsafe extern "C-unwind" fn shell(first: c_int) -> *const c_void {
                        shielded!(served, first)
                    }
                    #[inline(never)]
                    unsafe extern "C-unwind" fn served(first: c_int) -> *const c_void {
                        $before(first)
                    }
                    kept_around!(shell)
                }
            )+
        }
    };
}

/// The registers of arguments are kept around the call; `al` has the number of vector registers that are used.
#[cfg(target_arch = "x86_64")]
macro_rules! kept_around {
    ($before:path) => {
        std::arch::naked_asm!(
            "push rbp",
            "mov rbp, rsp",
            "sub rsp, 192",
            "mov [rsp], rdi", "mov [rsp + 8], rsi", "mov [rsp + 16], rdx", "mov [rsp + 24], rcx",
            "mov [rsp + 32], r8", "mov [rsp + 40], r9", "mov [rsp + 48], rax",
            "movaps [rsp + 64], xmm0", "movaps [rsp + 80], xmm1", "movaps [rsp + 96], xmm2", "movaps [rsp + 112], xmm3",
            "movaps [rsp + 128], xmm4", "movaps [rsp + 144], xmm5", "movaps [rsp + 160], xmm6", "movaps [rsp + 176], xmm7",
            "call {before}",
            "mov r11, rax",
            "movaps xmm0, [rsp + 64]", "movaps xmm1, [rsp + 80]", "movaps xmm2, [rsp + 96]", "movaps xmm3, [rsp + 112]",
            "movaps xmm4, [rsp + 128]", "movaps xmm5, [rsp + 144]", "movaps xmm6, [rsp + 160]", "movaps xmm7, [rsp + 176]",
            "mov rdi, [rsp]", "mov rsi, [rsp + 8]", "mov rdx, [rsp + 16]", "mov rcx, [rsp + 24]",
            "mov r8, [rsp + 32]", "mov r9, [rsp + 40]", "mov rax, [rsp + 48]",
            "leave",
            "jmp r11",
            before = sym $before,
        )
    };
}

#[cfg(target_arch = "aarch64")]
macro_rules! kept_around {
    ($before:path) => {
        std::arch::naked_asm!(
            "stp x29, x30, [sp, #-208]!",
            "mov x29, sp",
            "stp x0, x1, [sp, #16]", "stp x2, x3, [sp, #32]", "stp x4, x5, [sp, #48]", "stp x6, x7, [sp, #64]",
            "stp q0, q1, [sp, #80]", "stp q2, q3, [sp, #112]", "stp q4, q5, [sp, #144]", "stp q6, q7, [sp, #176]",
            "bl {before}",
            "mov x16, x0",
            "ldp q0, q1, [sp, #80]", "ldp q2, q3, [sp, #112]", "ldp q4, q5, [sp, #144]", "ldp q6, q7, [sp, #176]",
            "ldp x0, x1, [sp, #16]", "ldp x2, x3, [sp, #32]", "ldp x4, x5, [sp, #48]", "ldp x6, x7, [sp, #64]",
            "ldp x29, x30, [sp], #208",
            "br x16",
            before = sym $before,
        )
    };
}

passed_on! {
    Printing {
        fn dprintf(first, ...) -> c_int = stdio::before_dprintf;
        fn __dprintf_chk(first, ...) -> c_int = stdio::before_dprintf_chk;
    }
}
