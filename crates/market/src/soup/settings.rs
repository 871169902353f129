//! Settings of a client.

use super::login::{LoginRequest, Password, SessionName, UserName};
use super::packet::{HEADER_BYTES, PACKET_BYTES_MAX};
use crate::units::Sequence;
use sidestep_sys::Problem;

const SECOND_NS: u64 = 1_000_000_000;

/// Settings of a [`Client`](super::Client).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The user.
    pub user: UserName,
    /// The password.
    pub password: Password,
    /// The session of the first login. Default: the current one.
    pub session: SessionName,
    /// The first message wanted at the first login; 0 for those from then on. Default: 1, the whole session.
    pub sequence: Sequence,
    /// Time without sending after which a heartbeat is sent, ns. Default: 1 s (SoupBinTCP, "Client Heartbeat").
    pub heartbeat_ns: u64,
    /// Silence after which the server is considered dead, ns. Default: 15 s (SoupBinTCP, "Server Heartbeat").
    pub silence_ns: u64,
    /// Time for the server to answer a login, ns. Default: 30 s, as long as a server waits for a login.
    pub login_ns: u64,
    /// The longest packet taken, with its length field, bytes: so much memory is held for one that came in pieces. Default and most:
    /// [`PACKET_BYTES_MAX`](super::PACKET_BYTES_MAX).
    pub packet_bytes_max: usize,
    /// Room for what is not written yet, bytes; a message that does not fit is refused. Default: 64 KiB, a thousand orders.
    pub output_bytes_max: usize,
}

impl Settings {
    /// The settings that a user starts from.
    pub fn new(user: UserName, password: Password) -> Self {
        Self {
            user,
            password,
            session: SessionName::CURRENT,
            sequence: Sequence(1),
            heartbeat_ns: SECOND_NS,
            silence_ns: 15 * SECOND_NS,
            login_ns: 30 * SECOND_NS,
            packet_bytes_max: PACKET_BYTES_MAX,
            output_bytes_max: 64 << 10,
        }
    }

    pub(super) fn check(&self) -> Result<(), Problem> {
        let login = HEADER_BYTES + LoginRequest::BYTES;
        let refuse = |what: &str, why: String, next: &str| Err(Problem::usage(what, why).next(next));
        if self.output_bytes_max < login {
            let why = format!("{} bytes do not hold a login packet", self.output_bytes_max);
            return refuse("output_bytes_max", why, "give 49 or more; 65536 is the default");
        }
        if !(login..=PACKET_BYTES_MAX).contains(&self.packet_bytes_max) {
            let why = format!("{} bytes are outside of 49 to {PACKET_BYTES_MAX}", self.packet_bytes_max);
            return refuse("packet_bytes_max", why, "leave it at its default, 65537");
        }
        if self.heartbeat_ns == 0 || self.silence_ns <= self.heartbeat_ns || self.login_ns == 0 {
            let why = "a time is 0, or silence_ns is not longer than heartbeat_ns".to_owned();
            return refuse("times of the session", why, "leave them at their defaults: 1 s, 15 s, 30 s");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_cannot_work_are_refused_with_a_next_step() {
        let good = Settings::new(UserName::default(), Password::default());
        good.check().unwrap();
        for bad in [
            Settings { output_bytes_max: 48, ..good.clone() },
            Settings { packet_bytes_max: 48, ..good.clone() },
            Settings { packet_bytes_max: PACKET_BYTES_MAX + 1, ..good.clone() },
            Settings { heartbeat_ns: 0, ..good.clone() },
            Settings { silence_ns: SECOND_NS, ..good.clone() },
            Settings { login_ns: 0, ..good },
        ] {
            assert!(!bad.check().unwrap_err().next_step().is_empty());
        }
    }
}
