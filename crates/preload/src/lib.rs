//! L3: libsidestep.so. Preloaded into a program (`sidestep run`), it serves the socket calls of the C library: sockets that can go past
//! the kernel do, and every other call is the C library's own.
//!
//! * `table` has the intercepted names, `symbol` the functions behind them, `boundary` the C functions that are exported: they turn
//!   C's arguments into slices and values.
//! * `call` takes a call on a descriptor of ours into the safe modules and back. `descriptors` knows which numbers are ours,
//!   `description` what is behind them, `watchers` who waits for it.
//! * `pending` knows the sockets that have not begun, `accelerate` begins connections and listeners past the kernel, `stream`, `listener` and `datagram` serve them, `handover` gives them to the
//!   kernel. `poll` and `select` wait for several descriptors, of ours and of the kernel,
//!   `highest` bounds the latter's sets.
//! * `stdio` knows the descriptors that streams of stdio have, `status` shows what becomes of each socket (`sidestep ps`).
//! * `engine` is the one engine of the process, `signals` marks the threads that are in it and defers their signals.
//! * `process` knows the process that tables and engine belong to, and begins forked children, `per_process` has the values that they make
//!   anew, `inherited` the numbers that they have from their parents.

mod accelerate;
mod address;
mod answer;
mod bits;
mod boundary;
mod call;
mod datagram;
mod description;
mod descriptors;
mod engine;
mod environment;
mod epoll;
mod errno;
mod handover;
mod highest;
mod inherit;
mod inherited;
mod listener;
mod pending;
mod per_process;
mod poll;
mod process;
mod report;
mod select;
mod signals;
mod status;
mod stdio;
mod stream;
mod symbol;
mod table;
mod timeouts;
mod vectors;
mod waiting;
mod watchers;

/// Looks every name up before the program runs.
#[cfg(not(test))]
mod constructor {
    #[used]
    #[unsafe(link_section = ".init_array")]
    static INITIALISE: extern "C" fn() = initialise;

    extern "C" fn initialise() {
        for symbol in &crate::table::SYMBOLS {
            symbol.look_up();
        }
        crate::environment::read();
        crate::inherited::look();
        crate::boundary::stdio::look_up();
        sidestep_sys::own_descriptors::begin();
    }
}
