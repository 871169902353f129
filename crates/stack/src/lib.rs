//! L2: IP, UDP and TCP without input or output. Bytes and time come in, bytes and decisions go out; nothing here knows a
//! link, a socket or a system call.

#![forbid(unsafe_code)]

pub mod tcp;
