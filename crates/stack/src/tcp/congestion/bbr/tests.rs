//! The model against inputs that no path gives; its behaviour over paths: `tests/congestion.rs`.

use super::*;
use crate::tcp::loss_recovery::scoreboard::Scoreboard;
use proptest::prelude::*;
use sidestep_wire::tcp::SequenceNumber;

const SEGMENT: u32 = 1448;

fn bbr() -> Bbr {
    Bbr::new(SEGMENT, 10 * SEGMENT)
}

/// Sends a segment at one time and has it acknowledged at another.
fn exchange(bbr: &mut Bbr, sent_ns: u64, acknowledged_ns: u64, bytes: u32) {
    let (sent, now) = (Instant::from_nanos(sent_ns), Instant::from_nanos(acknowledged_ns));
    let mut board = Scoreboard::default();
    board.push(SequenceNumber(0), SequenceNumber(bytes), sent);
    let stamp = bbr.on_sent(&Departure { now: sent, bytes, in_flight: bytes, is_last: false });
    board.set_stamp(0, stamp);
    let newest = board.at(0);
    bbr.on_delivered(now, bytes);
    bbr.on_ack(&Ack {
        now,
        newly_acked: bytes,
        newest: newest.as_ref(),
        in_flight: (bytes, 0),
        srtt_ns: now.since_ns(sent),
        is_cwnd_limited: true,
        has_unsent: true,
        has_losses: false,
        is_recovering: false,
    });
}

fn is_sane(bbr: &Bbr) -> bool {
    let window = bbr.window_bytes();
    window > 0 && window <= super::super::reno::WINDOW_MAX && bbr.pacing_rate() > 0
}

/// What a connection with BBR has beside it.
#[test]
fn the_state_is_small() {
    assert!(size_of::<Bbr>() <= 448, "{} bytes", size_of::<Bbr>());
}

#[test]
fn no_time_no_bytes_and_endless_time_are_survived() {
    for (sent, acknowledged, bytes) in [
        (5, 5, SEGMENT),
        (5, 6, 0),
        (0, u64::MAX, SEGMENT),
        (u64::MAX, 0, SEGMENT),
        (u64::MAX, u64::MAX, 1 << 30),
        (0, 1, 1 << 30),
    ] {
        let mut bbr = bbr();
        for _ in 0..100 {
            exchange(&mut bbr, sent, acknowledged, bytes);
            assert!(is_sane(&bbr), "{bbr:?}");
        }
        // And from there to a path that is one.
        for turn in 0..100 {
            exchange(&mut bbr, turn * MILLISECOND_NS, (turn + 1) * MILLISECOND_NS, SEGMENT);
            assert!(is_sane(&bbr), "{bbr:?}");
        }
    }
}

/// Section 5.6.2: before anything is known the initial window leaves within a third of the round trip.
#[test]
fn the_first_rate_is_that_of_the_initial_window() {
    let mut bbr = bbr();
    assert_eq!(bbr.pacing_rate(), u64::from(10 * SEGMENT) * 1000 * 277 / 100);
    exchange(&mut bbr, 0, 10 * MILLISECOND_NS, SEGMENT);
    assert_eq!(bbr.pacing_rate(), u64::from(10 * SEGMENT) * 100 * 277 / 100);
}

/// Section 5.5.10.2: losses within the segment that crossed two percent.
#[test]
fn losses_are_put_where_they_crossed_the_threshold() {
    let sample = |lost, tx_in_flight| Sample { lost, tx_in_flight, ..Sample::default() };
    assert!(!Bbr::is_inflight_too_high(&sample(2000, 100_000)));
    assert!(Bbr::is_inflight_too_high(&sample(2001, 100_000)));
    assert!(!Bbr::is_inflight_too_high(&sample(0, 0)));
}

#[test]
fn segments_of_another_size_keep_the_window_in_segments() {
    let mut bbr = Bbr::new(536, 10 * 536);
    bbr.on_segment_bytes(1448);
    assert_eq!((bbr.window_bytes(), bbr.segment_bytes), (14_480, 1448));
    bbr.on_segment_bytes(u32::MAX);
    bbr.on_segment_bytes(1);
    assert!(is_sane(&bbr), "{bbr:?}");
}

proptest! {
    /// Whatever comes, in whatever order: a window and a rate remain.
    #[test]
    fn nothing_stops_it(steps in prop::collection::vec((0_u8..7, any::<u32>(), any::<u64>()), 1..60)) {
        let mut bbr = bbr();
        for (kind, bytes, time) in steps {
            let (bytes, now) = (bytes >> (time % 32), Instant::from_nanos(time));
            match kind {
                0 | 1 => exchange(&mut bbr, time, time.saturating_add(u64::from(bytes)), bytes),
                2 => exchange(&mut bbr, time, time >> 1, bytes),
                3 => bbr.on_loss(now, bytes),
                4 => {
                    bbr.on_all_lost(bytes);
                    bbr.on_timeout(now, bytes, true);
                }
                5 => bbr.on_recovered(),
                _ => bbr.undo(),
            }
            prop_assert!(is_sane(&bbr), "{:?}", bbr);
        }
    }
}
