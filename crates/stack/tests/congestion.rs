//! Congestion control over a simulated bottleneck, in virtual time.
//!
//! Rates that are asked for are those of the stack's own promise (decision 0037); the comparison with the kernel's is made over a
//! real wire (`crates/socket/tests/tcp/congestion.rs`).

mod bottleneck;

use bottleneck::{Load, MS, Net, Path, SECOND};
use sidestep_stack::tcp::{Config, Congestion, Counter, Options};

/// 200 Mbit/s, with what chance does to it.
const PATHS: [(&str, Path); 6] = [
    ("clean", Path::USUAL),
    ("0.1 % lost", Path { loss: 10, ..Path::USUAL }),
    ("1 % lost", Path { loss: 100, ..Path::USUAL }),
    ("3 % lost, 10 ms", Path { loss: 300, delay_ns: 10 * MS, ..Path::USUAL }),
    ("2 % held back for 1 ms", Path { reorder: 200, gap_ns: MS, ..Path::USUAL }),
    ("a short queue", Path { queue_bytes: 50_000, ..Path::USUAL }),
];

/// The rate of a stream after a second, in hundredths of what the path carries.
fn share(path: Path, congestion: Congestion, seed: u64) -> u64 {
    let mut net = Net::over(path, congestion, seed);
    net.open_usual(Load::Bulk);
    net.rate(SECOND);
    net.rate(8 * SECOND) * 100 / path.payload_rate()
}

#[test]
fn bbr_fills_the_path_though_it_loses_some() {
    for (number, (name, path)) in PATHS.into_iter().enumerate() {
        let (bbr, cubic) = (share(path, Congestion::Bbr, 1), share(path, Congestion::Cubic, 1));
        println!("{name}: bbr {bbr} %, cubic {cubic} %");
        let wanted = [95, 95, 92, 90, 95, 90][number];
        assert!(bbr >= wanted, "{name}: {bbr} % of the path");
        assert!(number == 0 || number > 3 || bbr > cubic, "{name}: {bbr} %, cubic {cubic} %");
    }
}

/// A thousand times slower and a hundred times faster, near and far.
#[test]
fn bbr_finds_the_rate_of_any_path() {
    for (rate_bps, delay_ns) in [
        (200_000, 50 * MS),
        (2_000_000, 10 * MS),
        (20_000_000, 100 * MS),
        (1_000_000_000, 20_000),
        (10_000_000_000, 10_000),
    ] {
        let path = Path { rate_bps, delay_ns, ..Path::USUAL };
        let mut net = Net::over(path, Congestion::Bbr, 1);
        net.open_usual(Load::Bulk);
        net.rate(SECOND + 40 * delay_ns);
        let share = net.rate(if rate_bps > 1_000_000_000 { SECOND } else { 10 * SECOND }) * 100 / path.payload_rate();
        assert!(share >= 90, "{rate_bps} bit/s, {delay_ns} ns: {share} %");
    }
}

/// A queue of the path stays short: half of what CUBIC, which fills it, has.
#[test]
fn bbr_keeps_the_queue_short() {
    let delay_ns = |congestion| {
        let mut net = Net::over(Path::USUAL, congestion, 1);
        net.open_usual(Load::Bulk);
        net.rate(4 * SECOND);
        let facts = net.hosts[0].facts(net.flows[0].id).unwrap();
        facts.rtt_ns.unwrap() - 4 * MS
    };
    let (bbr, cubic) = (delay_ns(Congestion::Bbr), delay_ns(Congestion::Cubic));
    assert!(bbr * 2 < cubic, "{bbr} ns of {cubic} ns");
}

#[test]
fn a_path_that_changes_is_followed() {
    let mut net = Net::over(Path::USUAL, Congestion::Bbr, 1);
    net.open_usual(Load::Bulk);
    assert!(net.rate(2 * SECOND) > Path::USUAL.payload_rate() * 9 / 10);
    let slow = Path { rate_bps: 20_000_000, ..Path::USUAL };
    net.set_path(slow);
    net.rate(5 * SECOND);
    let rate = net.rate(5 * SECOND);
    assert!(rate > slow.payload_rate() * 9 / 10, "{rate}");
    let facts = net.hosts[0].facts(net.flows[0].id).unwrap();
    assert!(facts.rtt_ns.unwrap() < 60 * MS, "the queue that the faster stream has left is gone: {facts:?}");
    net.set_path(Path::USUAL);
    net.rate(10 * SECOND);
    let rate = net.rate(5 * SECOND);
    assert!(rate > Path::USUAL.payload_rate() * 85 / 100, "{rate}");
}

