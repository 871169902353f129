//! Once a session is warm, an order and its answer cost no allocation.

use sidestep_fix::session::{Application, Outbox, Refusal, Role, Rules, Session, SessionId, SessionSettings};
use sidestep_fix::store::MemoryStore;
use sidestep_fix::{Framer, Index, Message, Now};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call goes to the system's allocator as it came; the counter touches no memory of it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on; the pointer came from `System`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Acknowledges and fills.
struct Exchange;

impl Application for Exchange {
    fn from_app(&mut self, message: &Message<'_, '_>, out: &mut dyn Outbox) -> Result<(), Refusal> {
        let order = message.required(11)?;
        for status in [b"0", b"2"] {
            let sent = out.send(b"8", &mut |report| {
                report.str(37, "1").bytes(11, order).str(17, "1").bytes(150, status).bytes(39, status);
            });
            drop(sent);
        }
        Ok(())
    }
}

const WARM: u64 = 100;
const COUNTED: u64 = 1000;

#[test]
fn an_order_its_answers_and_a_heartbeat_allocate_nothing() {
    let mut settings = SessionSettings::new(Role::Acceptor, SessionId::new("FIX.4.4", "US", "THEM"));
    settings.last_msg_seq_num_processed = true;
    let rules = Rules::standard("FIX.4.4", "").expect("it is a version");
    let now = Now { utc_ns: 1_709_899_200_000_000_000, mono_ns: 1 };
    let store = MemoryStore::with_bytes(now.utc_ns, 1 << 20);
    let mut session = Session::new(settings, store, Some(Arc::new(rules)), now).expect("the settings are good");
    let (mut framer, mut index) = (Framer::default(), Index::default());
    session.connected(now, &mut Exchange);
    let mut lines = vec!["35=A|34=1|49=THEM|52=20240308-12:00:00|56=US|98=0|108=30|".to_owned()];
    for seq in 2..2 + WARM + COUNTED {
        let body = match seq % 4 {
            0 => "112=PING|".to_owned(),
            _ => format!("11=ORDER-{seq}|21=1|55=EURUSD|54=1|60=20240308-12:00:00|38=100|40=2|44=1.25|"),
        };
        let kind = if seq % 4 == 0 { "1" } else { "D" };
        lines.push(format!("35={kind}|34={seq}|49=THEM|52=20240308-12:00:00|56=US|{body}"));
    }
    let messages: Vec<Vec<u8>> = lines.iter().map(|line| complete(line)).collect();
    for (at, message) in messages.iter().enumerate() {
        if at as u64 == WARM {
            ALLOCATIONS.store(0, Ordering::Relaxed);
        }
        assert_eq!(framer.push(message), message.len());
        let raw = framer.next().expect("no garbage").expect("a whole message");
        let message = index.decode(raw).expect("a good message");
        session.on_message(&message, now, &mut Exchange);
        session.on_timer(now, &mut Exchange);
        let waiting = session.output().len();
        session.sent(waiting, now);
    }
    let allocations = ALLOCATIONS.load(Ordering::Relaxed);
    let counters = session.counters();
    assert_eq!(counters.rejects + counters.business_rejects, 0, "{counters:?}");
    assert!(counters.delivered > 500 && counters.sent > 1500, "{counters:?}");
    assert_eq!(allocations, 0);
}

/// The body with a front and a trailer around it.
fn complete(line: &str) -> Vec<u8> {
    let body = line.replace('|', "\x01");
    let front = format!("8=FIX.4.4\x019={}\x01{body}", body.len());
    let sum = front.bytes().fold(0_u8, |sum, byte| sum.wrapping_add(byte));
    format!("{front}10={sum:03}\x01").into_bytes()
}
