//! The status page: shared memory in which a program under `sidestep run` keeps the state of its sockets.
//!
//! The program's library writes it by plain stores ([`StatusPage`]); `sidestep ps` and `top` read it ([`StatusView`]), also while
//! the program hangs or is stopped. [`processes`] finds the pages of this host. A reader trusts nothing but numbers in bounds
//! and text that a terminal can show.
//!
//! `layout` has the words, `figure` the numbers that are counted, `writer` and `view` the two ends, `find` the search;
//! `program` completes a page with what the kernel lists (`kernel`).

mod figure;
mod find;
mod kernel;
mod layout;
mod program;
mod snapshot;
mod tcp_state;
mod text;
mod view;
mod writer;

pub use figure::{EngineFigure, Figure};
pub use find::{Found, processes};
pub use layout::{ENGINES_MAX, REASONS_MAX, SOCKETS_MAX, SOCKETS_MIN, SocketKind};
pub use program::{Program, programs};
pub use snapshot::{Engine, PathNow, Snapshot, Socket};
pub use tcp_state::TcpState;
pub use view::StatusView;
pub use writer::{EngineRow, Path, SocketRow, StatusPage};
