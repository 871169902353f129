//! The login packets. Numbers are ASCII and padded with spaces on the left, as the name of the session is; user and password are
//! padded on the right.

use super::packet::Malformed;
use crate::units::{Alpha, Sequence};
use std::fmt::{self, Display, Formatter};

const USER: usize = 0;
const PASSWORD: usize = 6;
const SESSION: usize = 16;
const SEQUENCE: usize = 26;
const NUMBER_BYTES: usize = 20;

/// The name of a user.
pub type UserName = Alpha<6>;

/// A password. It is not shown by `Debug`.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Password(pub Alpha<10>);

impl fmt::Debug for Password {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str("Password(..)")
    }
}

/// The name of a session, without its padding; blank stands for the current session.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct SessionName(Alpha<10>);

impl SessionName {
    /// The name of the current session, whichever it is.
    pub const CURRENT: Self = Self(Alpha([b' '; 10]));

    /// A name; nothing if it is too long or not of printable ASCII letters.
    pub fn new(name: &str) -> Option<Self> {
        Alpha::new(name.trim()).map(Self)
    }

    /// The name without spaces around it.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    fn of(field: &[u8]) -> Option<Self> {
        Self::new(std::str::from_utf8(field).ok()?)
    }

    /// The field on the wire: padded on the left.
    fn field(&self) -> [u8; 10] {
        let mut field = [b' '; 10];
        let name = self.as_str().as_bytes();
        field[10 - name.len()..].copy_from_slice(name);
        field
    }
}

impl Display for SessionName {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.pad(self.as_str())
    }
}

impl fmt::Debug for SessionName {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "{:?}", self.as_str())
    }
}

/// The payload of a login request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoginRequest {
    /// The user.
    pub user: UserName,
    /// The password.
    pub password: Password,
    /// The session wanted.
    pub session: SessionName,
    /// The number of the first message wanted; 0 for those that are sent from now on.
    pub sequence: Sequence,
}

impl LoginRequest {
    /// Bytes of the payload.
    pub const BYTES: usize = 46;

    /// The payload.
    pub fn payload(&self) -> [u8; Self::BYTES] {
        let mut payload = [b' '; Self::BYTES];
        payload[USER..PASSWORD].copy_from_slice(&self.user.0);
        payload[PASSWORD..SESSION].copy_from_slice(&self.password.0.0);
        payload[SESSION..SEQUENCE].copy_from_slice(&self.session.field());
        payload[SEQUENCE..].copy_from_slice(&number_field(self.sequence.0));
        payload
    }
}

/// The payload of a login that is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoginAccepted {
    /// The session.
    pub session: SessionName,
    /// The number of the message that comes next; 1 at least.
    pub next: Sequence,
}

impl LoginAccepted {
    /// Bytes of the payload.
    pub const BYTES: usize = 30;

    /// Reads the payload. Bytes behind it are ignored.
    ///
    /// # Errors
    /// It is too short, the session's name is blank or not printable, or the number is none or 0.
    pub fn parse(payload: &[u8]) -> Result<Self, Malformed> {
        let read = || {
            let (session, number_field) = payload.get(..Self::BYTES)?.split_at(10);
            let session = SessionName::of(session).filter(|name| *name != SessionName::CURRENT)?;
            Some(Self { session, next: Sequence(number(number_field).filter(|number| *number > 0)?) })
        };
        read().ok_or(Malformed::Login)
    }
}

/// The reason why a login is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// `A`: the user or the password is wrong.
    NotAuthorized,
    /// `S`: the session wanted is not there.
    SessionNotAvailable,
    /// Another letter.
    Other(u8),
}

impl Rejection {
    /// Reads the payload.
    ///
    /// # Errors
    /// It has no letter.
    pub fn parse(payload: &[u8]) -> Result<Self, Malformed> {
        Ok(match payload.first().ok_or(Malformed::Login)? {
            b'A' => Self::NotAuthorized,
            b'S' => Self::SessionNotAvailable,
            other => Self::Other(*other),
        })
    }
}

