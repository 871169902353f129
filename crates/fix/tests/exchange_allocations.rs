//! The whole road of an order allocates nothing once it is warm: read from the socket, framed, decoded, passed to the
//! exchange, both reports recorded in the store, written. Over each transport and with each store.

use sidestep_fix::engine::{Endpoint, Engine, SessionPlan, SocketOptions, StorePlan};
use sidestep_fix::exchange::{Exchange, anyone};
use sidestep_fix::session::{Role, SessionSettings};
use sidestep_fix::store::journal::{Durability, Options};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, SystemTime};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: all is the system allocator's; counting touches a thread-local integer without a destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
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

/// Orders until buffers have their sizes.
const WARM: u64 = 200;
/// Orders that are counted: fewer than fill a segment of the journal, which the next one is prepared for.
const COUNTED: u64 = 2_000;

/// One message; the caller gives what stands between MsgSeqNum and CheckSum.
fn message(kind: &str, sequence: u64, rest: &str) -> Vec<u8> {
    let now = humantime(SystemTime::now());
    let body = format!("35={kind}|34={sequence}|49=CLIENT|52={now}|56=EXCHANGE|{rest}");
    let mut bytes = format!("8=FIX.4.4|9={}|{body}", body.len()).replace('|', "\u{1}").into_bytes();
    let sum = bytes.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
    bytes.extend(format!("10={sum:03}\u{1}").bytes());
    bytes
}

/// `YYYYMMDD-HH:MM:SS`.
fn humantime(time: SystemTime) -> String {
    let seconds = time.duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_secs();
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Days to a date, by the era of 400 years that begins on 1 March 0000.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    format!("{year:04}{month:02}{day:02}-{:02}:{:02}:{:02}", rest / 3600, rest / 60 % 60, rest % 60)
}

trait Stream: Read + Write {}
impl<S: Read + Write> Stream for S {}

/// Sends an order, polls until both reports have left, reads them; what the engine allocated meanwhile.
fn order(engine: &mut Engine<Exchange>, client: &mut dyn Stream, number: u64) -> u64 {
    let order =
        message("D", number + 1, &format!("11=O{number:09}|21=1|38=100|40=1|54=1|55=EURUSD|60=20261121-12:00:00|"));
    client.write_all(&order).expect("the engine reads");
    let before = ALLOCATIONS.get();
    while engine.app().orders() < number {
        engine.poll();
    }
    engine.poll();
    let allocated = ALLOCATIONS.get() - before;
    let mut answer = [0; 2048];
    let count = client.read(&mut answer).expect("the reports have left");
    let reports = answer[..count].windows(6).filter(|bytes| bytes == b"\x0135=8\x01").count();
    assert_eq!(reports, 2, "{}", String::from_utf8_lossy(&answer[..count]));
    allocated
}

fn allocations(endpoint: &Endpoint, store: StorePlan) -> u64 {
    let mut engine = Engine::new(Exchange::default());
    let acceptor = engine.listen(endpoint, None, &SocketOptions::default()).expect("it is free");
    let mut plan = SessionPlan::new(SessionSettings::new(Role::Acceptor, anyone()));
    plan.store = store;
    engine.add_template(acceptor, plan);
    let wait = Some(Duration::from_secs(10));
    let mut client: Box<dyn Stream> = match engine.endpoint(acceptor) {
        Endpoint::Tcp { port, .. } => {
            let stream = TcpStream::connect(("127.0.0.1", *port)).expect("it listens");
            stream.set_read_timeout(wait).expect("a socket");
            Box::new(stream)
        }
        Endpoint::Unix(path) => {
            let stream = UnixStream::connect(path).expect("it listens");
            stream.set_read_timeout(wait).expect("a socket");
            Box::new(stream)
        }
        other => panic!("no client for {other}"),
    };
    client.write_all(&message("A", 1, "98=0|108=30|141=Y|")).expect("the engine reads");
    while !engine.handles().any(|handle| engine.session(handle).is_logged_on()) {
        engine.poll();
    }
    engine.poll();
    let mut logon = [0; 512];
    assert!(client.read(&mut logon).expect("it is answered") > 0);
    let mut allocated = 0;
    for number in 1..=WARM + COUNTED {
        let these = order(&mut engine, client.as_mut(), number);
        allocated += if number > WARM { these } else { 0 };
    }
    allocated
}

#[test]
fn an_order_through_the_whole_engine_allocates_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let journal = |name: &str| StorePlan::Journal {
        folder: folder.path().join(name),
        options: Options { durability: Durability::PageCache, ..Options::default() },
    };
    let tcp = Endpoint::parse("127.0.0.1:0").expect("an address");
    let unix = Endpoint::parse(&format!("unix:{}", folder.path().join("socket").display())).expect("an address");
    assert_eq!(allocations(&tcp, StorePlan::Memory), 0, "TCP, memory");
    assert_eq!(allocations(&tcp, journal("tcp")), 0, "TCP, journal");
    assert_eq!(allocations(&unix, journal("unix")), 0, "Unix socket, journal");
}
