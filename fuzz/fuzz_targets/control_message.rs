//! What a stranger sends to `bench serve`: the frames of the control connection, one after the other.

#![no_main]

use sidestep_bench::peer::Control;
use sidestep_bench::peer::protocol::Request;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::Duration;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let (ours, mut theirs) = UnixStream::pair().expect("a socket pair");
    let mut control = Control::over(ours.into()).expect("connected");
    // More than the socket holds would block; a frame is at most half of that.
    let _ = theirs.write_all(&bytes[..bytes.len().min(100_000)]);
    drop(theirs);
    while let Ok(Some(_)) = control.recv::<Request>(Duration::from_secs(1)) {}
});
