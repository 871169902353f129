//! What a stranger sends to control's socket, or a false control to an application: packets, bounded and parsed.

#![no_main]

use sidestep_control_api::message::{Channel, Numbered, Reply, Request};
use std::os::unix::net::UnixDatagram;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let (ours, theirs) = UnixDatagram::pair().expect("a socket pair");
    ours.set_nonblocking(true).expect("a socket");
    let control = Channel::over(ours.into());
    // As it comes, and inside of a frame that is right, so that the bodies are reached.
    let framed = [&b"{\"number\":1,\"body\":"[..], bytes, b"}"].concat();
    for packet in [bytes, &framed] {
        if packet.is_empty() || theirs.send(packet).is_err() {
            continue;
        }
        if let Ok(incoming) = control.receive::<Request>() {
            check_request(&incoming.message);
        }
        let _ = theirs.send(packet);
        if let Ok(incoming) = control.receive::<Reply>() {
            let _ = format!("{:?}", incoming.message);
        }
    }
});

/// What was understood is understood again, and can be said.
fn check_request(message: &Numbered<Request>) {
    let text = serde_json::to_vec(message).expect("it came as JSON");
    let again: Numbered<Request> = serde_json::from_slice(&text).expect("its own words");
    assert_eq!(again, *message);
    match &message.body {
        Request::Steer { entry, .. } | Request::Unsteer { entry, .. } => {
            let _ = (entry.fault(), entry.to_string(), entry.local(), entry.vlan());
        }
        Request::OpenStack(wish) => {
            let _ = (wish.bytes(1), wish.bytes(u32::MAX), wish.geometry(u32::MAX));
        }
        // What the kernel is asked to make of a record has a target of its own.
        Request::HandOver { connection, .. } => {
            let _ = (connection.fault(), connection.bytes());
        }
        _ => {}
    }
}
