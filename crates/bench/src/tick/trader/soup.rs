//! Orders by OUCH 5.0 in a session of SoupBinTCP, with the codecs of crate `market`.

use super::orders::{Bytes, not_logged_on};
use crate::tick::judge::Order;
use sidestep_market::ouch::{ClOrdId, EnterOrder, OrderSide, UserRefNum};
use sidestep_market::soup::{Client, Password, Settings, State, UserName};
use sidestep_market::units::{Alpha, Nanos, Price};
use sidestep_sys::{Problem, clock};
use std::time::{Duration, Instant};

/// The time to log in.
const LOGIN_MAX: Duration = Duration::from_secs(3);

/// A session that is logged in.
pub(crate) struct Soup {
    pub(super) bytes: Bytes,
    client: Client,
}

impl Soup {
    /// Logs in over a stream.
    pub(super) fn log_in(mut bytes: Bytes) -> Result<Self, Problem> {
        let user = UserName::new("TRADER").ok_or_else(|| not_logged_on("its user has no name"))?;
        let password = Password(Alpha::default());
        let mut client = Client::new(Settings::new(user, password))?;
        client.connected(now());
        let deadline = Instant::now() + LOGIN_MAX;
        while client.state() != State::LoggedIn {
            let mut session = Self { bytes, client };
            session.write()?;
            session.poll()?;
            Self { bytes, client } = session;
            if Instant::now() > deadline {
                return Err(not_logged_on("there is no answer to its login"));
            }
        }
        Ok(Self { bytes, client })
    }

    /// Sends an order.
    #[inline]
    pub(super) fn send(&mut self, order: &Order, number: u32) -> Result<(), Problem> {
        let failed = |why: &dyn std::fmt::Display| Problem::failed("cannot send an order", why);
        let side = if order.buys { OrderSide::Buy } else { OrderSide::Sell };
        let limit = Price(order.price.into());
        let enter = EnterOrder {
            cl_ord_id: name(order.reference),
            ..EnterOrder::limit(UserRefNum(number), side, order.quantity, Alpha(order.symbol), limit)
        };
        let mut message = [0; EnterOrder::BYTES];
        let length = enter.write(&mut message).map_err(|error| failed(&error))?;
        self.client.send(&message[..length], now()).map_err(|error| failed(&error))?;
        self.write()
    }

    /// Reads what has come, and does what is due.
    pub(super) fn poll(&mut self) -> Result<(), Problem> {
        let mut buffer = [0; 512];
        if let Some(count) = self.bytes.receive(&mut buffer)? {
            self.client.receive(&buffer[..count], now(), |_, _| {});
        }
        let now = now();
        if self.client.next_poll().is_some_and(|due| now >= due) {
            self.client.poll(now, |_, _| {});
        }
        if let State::Ended(why) = self.client.state() {
            return Err(not_logged_on(format!("{why:?}")));
        }
        self.write()
    }

    #[inline]
    fn write(&mut self) -> Result<(), Problem> {
        let output = self.client.output();
        if output.is_empty() {
            return Ok(());
        }
        let length = output.len();
        self.bytes.send(output)?;
        self.client.written(length);
        Ok(())
    }
}

/// The reference of a tick in digits, which the exchange does not look at.
#[inline]
fn name(mut reference: u64) -> ClOrdId {
    let (mut digits, mut at) = ([b' '; 20], 20);
    loop {
        at -= 1;
        digits[at] = b'0' + (reference % 10) as u8;
        reference /= 10;
        if reference == 0 {
            break;
        }
    }
    let mut name = ClOrdId::default();
    let length = (20 - at).min(name.0.len());
    name.0[..length].copy_from_slice(&digits[20 - length..]);
    name
}

#[inline]
fn now() -> Nanos {
    Nanos(clock::monotonic_ns())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_is_written_in_digits() {
        assert_eq!((name(0).as_str(), name(7).as_str()), ("0", "7"));
        assert_eq!(name(12_345_678_901_234).as_str(), "12345678901234");
    }
}
