//! The C ABI of the accelerated sockets: `include/sidestep/socket.h`. A call is one call of `sidestep_socket`; objects
//! on loan to C are stored here in addition, so that returning one twice is an error.

pub mod address;
pub mod engine;
pub mod options;
pub mod path;
pub mod receive;
pub mod send;
pub mod udp;

mod lent;
