//! One direction of an impaired wire, sans I/O and without a clock: frames and times in, frames out.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};

use sidestep_sys::Problem;

use super::{Counters, Impairment};

/// The most frames in flight: 65,536 is 100 ms of the smallest frames at 650,000 a second, more than a lab relays.
pub(crate) const FRAMES_IN_FLIGHT_MAX: usize = 65_536;

/// The most bytes in flight: half a second of a full gigabit, and affordable on a small machine per direction.
pub(crate) const BYTES_IN_FLIGHT_MAX: usize = 64 << 20;

/// Addresses and type, which stay unchanged: a real NIC would drop a frame with another address unseen.
const ETHERNET_HEADER_BYTES: usize = 14;

/// One direction of an impaired wire. Times are nanoseconds on the caller's clock, which does not run backwards.
#[derive(Debug)]
pub(crate) struct Impair {
    impairment: Impairment,
    random: fastrand::Rng,
    /// The end of serialisation of each frame that waits for its turn, or is being sent; oldest first.
    serialising: VecDeque<u64>,
    in_flight: BinaryHeap<Reverse<InFlight>>,
    in_flight_bytes: usize,
    sequence: u64,
    counters: Counters,
}

impl Impair {
    /// Makes an empty wire. Refuses a contradictory impairment.
    pub(crate) fn new(impairment: Impairment) -> Result<Self, Problem> {
        impairment.check()?;
        Ok(Self {
            random: fastrand::Rng::with_seed(impairment.seed),
            impairment,
            serialising: VecDeque::new(),
            in_flight: BinaryHeap::new(),
            in_flight_bytes: 0,
            sequence: 0,
            counters: Counters::default(),
        })
    }

    /// Puts a frame on the wire.
    pub(crate) fn offer(&mut self, now_ns: u64, frame: &[u8]) {
        self.counters.offered += 1;
        if self.impairment.loss.draw(&mut self.random) {
            self.counters.lost += 1;
            return;
        }
        let is_doubled = self.impairment.duplicate.draw(&mut self.random);
        self.admit(now_ns, frame);
        if is_doubled {
            self.counters.duplicated += 1;
            self.admit(now_ns, frame);
        }
    }

    /// Takes the next frame that has arrived by now.
    pub(crate) fn due(&mut self, now_ns: u64) -> Option<Vec<u8>> {
        if self.next_due()? > now_ns {
            return None;
        }
        let Reverse(arrived) = self.in_flight.pop()?;
        self.in_flight_bytes -= arrived.frame.len();
        self.counters.delivered += 1;
        Some(arrived.frame)
    }

    /// The arrival time of the next frame; `None` on an empty wire.
    pub(crate) fn next_due(&self) -> Option<u64> {
        self.in_flight.peek().map(|Reverse(next)| next.due_ns)
    }

    /// The counters so far.
    pub(crate) fn counters(&self) -> Counters {
        self.counters
    }

    fn admit(&mut self, now_ns: u64, frame: &[u8]) {
        let is_full = self.in_flight.len() >= FRAMES_IN_FLIGHT_MAX
            || self.in_flight_bytes.saturating_add(frame.len()) > BYTES_IN_FLIGHT_MAX;
        let Some(serialised_ns) = (!is_full).then(|| self.serialise(now_ns, frame.len())).flatten() else {
            self.counters.queue_drops += 1;
            return;
        };
        let due_ns = serialised_ns.saturating_add(self.delay_ns());
        let frame = self.corrupt(frame.to_vec());
        self.in_flight_bytes += frame.len();
        self.in_flight.push(Reverse(InFlight { due_ns, sequence: self.sequence, frame }));
        self.sequence += 1;
    }

    /// The time at which the last bit has left the sender; `None` if the queue before the wire is full.
    fn serialise(&mut self, now_ns: u64, frame_bytes: usize) -> Option<u64> {
        let Some(rate_bps) = self.impairment.rate_bps else { return Some(now_ns) };
        while self.serialising.front().is_some_and(|&done_ns| done_ns <= now_ns) {
            self.serialising.pop_front();
        }
        // The frame being sent does not wait, so the queue holds one more than may wait.
        if self.serialising.len() > self.impairment.queue_frames as usize {
            return None;
        }
        let start_ns = self.serialising.back().copied().unwrap_or(now_ns);
        let done_ns = start_ns.saturating_add(serialisation_ns(frame_bytes, rate_bps));
        self.serialising.push_back(done_ns);
        Some(done_ns)
    }

    fn delay_ns(&mut self) -> u64 {
        let Impairment { delay_ns, jitter_ns, .. } = self.impairment;
        let mut total_ns = delay_ns - jitter_ns;
        if jitter_ns > 0 {
            total_ns += self.random.u64(0..=2 * jitter_ns);
        }
        if self.impairment.reorder.draw(&mut self.random) {
            self.counters.reordered += 1;
            total_ns += self.impairment.gap_ns;
        }
        total_ns
    }

