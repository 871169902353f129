//! Messages to decode: book updates by price with orders (template 46), and by order (template 47), as many entries as a seed says.

use sidestep_market::mdp::schema::types::{Action, EntryType, MatchEvent};
use sidestep_market::mdp::schema::{BookUpdateEncoder, OrderUpdateEncoder};
use sidestep_market::sbe::Unwritable;

/// Messages of one kind, each with its SBE header.
pub struct Messages {
    pub name: &'static str,
    pub all: Vec<Vec<u8>>,
    pub entries: usize,
}

/// Xorshift: the same messages on every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// Messages of each kind.
const COUNT: usize = 512;

pub fn messages() -> [Messages; 2] {
    let mut random = Random(0x5eed);
    let mut of = |name, write: fn(&mut [u8], &mut Random) -> Result<(usize, usize), Unwritable>| {
        let (mut all, mut entries) = (Vec::new(), 0);
        for _ in 0..COUNT {
            let mut buffer = [0; 1400];
            let (length, count) = write(&mut buffer, &mut random).expect("there is room");
            all.push(buffer[..length].to_vec());
            entries += count;
        }
        Messages { name, all, entries }
    };
    [of("by price (46)", by_price), of("by order (47)", by_order)]
}

fn by_price(buffer: &mut [u8], random: &mut Random) -> Result<(usize, usize), Unwritable> {
    let mut message = BookUpdateEncoder::new(buffer)?;
    message.fields().transact_time(random.next()).match_event(MatchEvent(0x84));
    let mut levels = message.levels()?;
    let count = 1 + random.next() % 4;
    for _ in 0..count {
        let mut entry = levels.entry()?;
        entry.size(Some(random.next() as i32 >> 8)).security_id(random.next() as i32).rpt_seq(random.next() as u32);
        entry.orders(Some(random.next() as i32 >> 8)).level(1 + random.next() as u8 % 10).action(Action::CHANGE);
        entry.entry_type(EntryType::BID).price().mantissa(Some(random.next() as i64 >> 1));
    }
    let mut orders = levels.end().orders()?;
    let more = random.next() % 4;
    for _ in 0..more {
        let mut entry = orders.entry()?;
        entry.order_id(random.next()).priority(Some(random.next() >> 1)).size(Some(random.next() as i32 >> 8));
        entry.reference(Some(1)).action(Action::NEW);
    }
    Ok((orders.end(), (count + more) as usize))
}

fn by_order(buffer: &mut [u8], random: &mut Random) -> Result<(usize, usize), Unwritable> {
    let mut message = OrderUpdateEncoder::new(buffer)?;
    message.fields().transact_time(random.next()).match_event(MatchEvent(0x84));
    let mut orders = message.orders()?;
    let count = 1 + random.next() % 8;
    for _ in 0..count {
        let mut entry = orders.entry()?;
        entry
            .order_id(Some(random.next() >> 1))
            .priority(Some(random.next() >> 1))
            .size(Some(random.next() as i32 >> 8));
        entry.security_id(random.next() as i32).action(Action::NEW).entry_type(EntryType::OFFER);
        entry.price().mantissa(Some(random.next() as i64 >> 1));
    }
    Ok((orders.end(), count as usize))
}
