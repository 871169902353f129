//! Anything may arrive, in any state: nothing panics, nothing grows without bound, time goes on.

mod tcp_support;

use fastrand::Rng;
use sidestep_stack::tcp::{Config, Congestion, KeepAlive, Options as Choices, Outgoing, Shutdown, Undelivered};
use sidestep_wire::tcp::{Flags, Options, SackBlock, SequenceNumber, Timestamps};
use tcp_support::address;
use tcp_support::peer::{MS, Play};

/// A number near one that means something, or far from all.
fn near(random: &mut Rng, middle: u32) -> u32 {
    match random.u8(..8) {
        0 => random.u32(..),
        1 => middle.wrapping_add(random.u32(..200_000)).wrapping_sub(100_000),
        2 | 3 => middle,
        _ => middle.wrapping_add(random.u32(..4000)).wrapping_sub(1000),
    }
}

fn options(random: &mut Rng, play: &Play, clock: u32) -> Options {
    let mut options = Options::NONE;
    if random.u8(..4) > 0 {
        options.timestamps = Some(Timestamps { value: near(random, clock), echo: random.u32(..) });
    }
    if random.u8(..4) == 0 {
        options.maximum_segment_size = Some(random.u16(..));
        options.window_scale = Some(random.u8(..15));
        options.sack_permitted = random.bool();
    }
    if random.u8(..3) == 0 && options.maximum_segment_size.is_none() {
        for _ in 0..random.u8(1..4) {
            let start = SequenceNumber(near(random, play.host_iss().0.wrapping_add(1000)));
            options.sack.push(SackBlock { start, end: start + random.u32(..5000) });
        }
    }
    options.fitted()
}

fn arrive(random: &mut Rng, play: &mut Play) {
    let clock = (play.now.as_nanos() / MS) as u32;
    let options = options(random, play, clock);
    let usual = [Flags::ACK, Flags::ACK | Flags::PSH, Flags::ACK | Flags::FIN, Flags::SYN, Flags::SYN | Flags::ACK];
    let flags = if random.u8(..4) > 0 { usual[random.usize(..5)] } else { Flags(random.u8(..)) };
    let (theirs, ours) = play
        .id
        .and_then(|id| play.host.tcp.facts(id).ok())
        .map_or((1, 1), |facts| (1 + facts.bytes_in as u32, 1 + facts.bytes_out as u32));
    let payload = vec![1; random.usize(..1400) * usize::from(random.bool())];
    play.window = if random.u8(..4) == 0 { 0 } else { random.u16(..) };
    play.raw(near(random, theirs), near(random, ours), flags, options, &payload);
}

fn choices(random: &mut Rng, before: Choices) -> Choices {
    let keepalive = KeepAlive { idle_ns: random.u64(..100 * MS), interval_ns: random.u64(1..10 * MS), probes_max: 3 };
    Choices {
        nodelay: random.bool(),
        cork: random.bool(),
        quickack: random.bool(),
        keepalive: random.bool().then_some(keepalive),
        user_timeout_ns: if random.bool() { 0 } else { random.u64(..5000 * MS) },
        segment_bytes_max: if random.bool() { 0 } else { random.u16(88..2000) },
        send_buffer_bytes: random.u32(1..100_000),
        send_buffer_initial_bytes: random.u32(1..100_000),
        receive_buffer_bytes: random.u32(1..100_000),
        congestion: [Congestion::Reno, Congestion::Cubic, Congestion::Bbr][random.usize(..3)],
        ..before
    }
}

