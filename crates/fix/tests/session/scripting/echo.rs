//! The application that the scripts expect: it sends orders back.

use sidestep_fix::session::{Application, End, Outbox, Refusal, SessionId};
use sidestep_fix::{Message, tag};
use std::collections::HashSet;

/// Header and trailer: not part of the echo.
const HEADER: [u32; 32] = [
    8, 9, 10, 34, 35, 43, 49, 50, 52, 56, 57, 89, 90, 91, 93, 97, 115, 116, 122, 128, 129, 142, 143, 144, 145, 212,
    213, 347, 369, 627, 1128, 1129,
];

/// Sends NewOrderSingle (D), Email (C) and, from FIX 4.2 on, SecurityDefinition (d) back; knows nothing else.
#[derive(Debug, Default)]
pub(crate) struct Echo {
    seen: HashSet<Vec<u8>>,
    /// The callbacks it got.
    pub(crate) events: Vec<String>,
    /// Every application message that came: ClOrdID (11), and whether it said it may be a duplicate.
    pub(crate) orders: Vec<(String, bool)>,
}

impl Application for Echo {
    fn on_logon(&mut self, _: &mut dyn Outbox) {
        self.seen.clear();
        self.events.push("on_logon".to_owned());
    }

    fn on_room(&mut self, _: &mut dyn Outbox) {
        self.events.push("on_room".to_owned());
    }

    fn on_logout(&mut self, _: &SessionId, why: End) {
        self.events.push(format!("on_logout:{why:?}"));
    }

    fn on_reset(&mut self, _: &SessionId) {
        self.events.push("on_reset".to_owned());
    }

    fn on_cancel(&mut self, _: &SessionId) {
        self.events.push("on_cancel".to_owned());
    }

    fn from_app(&mut self, message: &Message<'_, '_>, out: &mut dyn Outbox) -> Result<(), Refusal> {
        let old = ["FIX.4.0", "FIX.4.1"].contains(&out.id().begin_string.as_str());
        let known = match message.msg_type() {
            b"D" | b"C" => true,
            b"d" => !old,
            _ => false,
        };
        if !known {
            return Err(Refusal::UNSUPPORTED);
        }
        let order = message.get(11).unwrap_or_default().to_vec();
        let poss_dup = message.get(tag::POSS_DUP_FLAG) == Some(b"Y");
        self.orders.push((String::from_utf8_lossy(&order).into_owned(), poss_dup));
        let poss_resend = message.get(tag::POSS_RESEND) == Some(b"Y");
        let again = !order.is_empty() && !self.seen.insert(order);
        if !(again && poss_resend) {
            send_back(message, poss_resend, out);
        }
        Ok(())
    }
}

fn send_back(message: &Message<'_, '_>, poss_resend: bool, out: &mut dyn Outbox) {
    let mut body: Vec<(u32, &[u8])> = message.fields().filter(|(tag, _)| !HEADER.contains(tag)).collect();
    body.sort_by_key(|(tag, _)| *tag);
    let sent = out.send(message.msg_type(), &mut |echo| {
        if poss_resend {
            echo.bool(tag::POSS_RESEND, true);
        }
        for (tag, value) in &body {
            echo.bytes(*tag, value);
        }
    });
    drop(sent);
}