#[test]
fn two_streams_share() {
    for path in [Path::USUAL, Path { queue_bytes: 100_000, ..Path::USUAL }] {
        let mut net = Net::over(path, Congestion::Bbr, 1);
        net.open_usual(Load::Bulk);
        net.rate(3 * SECOND);
        net.open_usual(Load::Bulk);
        net.run(15 * SECOND);
        let rates: Vec<u64> = net.run(30 * SECOND).iter().map(|bytes| bytes / 30).collect();
        let sum = rates.iter().sum::<u64>();
        assert!(sum > path.payload_rate() * 9 / 10, "{rates:?}");
        assert!(rates.iter().all(|rate| *rate > sum / 5), "{rates:?} with a queue of {}", path.queue_bytes);
    }
}

/// BBR beside CUBIC: neither starves the other, with a queue of one round trip, and one of fifteen.
#[test]
fn cubic_beside_bbr_goes_on() {
    for queue_bytes in [100_000, 1_500_000] {
        let path = Path { queue_bytes, ..Path::USUAL };
        let mut net = Net::over(path, Congestion::Bbr, 1);
        net.open_usual(Load::Bulk);
        let options = Options { congestion: Congestion::Cubic, ..net.hosts[0].config().options() };
        net.open(options, Load::Bulk);
        net.run(5 * SECOND);
        let shares: Vec<u64> = net.run(30 * SECOND).iter().map(|bytes| bytes * 10 / 3 / path.payload_rate()).collect();
        println!("a queue of {queue_bytes} bytes: bbr {} %, cubic {} %", shares[0], shares[1]);
        assert!(shares.iter().sum::<u64>() >= 90 && shares.iter().all(|share| *share >= 5), "{shares:?}");
    }
}

/// Where there is hardly a queue, what does not fit is lost unseen by the round trip: it is still little.
#[test]
fn a_path_without_a_queue_is_not_flooded() {
    // Two packets, which are fewer than leave at once; a third of a burst; a burst; two.
    for (queue_bytes, lost_max) in [(3_000, 2), (8_000, 1), (25_000, 1), (50_000, 1)] {
        let path = Path { queue_bytes, ..Path::USUAL };
        let mut net = Net::over(path, Congestion::Bbr, 1);
        net.open_usual(Load::Bulk);
        net.run(SECOND);
        let before = net.hosts[0].facts(net.flows[0].id).unwrap();
        let share = net.rate(20 * SECOND) * 100 / path.payload_rate();
        let after = net.hosts[0].facts(net.flows[0].id).unwrap();
        let (again, all) = (after.retransmitted - before.retransmitted, after.segments_out - before.segments_out);
        println!("a queue of {queue_bytes} bytes: {share} %, {again} of {all} segments again");
        assert!(share >= 85 && again * 100 <= all * lost_max, "{queue_bytes}: {share} %, {again} of {all}");
    }
}

/// RFC 9406: CUBIC's first slow start ends when the queue grows, not when hundreds of segments were lost for which it had no room.
#[test]
fn cubics_first_slow_start_loses_little() {
    for (rate_bps, delay_ns) in [(200_000_000, 2 * MS), (200_000_000, 10 * MS), (1_000_000_000, 5 * MS)] {
        let path = Path { rate_bps, delay_ns, ..Path::USUAL };
        let mut net = Net::over(path, Congestion::Cubic, 1);
        net.open_usual(Load::Bulk);
        net.run(SECOND);
        let facts = net.hosts[0].facts(net.flows[0].id).unwrap();
        println!("{rate_bps} bit/s, {delay_ns} ns: {} of {} segments again", facts.retransmitted, facts.segments_out);
        assert!(facts.retransmitted < 20, "{rate_bps} bit/s, {delay_ns} ns: {} segments again", facts.retransmitted);
        let share = net.rate(4 * SECOND) * 100 / path.payload_rate();
        assert!(share >= 95, "{rate_bps} bit/s, {delay_ns} ns: {share} %");
    }
}