fn call(random: &mut Rng, play: &mut Play) {
    let (now, Some(id)) = (play.now, play.id) else { return begin(random, play) };
    let kind = random.u8(..16);
    let bytes = vec![2; random.usize(..20_000)];
    let mut out = vec![0; random.usize(..20_000)];
    let new = play.host.tcp.options(id).map(|before| choices(random, before));
    let how = [Shutdown::Read, Shutdown::Write, Shutdown::Both][random.usize(..3)];
    let flow = play.host.tcp.facts(id).map(|facts| facts.flow);
    let (sequence, mtu) = (play.host_iss() + random.u32(..3000), random.u16(..2000));
    play.host.with(now, |tcp, mut sink| match kind {
        0..6 => drop(tcp.send(now, id, &bytes, &mut sink)),
        6..10 => drop(tcp.read(now, id, &mut out, &mut sink)),
        10 => drop(new.map(|new| tcp.set_options(now, id, new, &mut sink))),
        11 => drop(tcp.shutdown(now, id, how, &mut sink)),
        12 if mtu < 300 => drop(tcp.close(now, id, &mut sink)),
        13 if mtu < 100 => drop(tcp.abort(now, id, &mut sink)),
        14 => drop(flow.map(|flow| tcp.packet_too_big(now, &flow, sequence, mtu, &mut sink))),
        15 => drop(flow.map(|flow| {
            let why = if mtu < 100 { Undelivered::Port } else { Undelivered::Host };
            tcp.unreachable(now, &flow, sequence, why, &mut sink)
        })),
        _ => {}
    });
    if play.host.tcp.facts(id).is_err() {
        play.id = None;
    }
}

fn begin(random: &mut Rng, play: &mut Play) {
    let listener = play.listener.expect("there is one");
    if let Ok(id) = play.host.tcp.accept(listener) {
        play.id = Some(id);
    } else if random.u8(..4) == 0 {
        let (now, options) = (play.now, play.host.tcp.config().options());
        play.id = play.host.with(now, |tcp, sink: &mut dyn FnMut(&Outgoing<'_>) -> _| {
            tcp.connect(now, address(0, 80), address(1, 5000), None, options, &mut &mut *sink).ok()
        });
    } else {
        let options = Options { sack_permitted: random.bool(), window_scale: Some(3), ..Options::NONE };
        play.syn(options);
        play.seen();
        play.say(1, 1, Flags::ACK, b"");
    }
}

fn check(play: &mut Play, seed: u64) {
    let (all, waiting) = play.host.tcp.connections();
    assert!(all - waiting <= 64 && waiting <= 8, "seed {seed}: {all} {waiting}");
    let Some(Ok(facts)) = play.id.map(|id| play.host.tcp.facts(id)) else { return };
    assert!(facts.unacknowledged <= 4 << 20 && facts.readable <= 6 << 20, "seed {seed}: {facts:?}");
    assert!(facts.congestion_window > 0 && facts.segment_bytes >= 48, "seed {seed}: {facts:?}");
    assert!(facts.unsent as usize <= facts.unacknowledged, "seed {seed}: {facts:?}");
    while play.host.tcp.next_event().is_some() {}
}

#[test]
fn anything_in_any_state() {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let first = number("SIDESTEP_SEED").unwrap_or(0);
    let count = number("SIDESTEP_SEEDS").unwrap_or(300);
    for seed in first..first + count {
        let mut random = Rng::with_seed(seed);
        let base = if random.bool() { Config::default() } else { Config::latency() };
        let config = Config {
            connections_max: 64,
            time_wait_max: 8,
            syn_queue_max: random.u32(1..8),
            out_of_order_ranges_max: 16,
            in_flight_segments_max: 64,
            sack: random.bool(),
            timestamps: random.bool(),
            ..base
        };
        let mut play = Play::new(config);
        play.listen(4);
        for _ in 0..200 {
            match random.u8(..10) {
                0..5 => arrive(&mut random, &mut play),
                5..8 => call(&mut random, &mut play),
                8 => play.pass(random.u64(..) >> random.u32(34..54)),
                _ => play.host.wire.weather.refusal = [0, 0, 50][random.usize(..3)],
            }
            play.seen();
            check(&mut play, seed);
        }
        // Whatever was said: when all is silent, everything ends or rests.
        play.host.wire.weather.refusal = 0;
        let held = play.id;
        if let Some(id) = held {
            let now = play.now;
            _ = play.host.with(now, |tcp, mut sink| tcp.close(now, id, &mut sink));
        }
        let (now, listener) = (play.now, play.listener.expect("there is one"));
        play.host.with(now, |tcp, mut sink| tcp.close_listener(now, listener, &mut sink)).unwrap();
        play.pass(3600 * 1000 * MS);
        let facts = held.map(|id| play.host.tcp.facts(id));
        assert_eq!(play.host.tcp.connections(), (0, 0), "seed {seed}: {facts:?}");
        assert_eq!(play.host.tcp.next_poll(), None, "seed {seed}: nothing is left to do");
    }
}