    fn corrupt(&mut self, mut frame: Vec<u8>) -> Vec<u8> {
        if frame.len() > ETHERNET_HEADER_BYTES && self.impairment.corrupt.draw(&mut self.random) {
            self.counters.corrupted += 1;
            let bit = self.random.usize(ETHERNET_HEADER_BYTES * 8..frame.len() * 8);
            frame[bit / 8] ^= 1 << (bit % 8);
        }
        frame
    }
}

/// The serialisation time, rounded up: a wire is never faster than its rate.
fn serialisation_ns(frame_bytes: usize, rate_bps: u64) -> u64 {
    let bits = frame_bytes as u128 * 8;
    u64::try_from((bits * 1_000_000_000).div_ceil(u128::from(rate_bps))).unwrap_or(u64::MAX)
}

#[derive(Debug)]
struct InFlight {
    due_ns: u64,
    sequence: u64,
    frame: Vec<u8>,
}

impl InFlight {
    /// The sort key: frames due at the same time keep their order.
    fn key(&self) -> (u64, u64) {
        (self.due_ns, self.sequence)
    }
}

impl Ord for InFlight {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for InFlight {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for InFlight {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for InFlight {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Share;
    use super::*;

    fn wire(text: &str) -> Impair {
        Impair::new(Impairment::parse(text).unwrap()).unwrap()
    }

    /// A frame of 60 bytes or more that carries its number after the header.
    fn frame(number: u32, bytes: usize) -> Vec<u8> {
        let mut frame = vec![0; bytes.max(60)];
        frame[14..18].copy_from_slice(&number.to_be_bytes());
        frame
    }

    fn number(frame: &[u8]) -> u32 {
        u32::from_be_bytes(frame[14..18].try_into().unwrap())
    }

    /// Offers a frame every `every_ns` and takes each out when it is due: arrival time and frame, in order.
    fn transmit(wire: &mut Impair, frames: u32, every_ns: u64, bytes: usize) -> Vec<(u64, Vec<u8>)> {
        let mut arrived = Vec::new();
        for index in 0..frames {
            let now_ns = u64::from(index) * every_ns;
            take_due(wire, now_ns, &mut arrived);
            wire.offer(now_ns, &frame(index, bytes));
        }
        take_due(wire, u64::MAX, &mut arrived);
        arrived
    }

    fn take_due(wire: &mut Impair, until_ns: u64, arrived: &mut Vec<(u64, Vec<u8>)>) {
        while let Some(due_ns) = wire.next_due().filter(|&due_ns| due_ns <= until_ns) {
            assert!(due_ns == 0 || wire.due(due_ns - 1).is_none(), "nothing arrives early");
            arrived.push((due_ns, wire.due(due_ns).unwrap()));
        }
    }

    #[test]
    fn a_perfect_wire_delivers_at_once_and_unchanged() {
        let mut wire = wire("");
        wire.offer(5, &frame(1, 60));
        assert_eq!(wire.next_due(), Some(5));
        assert_eq!(wire.due(5), Some(frame(1, 60)));
        assert_eq!(wire.due(u64::MAX), None);
    }

    #[test]
    fn a_delay_is_exact_and_jitter_stays_within_its_bounds() {
        for (index, (at_ns, _)) in transmit(&mut wire("delay=5ms"), 100, 10, 60).iter().enumerate() {
            assert_eq!(*at_ns, 5_000_000 + index as u64 * 10);
        }
        let times: Vec<_> =
            transmit(&mut wire("delay=5us,jitter=2us"), 1_000, 0, 60).iter().map(|(at, _)| *at).collect();
        assert!(times.iter().all(|at_ns| (3_000..=7_000).contains(at_ns)));
        assert!(times[0] < 3_100 && times[999] > 6_900, "jitter uses its whole range");
    }

    #[test]
    fn a_reordered_frame_is_overtaken_by_those_within_the_gap() {
        let arrived = transmit(&mut wire("reorder=10%,gap=1ms,seed=3"), 1_000, 400_000, 60);
        let numbers: Vec<_> = arrived.iter().map(|(_, frame)| number(frame)).collect();
        let late = numbers.windows(2).filter(|pair| pair[1] < pair[0]).count();
        assert!(late > 50, "{late} frames were overtaken");
        assert_eq!(numbers.len(), 1_000);
    }

    #[test]
    fn corruption_flips_one_bit_and_spares_the_ethernet_header() {
        let mut wire = wire("corrupt=100%");
        for (index, (_, arrived)) in transmit(&mut wire, 500, 1, 60).iter().enumerate() {
            let sent = frame(index as u32, 60);
            let flipped: u32 = sent.iter().zip(arrived).map(|(a, b)| (a ^ b).count_ones()).sum();
            assert_eq!((flipped, &arrived[..14]), (1, &sent[..14]));
        }
        wire.offer(0, &[0; 14]);
        assert_eq!(wire.due(0), Some(vec![0; 14]), "a frame of nothing but a header stays");
    }

