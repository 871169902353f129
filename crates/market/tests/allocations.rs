//! After they are made, clients of SoupBinTCP and GLIMPSE, the account of orders and the codecs allocate nothing.

use sidestep_market::glimpse;
use sidestep_market::itch::Message;
use sidestep_market::ouch::{self, Answer, Change, EnterOrder, OpenOrders, OrderSide};
use sidestep_market::soup::{self, Password, Settings, UserName};
use sidestep_market::units::{Nanos, Price, Symbol};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator as it came; the counter is a thread-local integer without a destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
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

/// Allocations of this thread while `work` runs.
fn allocations(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    work();
    ALLOCATIONS.get() - before
}

fn packet(kind: u8, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(payload.len() + 1).unwrap().to_be_bytes();
    [&length[..], &[kind], payload].concat()
}

fn accepted_login() -> Vec<u8> {
    packet(b'A', format!("{:>10}{:>20}", "DAY", 1).as_bytes())
}

fn settings() -> Settings {
    Settings::new(UserName::new("TRADER").unwrap(), Password::default())
}

const ORDERS: u32 = 1000;

#[test]
fn orders_their_answers_and_heartbeats_allocate_nothing() {
    let mut client = soup::Client::new(settings()).unwrap();
    let mut orders = OpenOrders::new(ouch::Limits::default()).unwrap();
    let symbol = Symbol::new("ACME").unwrap();
    let login = accepted_login();
    let answers: Vec<Vec<u8>> = (1..=ORDERS).map(packet_pair).collect();
    let mut filled = 0;
    let allocations = allocations(|| {
        client.connected(Nanos(0));
        client.receive(&login, Nanos(0), |_, _| {});
        for (number, answer) in (1..=ORDERS).zip(&answers) {
            let now = Nanos(u64::from(number) * 2_000_000_000);
            let order = EnterOrder::limit(orders.next_number().unwrap(), OrderSide::Buy, 100, symbol, Price(10_000));
            let mut message = [0; 64];
            let bytes = order.write(&mut message).unwrap();
            orders.enter(&order, now).unwrap();
            client.send(&message[..bytes], now).unwrap();
            client.written(client.output().len());
            client.poll(Nanos(now.0 + 1_000_000_000), |_, _| {});
            client.written(client.output().len());
            for piece in answer.chunks(33) {
                client.receive(piece, now, |event, _| {
                    let soup::Event::Sequenced { sequence, message } = event else { return };
                    let change = orders.apply(sequence, &Answer::parse(message).unwrap());
                    filled += u32::from(matches!(change, Change::Executed { order, .. } if order.open == 0));
                });
            }
            assert!(orders.overdue(now).next().is_none());
        }
    });
    assert_eq!((allocations, filled, orders.len()), (0, ORDERS, 0));
    assert_eq!(client.counters().heartbeats_sent, u64::from(ORDERS));
}

/// Accepted, then filled.
fn packet_pair(number: u32) -> Vec<u8> {
    let mut accepted = vec![0; 64];
    (accepted[0], accepted[17], accepted[47]) = (b'A', 100, b'L');
    accepted[9..13].copy_from_slice(&number.to_be_bytes());
    let mut executed = vec![0; 36];
    (executed[0], executed[16]) = (b'E', 100);
    executed[9..13].copy_from_slice(&number.to_be_bytes());
    [packet(b'S', &accepted), packet(b'S', &executed)].concat()
}

#[test]
fn a_snapshot_and_the_decoding_of_its_messages_allocate_nothing() {
    let mut client = glimpse::Client::new(settings(), glimpse::Limits::default()).unwrap();
    let mut add = [b' '; 36];
    add[0] = b'A';
    let mut bytes = accepted_login();
    (0..ORDERS).for_each(|_| bytes.extend(packet(b'S', &add)));
    bytes.extend(packet(b'S', format!("G{:>20}", 77).as_bytes()));
    let (mut adds, mut next) = (0, 0);
    let allocations = allocations(|| {
        client.connected(Nanos(0));
        for piece in bytes.chunks(50) {
            client.receive(piece, Nanos(1), |event| match event {
                glimpse::Event::Message(message) => {
                    adds += u32::from(matches!(Message::parse(message), Ok(Message::AddOrder(_))));
                }
                glimpse::Event::Complete(sequence) => next = sequence.0,
                _ => {}
            });
        }
    });
    assert_eq!((allocations, adds, next), (0, ORDERS, 77));
}
