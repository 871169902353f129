//! The C ABI of the sockets past the kernel: `include/sidestep/socket.h`. A call is one call of `sidestep_socket`; what is
//! added is a place for what C has on loan, so that giving it back twice is an error and not a frame in two hands.

pub mod address;
pub mod engine;
pub mod options;
pub mod path;
pub mod receive;
pub mod send;
pub mod udp;

mod lent;
