//! The page of reasons: of sockets, and of frames.

use crate::plain;
use std::fmt::Write;

const HEAD: &str = "# Reasons

Where a socket is with the kernel, `sidestep ps`, `sidestep run --why` and the interfaces of Rust and C name the reason.
What to do about one is in [Troubleshooting](../past-the-kernel/troubleshooting.md).

Made from the lists in `crates/socket/src/reason.rs` and `crates/xdp_steering/src/reason.rs`; a test compares them.

## Of a socket

Numbers are those of `include/sidestep/socket.h`.

| number | name | meaning |
|---|---|---|
";

const FRAMES: &str = "
## Of a frame

The steering program counts each frame under one of these. The last column marks counts that are zero on a host where nothing is
wrong.

| name | what becomes of the frame | meaning | zero |
|---|---|---|---|
";

pub(crate) fn page() -> String {
    let mut text = HEAD.to_owned();
    for (number, reason) in sidestep_socket::Reason::ALL.iter().enumerate() {
        let _ = writeln!(text, "| {number} | `{}` | {} |", reason.name(), plain(reason.description()));
    }
    text.push_str(FRAMES);
    for reason in sidestep_xdp_steering::Reason::ALL {
        let verdict = match reason.verdict() {
            sidestep_xdp_steering::Verdict::Redirect => "to the stack's socket",
            sidestep_xdp_steering::Verdict::Pass => "to the kernel",
            sidestep_xdp_steering::Verdict::Drop => "dropped",
        };
        let zero = if reason.should_be_zero() { "yes" } else { "" };
        let _ = writeln!(text, "| `{}` | {verdict} | {} | {zero} |", reason.name(), plain(reason.description()));
    }
    text
}
