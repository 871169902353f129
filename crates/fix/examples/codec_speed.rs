//! ns and allocations per message: decoding, validating and encoding an order of 200 bytes.
//!
//! ```text
//! cargo run --release -p sidestep-fix --example codec_speed
//! ```
//!
//! Each figure is the fastest and the median of 200 batches of 10,000 messages: what the code costs with warm caches and a
//! predicted path, not what a message costs that comes alone. Orders differ, so that not one path is learnt by heart.

use sidestep_fix::dictionary::{Dictionary, Version};
use sidestep_fix::encode::Parties;
use sidestep_fix::validate::{ValidationOptions, Validator};
use sidestep_fix::value::{Decimal, Precision};
use sidestep_fix::{Encoder, Framer, Index, Now};
use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: all is the system allocator's; counting touches one atomic integer.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) };
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const BATCH: usize = 10_000;
const BATCHES: usize = 200;

/// Orders that differ in what orders differ in.
const KINDS: usize = 64;

fn now(order: usize) -> Now {
    Now { utc_ns: 1_795_305_600_000_000_000 + order as i64 * 7_654_321, mono_ns: 0 }
}

fn encode(encoder: &mut Encoder, order: usize) -> &[u8] {
    let symbols = ["MSFT", "AAPL", "GOOG", "INTC", "VOD.L", "BMW.DE", "7203.T", "BRK.B"];
    let mut id = *b"ORDER-0000000";
    id[12 - order % 4] = b'0' + (order % 10) as u8;
    let price = Decimal::new(10_000 + order as i64 * 37, 2).unwrap_or_default();
    let mut message = encoder.message(b"D");
    message.bytes(11, &id).str(1, "ACCOUNT-42").char(21, b'1').str(55, symbols[order % 8]);
    message.char(54, b'1' + (order % 2) as u8).timestamp(60, now(order).utc()).unsigned(38, 100 * (order as u64 + 1));
    message.char(40, b'2').decimal(44, price).char(59, b'0').str(58, "a note to the desk");
    message.finish(order as u64 + 100_000, now(order)).unwrap_or_default()
}

/// Fastest and median ns per message, and allocations per message.
fn measure(name: &str, mut one: impl FnMut(usize)) {
    (0..BATCH).for_each(&mut one);
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    let mut batches: [f64; BATCHES] = std::array::from_fn(|_| {
        let start = Instant::now();
        (0..BATCH).for_each(&mut one);
        start.elapsed().as_nanos() as f64 / BATCH as f64
    });
    let allocations = ALLOCATIONS.load(Ordering::Relaxed) - before;
    batches.sort_by(f64::total_cmp);
    let each = allocations as f64 / (BATCH * BATCHES) as f64;
    println!("{name:28} min {:7.1} ns   median {:7.1} ns   allocations {each}", batches[0], batches[BATCHES / 2]);
}

fn main() {
    let parties = Parties {
        begin_string: "FIX.4.4".to_owned(),
        sender: "SENDER".to_owned(),
        target: "TARGET".to_owned(),
        ..Parties::default()
    };
    let mut encoder = Encoder::new(&parties, Precision::Millis).expect("names without control bytes");
    let orders: Vec<Vec<u8>> = (0..KINDS)
        .map(|order| {
            let bytes = encode(&mut encoder, order).to_vec();
            encoder.clear();
            bytes
        })
        .collect();
    println!("{} bytes: {}", orders[0].len(), String::from_utf8_lossy(&orders[0]).replace('\x01', "|"));
    let (mut index, mut validator, mut framer) = (Index::default(), Validator::new(), Framer::default());
    let (dictionary, options) = (Dictionary::fixed(Version::Fix44), ValidationOptions::default());

    measure("decode", |at| {
        let message = index.decode(black_box(&orders[at % KINDS])).expect("a good order");
        black_box(message.len());
    });
    measure("decode, read 10 fields", |at| {
        let message = index.decode(black_box(&orders[at % KINDS])).expect("a good order");
        let texts = [11, 1, 55, 54, 49, 56].map(|tag| message.get(tag));
        black_box((texts, message.seq_num(), message.decimal(44), message.unsigned(38), message.timestamp(60)).0);
    });
    measure("decode, validate", |at| {
        let message = index.decode(black_box(&orders[at % KINDS])).expect("a good order");
        validator.validate(&message, &dictionary, &options).expect("a valid order");
    });
    measure("frame", |at| {
        framer.push(black_box(&orders[at % KINDS]));
        black_box(framer.next().expect("a whole order"));
    });
    measure("encode", |at| {
        black_box(encode(&mut encoder, black_box(at % KINDS)));
        encoder.clear();
    });
    measure("encode two behind each other", |at| {
        black_box(encode(&mut encoder, black_box(at % KINDS)));
        black_box(encode(&mut encoder, black_box(at % KINDS)));
        encoder.clear();
    });
}
