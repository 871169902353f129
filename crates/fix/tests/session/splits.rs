//! However a transport cuts the bytes, and whatever stands between messages, a session does the same.

use super::scripting::{parse, world};
use proptest::prelude::*;
use sidestep_fix::session::{Role, Session, SessionId, SessionSettings};
use sidestep_fix::store::MemoryStore;

/// A conversation with everything in it: orders, a gap, a duplicate, a reject, a resend, a reset.
const CONVERSATION: [&str; 15] = [
    "35=A|34=1|49=THEM|52=<TIME>|56=US|98=0|108=30|",
    "35=D|34=2|49=THEM|52=<TIME>|56=US|11=A|55=X|",
    "35=1|34=3|49=THEM|52=<TIME>|56=US|112=PING|",
    "35=D|34=6|49=THEM|52=<TIME>|56=US|11=C|55=X|",
    "35=D|34=4|43=Y|49=THEM|52=<TIME>|56=US|122=<TIME-1>|11=B|55=X|",
    "35=4|34=5|43=Y|49=THEM|52=<TIME>|56=US|122=<TIME-1>|36=6|123=Y|",
    "35=D|34=2|43=Y|49=THEM|52=<TIME>|56=US|122=<TIME-1>|11=A|55=X|",
    "35=1|34=7|49=THEM|52=<TIME>|56=US|",
    "35=2|34=8|49=THEM|52=<TIME>|56=US|7=1|16=0|",
    "35=8|34=9|49=THEM|52=<TIME>|56=US|37=1|",
    "35=4|34=10|49=THEM|52=<TIME>|56=US|36=20|",
    "35=D|34=20|49=THEM|52=<TIME>|56=US|11=D|55=X|95=8|96=x|58=y|z|58=w|",
    "35=3|34=21|49=THEM|52=<TIME>|56=US|45=3|",
    "35=0|34=22|49=THEM|52=<TIME>|56=US|",
    "35=5|34=23|49=THEM|52=<TIME>|56=US|",
];

fn host() -> world::World {
    let settings = SessionSettings::new(Role::Acceptor, SessionId::new("FIX.4.4", "US", "THEM"));
    let now = world::start();
    let session = Session::new(settings, MemoryStore::with_bytes(now.utc_ns, 1 << 16), None, now);
    let mut host = world::World::new(vec![session.expect("the settings are good")]);
    host.open(1);
    host
}

/// What the host answers to pieces of bytes, and what it counted.
fn answers(pieces: &[Vec<u8>]) -> (Vec<Vec<u8>>, String) {
    let mut host = host();
    for piece in pieces {
        if host.has_open(1) {
            host.deliver_bytes(1, piece);
        }
    }
    let answers = std::iter::from_fn(|| host.next_message(1)).collect();
    (answers, format!("{:?}", host.sessions[0].counters()))
}

fn conversation() -> Vec<Vec<u8>> {
    let clock = host();
    let line = |text: &&str| {
        let message = format!("8=FIX.4.4|{text}").replace('|', "\x01");
        parse::complete(message.as_bytes(), &|shift| clock.clock(shift))
    };
    CONVERSATION.iter().map(line).collect()
}

#[test]
fn the_conversation_has_everything_in_it() {
    let (answers, counted) = answers(&conversation());
    assert_eq!(answers.len(), 15, "{counted}");
    for part in ["delivered: 5", "duplicates: 1", "early: 1", "rejects: 1", "business_rejects: 1", "gap_fills_sent: 3"]
    {
        assert!(counted.contains(part), "no {part} in {counted}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn splits_change_nothing(cuts in prop::collection::vec(1_usize..400, 1..60)) {
        let whole = answers(&conversation());
        let bytes = conversation().concat();
        let mut pieces = Vec::new();
        let mut rest = &bytes[..];
        for cut in cuts {
            let (piece, after) = rest.split_at(cut.min(rest.len()));
            pieces.push(piece.to_vec());
            rest = after;
        }
        pieces.push(rest.to_vec());
        prop_assert!(answers(&pieces) == whole, "{:?}", answers(&pieces).1);
    }

    #[test]
    fn garbage_between_messages_is_skipped(
        garbage in prop::collection::vec(prop::collection::vec(32_u8..127, 0..40), 14),
    ) {
        let mut pieces = Vec::new();
        for (at, message) in conversation().into_iter().enumerate() {
            pieces.push(message);
            // Bytes that could begin a message would take the next one with them, as they must.
            let junk = garbage.get(at).filter(|junk| !junk.contains(&b'8'));
            pieces.extend(junk.cloned());
        }
        prop_assert_eq!(answers(&pieces).0.len(), answers(&conversation()).0.len());
    }

    #[test]
    fn no_bytes_break_a_session(
        pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..20),
        cut in 0_usize..15,
    ) {
        let mut all: Vec<Vec<u8>> = conversation().into_iter().take(cut).collect();
        all.extend(pieces);
        answers(&all);
    }

    #[test]
    fn no_field_breaks_a_session(
        changes in prop::collection::vec((1_usize..15, "[0-9A-Za-z]{1,2}", "(34|35|36|43|7|16|108|112|141|789|122|52)=[-0-9A-Z]{0,22}"), 1..8),
    ) {
        let clock = host();
        let mut lines: Vec<String> = CONVERSATION.iter().map(|line| (*line).to_owned()).collect();
        for (at, msg_type, field) in changes {
            let (tag, _) = field.split_once('=').expect("a field");
            let kept = lines[at].split('|').filter(|one| !one.is_empty() && !one.starts_with(&format!("{tag}=")));
            let mut fields: Vec<String> = kept.map(str::to_owned).collect();
            if tag == "35" {
                fields.insert(0, format!("35={msg_type}"));
            } else {
                fields.push(field);
            }
            lines[at] = format!("{}|", fields.join("|"));
        }
        let line = |text: &String| {
            let message = format!("8=FIX.4.4|{text}").replace('|', "\x01");
            parse::complete(message.as_bytes(), &|shift| clock.clock(shift))
        };
        let pieces: Vec<Vec<u8>> = lines.iter().map(line).collect();
        let (answers, counted) = answers(&pieces);
        prop_assert!(answers.len() < 200, "{counted}");
    }
}
