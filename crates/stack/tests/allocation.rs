//! In the steady state no segment allocates: not when it arrives, not when it is sent, not when it is lost.

mod tcp_support;

use sidestep_stack::tcp::{Config, Incoming, Instant, NoRoom, Outgoing, Secret, Tcp};
use sidestep_wire::{Addresses, tcp};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

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

/// A wire that keeps frames in memory it has already.
struct Frames {
    bytes: Vec<[u8; 1600]>,
    used: Vec<(Addresses, usize)>,
}

impl Frames {
    fn new() -> Self {
        Self { bytes: vec![[0; 1600]; 64], used: Vec::with_capacity(64) }
    }

    fn take(&mut self, segment: &Outgoing<'_>) -> Result<(), NoRoom> {
        let frame = self.bytes.get_mut(self.used.len()).ok_or(NoRoom)?;
        let count = segment.write(frame).expect("a frame is large enough");
        self.used.push((segment.flow.addresses, count));
        Ok(())
    }
}

fn hand_over(frames: &mut Frames, to: &mut Tcp, back: &mut Frames, now: Instant, lost: Option<usize>) {
    for (index, (addresses, count)) in frames.used.drain(..).enumerate() {
        if Some(index) == lost {
            continue;
        }
        let segment = tcp::View::parse(&frames.bytes[index][..count]).unwrap();
        let incoming = Incoming { addresses: &addresses, segment, is_verified: false };
        to.receive(now, &incoming, &mut |segment: &Outgoing<'_>| back.take(segment), &mut |_, bytes| bytes.len());
    }
}

#[test]
fn the_steady_state_does_not_allocate() {
    let mut now = Instant::from_nanos(1_000_000_000);
    let mut stacks = [1, 2].map(|seed| Tcp::new(Config::latency(), Secret([seed, 2, 3, 4]), now));
    let mut frames = [Frames::new(), Frames::new()];
    let [client, server] = &mut stacks;
    let [up, down] = &mut frames;
    let options = client.config().options();
    let listener = server.listen(tcp_support::address(1, 80), 4, options).unwrap();
    let (local, remote) = (tcp_support::address(0, 4000), tcp_support::address(1, 80));
    let id = client.connect(now, local, remote, None, options, &mut |one: &Outgoing<'_>| up.take(one)).unwrap();
    for _ in 0..3 {
        hand_over(up, server, down, now, None);
        hand_over(down, client, up, now, None);
        client.poll(now, &mut |one: &Outgoing<'_>| up.take(one));
    }
    let peer = server.accept(listener).unwrap();
    let mut read = [0; 4096];
    let mut round = |number: u64, bytes: &[u8]| {
        now = now.after_ns(20_000);
        let sent = client.send(now, id, bytes, &mut |one: &Outgoing<'_>| up.take(one));
        assert_eq!(sent, Ok(bytes.len()), "round {number}: {:?}", client.facts(id));
        // One of a burst is lost now and then (frame 0 is the last answer's ACK): recovery does not allocate either.
        let lost = (number % 51 == 48).then_some(1);
        hand_over(up, server, down, now, lost);
        // What came around a hole was not lent: it waits, and nothing is lent before it is read.
        while server.read(now, peer, &mut read, &mut |one: &Outgoing<'_>| down.take(one)).is_ok() {}
        server.send(now, peer, b"answer", &mut |one: &Outgoing<'_>| down.take(one)).unwrap();
        server.poll(now, &mut |one: &Outgoing<'_>| down.take(one));
        hand_over(down, client, up, now, None);
        client.poll(now, &mut |one: &Outgoing<'_>| up.take(one));
        while client.next_event().is_some() || server.next_event().is_some() {}
    };
    let burst = [7; 6000];
    let part = |number: u64| if number.is_multiple_of(3) { &burst[..] } else { &burst[..64] };
    (0..1000).for_each(|number| round(number, part(number)));
    let before = ALLOCATIONS.get();
    (1000..6000).for_each(|number| round(number, part(number)));
    assert_eq!(ALLOCATIONS.get() - before, 0);
    assert!(client.facts(id).unwrap().retransmitted > 20, "losses were repaired");
}