/// Segments that are late are sent again in vain a few times at first; then the window of RACK is as wide as they are late (RFC 8985
/// section 6.2). Without timestamps only reports of duplicates tell.
#[test]
fn late_segments_are_waited_for() {
    for congestion in [Congestion::Bbr, Congestion::Cubic, Congestion::Reno] {
        for (gap_ns, timestamps) in [(MS, true), (3 * MS, true), (MS, false), (3 * MS, false)] {
            let path = Path { reorder: 200, gap_ns, ..Path::USUAL };
            let config = Config { congestion, timestamps, ..Config::default() };
            let mut net = Net::new(path, Path::USUAL, &config, 1);
            net.open_usual(Load::Bulk);
            let share = net.rate(8 * SECOND) * 100 / path.payload_rate();
            let (facts, counters) = (net.hosts[0].facts(net.flows[0].id).unwrap(), net.hosts[0].counters());
            let (again, all) = (facts.retransmitted, facts.segments_out);
            let taken_back = counters.value(Counter::SpuriousRecoveries);
            println!(
                "{congestion:?}, late by {gap_ns} ns, timestamps {timestamps}: {share} %, {again} again, {taken_back} taken back"
            );
            assert!(share >= 95 && again * 1000 <= all, "{congestion:?}, {gap_ns}: {share} %, {again} of {all} again");
        }
    }
}

/// Messages leave at once, also beside full use, and do not make a path seem slow.
#[test]
fn messages_do_not_wait_and_do_not_slow_down() {
    let mut net = Net::over(Path::USUAL, Congestion::Bbr, 1);
    let stream = net.open_usual(Load::Silent);
    net.run(SECOND);
    net.set_load(stream, Load::Messages { bytes: 300, each_ns: 700_000 });
    let departures = net.departures(10 * SECOND);
    let messages = 10 * SECOND / 700_000;
    assert!(departures.len() as u64 >= messages, "{} of {messages}", departures.len());
    let gaps: Vec<u64> = departures.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.iter().all(|gap| *gap == 700_000), "each leaves in the call that hands it over");
    net.set_load(stream, Load::Bulk);
    net.run(SECOND);
    let rate = net.rate(2 * SECOND);
    assert!(rate > Path::USUAL.payload_rate() * 9 / 10, "{rate}");
}

/// Section 5.4: behind a silence a stream goes on as fast as before.
#[test]
fn a_long_silence_costs_nothing() {
    let mut net = Net::over(Path::USUAL, Congestion::Bbr, 1);
    let stream = net.open_usual(Load::Bulk);
    net.run(3 * SECOND);
    net.set_load(stream, Load::Silent);
    net.run(600 * SECOND);
    net.set_load(stream, Load::Bulk);
    net.run(20 * MS);
    let rate = net.rate(SECOND);
    assert!(rate > Path::USUAL.payload_rate() * 85 / 100, "{rate}");
}

/// Draft-ietf-ccwg-bbr-04 section 5.6: in any millisecond no more leaves than the burst that it may make up for.
#[test]
fn segments_leave_evenly() {
    let mut net = Net::over(Path::USUAL, Congestion::Bbr, 1);
    net.open_usual(Load::Bulk);
    net.run(3 * SECOND);
    let departures = net.departures(SECOND);
    let most = departures
        .iter()
        .enumerate()
        .map(|(first, at_ns)| departures[first..].iter().take_while(|later| *later - at_ns < MS).count());
    // A millisecond of 200 Mbit/s has 17 segments; with a probe of 5/4, and a burst and a half from before, 47.
    let most = most.max().unwrap_or(0);
    assert!((10..=47).contains(&most), "{most}");
}

/// Without SACK and without timestamps the model is less exact (section 4.1.3.4.1), and still works.
#[test]
fn bbr_without_sack_goes_on() {
    for (sack, timestamps) in [(false, true), (true, false), (false, false)] {
        let path = Path { loss: 10, ..Path::USUAL };
        let config = Config { congestion: Congestion::Bbr, sack, timestamps, ..Config::default() };
        let mut net = Net::new(path, Path::USUAL, &config, 1);
        net.open_usual(Load::Bulk);
        net.run(SECOND);
        let share = net.rate(8 * SECOND) * 100 / path.payload_rate();
        println!("sack {sack} timestamps {timestamps}: {share} %");
        assert!(share >= if sack { 90 } else { 25 }, "sack {sack} timestamps {timestamps}: {share} %");
    }
}