impl Display for Rejection {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAuthorized => out.write_str("user or password is wrong (A)"),
            Self::SessionNotAvailable => out.write_str("the session is not available (S)"),
            Self::Other(letter) => write!(out, "reason '{}'", letter.escape_ascii()),
        }
    }
}

/// A number of ASCII digits with spaces around them; nothing if it is none or beyond 64 bits.
pub(crate) fn number(field: &[u8]) -> Option<u64> {
    let digits = field.trim_ascii();
    let add = |number: u64, digit: &u8| {
        let digit = digit.is_ascii_digit().then_some(u64::from(digit & 0xF))?;
        number.checked_mul(10)?.checked_add(digit)
    };
    if digits.is_empty() { None } else { digits.iter().try_fold(0, add) }
}

/// The number, padded with spaces on the left.
fn number_field(mut number: u64) -> [u8; NUMBER_BYTES] {
    let mut field = [b' '; NUMBER_BYTES];
    for place in field.iter_mut().rev() {
        *place = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    field
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_login_request_has_each_field_at_its_place() {
        let request = LoginRequest {
            user: UserName::new("TRADER").unwrap(),
            password: Password(Alpha::new("secret").unwrap()),
            session: SessionName::new("DAY7").unwrap(),
            sequence: Sequence(42),
        };
        assert_eq!(&request.payload(), b"TRADERsecret          DAY7                  42");
        assert!(!format!("{request:?}").contains("secret"));
    }

    #[test]
    fn an_accepted_login_is_read_and_damage_is_refused() {
        let good = b"      DAY7                   1";
        let session = SessionName::new("DAY7").unwrap();
        assert_eq!(LoginAccepted::parse(good), Ok(LoginAccepted { session, next: Sequence(1) }));
        for short in 0..good.len() {
            assert_eq!(LoginAccepted::parse(&good[..short]), Err(Malformed::Login));
        }
        let with = |at: usize, byte| {
            let mut bytes = *good;
            bytes[at] = byte;
            LoginAccepted::parse(&bytes)
        };
        assert_eq!(with(29, b'0'), Err(Malformed::Login), "no message has number 0");
        assert_eq!(with(29, b' '), Err(Malformed::Login), "no number");
        assert_eq!(with(15, b'-'), Err(Malformed::Login), "no digit");
        assert_eq!(with(3, 0x80), Err(Malformed::Login), "not printable");
        assert_eq!(LoginAccepted::parse(&[b' '; 30]), Err(Malformed::Login), "no session");
    }

    #[test]
    fn names_of_sessions_are_equal_whichever_side_is_padded() {
        assert_eq!(SessionName::of(b"DAY7      "), SessionName::of(b"      DAY7"));
        assert_eq!(SessionName::new(""), Some(SessionName::CURRENT));
        assert_eq!(SessionName::new("ELEVENBYTES"), None);
    }

    #[test]
    fn the_reason_of_a_rejection_is_its_letter() {
        assert_eq!(Rejection::parse(b"A"), Ok(Rejection::NotAuthorized));
        assert_eq!(Rejection::parse(b"S"), Ok(Rejection::SessionNotAvailable));
        assert_eq!(Rejection::parse(b"?"), Ok(Rejection::Other(b'?')));
        assert_eq!(Rejection::parse(b""), Err(Malformed::Login));
    }

    #[test]
    fn numbers_beyond_64_bits_are_none() {
        assert_eq!(number(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(number(b"18446744073709551616"), None);
        assert_eq!(number(b"99999999999999999999"), None);
        assert_eq!((number(b" 1 2"), number(b"+1"), number(b"")), (None, None, None));
    }

    proptest! {
        #[test]
        fn numbers_are_read_as_they_are_written(value: u64) {
            prop_assert_eq!(number(&number_field(value)), Some(value));
        }
    }
}