    #[test]
    fn a_full_queue_drops_the_tail() {
        // 100 bytes at 8 kbit/s take 100 ms; one being sent and three waiting fit.
        let mut wire = wire("rate=8kbit,queue=3");
        let arrived = transmit(&mut wire, 10, 0, 100);
        assert_eq!(
            arrived.iter().map(|(at, frame)| (*at, number(frame))).collect::<Vec<_>>(),
            [(100_000_000, 0), (200_000_000, 1), (300_000_000, 2), (400_000_000, 3)]
        );
        assert_eq!(wire.counters().queue_drops, 6);
    }

    #[test]
    fn memory_is_bounded_in_frames_and_in_bytes() {
        let mut small = wire("delay=1min");
        transmit_without_taking(&mut small, FRAMES_IN_FLIGHT_MAX + 10, 60);
        assert_eq!((small.in_flight.len(), small.counters().queue_drops), (FRAMES_IN_FLIGHT_MAX, 10));
        let mut large = wire("delay=1min");
        transmit_without_taking(&mut large, 1_100, 65_536);
        assert_eq!(large.in_flight.len(), BYTES_IN_FLIGHT_MAX / 65_536);
    }

    fn transmit_without_taking(wire: &mut Impair, frames: usize, bytes: usize) {
        let frame = frame(0, bytes);
        (0..frames).for_each(|_| wire.offer(0, &frame));
    }

    #[test]
    fn the_share_lost_is_that_asked_for() {
        let mut wire = wire("loss=5%,seed=11");
        transmit(&mut wire, 100_000, 1, 60);
        // Binomial with n = 100,000 and p = 0.05: mean 5,000, standard deviation 69; five of them.
        assert!(wire.counters().lost.abs_diff(5_000) < 345, "{}", wire.counters().lost);
    }

    fn any_impairment() -> impl Strategy<Value = Impairment> {
        let part = |texts: &'static [&'static str]| proptest::sample::select(texts);
        (
            part(&["", "loss=30%,", "loss=100%,"]),
            part(&["", "duplicate=20%,"]),
            part(&["", "reorder=10%,gap=1ms,"]),
            part(&["", "delay=2ms,", "delay=2ms,jitter=1ms,"]),
            part(&["", "corrupt=50%,"]),
            part(&["", "rate=1mbit,", "rate=1mbit,queue=5,", "rate=1bit,"]),
            any::<u64>(),
        )
            .prop_map(|(loss, duplicate, reorder, delay, corrupt, rate, seed)| {
                Impairment::parse(&format!("{loss}{duplicate}{reorder}{delay}{corrupt}{rate}seed={seed}")).unwrap()
            })
    }

    proptest! {
        #[test]
        fn no_frame_appears_or_vanishes_uncounted(
            impairment in any_impairment(), frames in 0..200_u32, every_ns in 0..5_000_000_u64, bytes in 0..2_000_usize,
        ) {
            let mut wire = Impair::new(impairment).unwrap();
            let arrived = transmit(&mut wire, frames, every_ns, bytes);
            let counters = wire.counters();
            prop_assert_eq!(counters.offered, u64::from(frames));
            prop_assert_eq!(counters.delivered, arrived.len() as u64);
            prop_assert_eq!(
                counters.delivered, counters.offered + counters.duplicated - counters.lost - counters.queue_drops
            );
        }

        #[test]
        fn the_same_seed_does_the_same(impairment in any_impairment(), frames in 0..200_u32) {
            let [one, two] = [0, 1].map(|_| transmit(&mut Impair::new(impairment.clone()).unwrap(), frames, 100_000, 60));
            prop_assert_eq!(one, two);
        }

        #[test]
        fn order_is_kept_without_reorder_and_jitter(
            mut impairment in any_impairment(), frames in 0..200_u32, every_ns in 0..5_000_000_u64,
        ) {
            (impairment.reorder, impairment.gap_ns) = (Share::NONE, 0);
            impairment.jitter_ns = 0;
            impairment.corrupt = Share::NONE;
            let arrived = transmit(&mut Impair::new(impairment).unwrap(), frames, every_ns, 60);
            prop_assert!(arrived.windows(2).all(|pair| number(&pair[0].1) <= number(&pair[1].1)));
        }

        #[test]
        fn the_rate_is_never_exceeded(
            rate_kbit in 1..100_000_u64, frames in 2..200_u32, every_ns in 0..1_000_000_u64, bytes in 60..2_000_usize,
        ) {
            let mut wire = wire(&format!("rate={rate_kbit}kbit,delay=1ms"));
            let arrived = transmit(&mut wire, frames, every_ns, bytes);
            let bits = (arrived.len() as u128 - 1) * bytes as u128 * 8;
            let elapsed_ns = u128::from(arrived.last().unwrap().0 - arrived[0].0);
            prop_assert!(bits * 1_000_000_000 <= elapsed_ns * u128::from(rate_kbit) * 1_000);
        }
    }
}
