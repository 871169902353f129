//! One schedule: everything that chance decides before it begins.

use super::dice::Dice;
use sidestep_stack::tcp::{Config, Congestion};

pub const MICROSECOND: u64 = 1000;
pub const MILLISECOND: u64 = 1_000_000;
pub const SECOND: u64 = 1_000_000_000;

/// Connections of one schedule: enough to get into each other's way.
const PAIRS_MAX: u64 = 12;

pub struct Plan {
    pub configs: [Config; 2],
    pub links: [LinkPlan; 2],
    /// From here on the link only delays and queues: whatever is still under way must come to its end.
    pub heal_ns: u64,
    pub pairs: Vec<PairPlan>,
    pub is_v6: bool,
    /// No end aborts or closes early: every byte must arrive, and no application may get an error.
    pub is_orderly: bool,
    /// Chance in percent and step that a stranger sends something.
    pub strangers: u8,
    /// SYN cookies are likely; then a handshake may fail (RFC 4987 section 3.6) when its last ACK is lost.
    pub has_cookies: bool,
}

/// What one direction of the link does; chances in percent.
#[derive(Clone, Debug)]
pub struct LinkPlan {
    pub delay_ns: u64,
    pub jitter_ns: u64,
    pub loss: u8,
    pub duplication: u8,
    pub corruption: u8,
    /// Chance of an extra delay of up to `late_ns`: reordering.
    pub late: u8,
    pub late_ns: u64,
    /// Chance that the sink has no room.
    pub refusal: u8,
    /// Nanoseconds per byte; 0: as fast as one likes.
    pub byte_ns: u64,
    /// Bytes that wait for the rate; beyond them packets are dropped.
    pub queue_bytes: u64,
    /// The largest IP packet, from a time on.
    pub mtus: [(u64, u16); 2],
    /// Chance that the router's message about a packet that is too big arrives.
    pub told: u8,
    /// Nothing passes in between.
    pub blackout_ns: (u64, u64),
}

pub struct PairPlan {
    pub start_ns: u64,
    /// Who connects: 0, 1, or 2 for both at once.
    pub opener: usize,
    pub apps: [AppPlan; 2],
}

#[derive(Clone, Debug)]
pub struct AppPlan {
    /// Chooses the bytes of the stream.
    pub key: u32,
    pub total: usize,
    pub write_max: usize,
    pub read_max: usize,
    /// Chance of a pause after a write or a read, and its greatest length.
    pub pause: u8,
    pub pause_ns: u64,
    /// What the application takes in the frame, at most.
    pub takes: usize,
    /// Chance per write that Nagle or the cork is switched.
    pub fickle: u8,
    pub end: End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Shuts down when all is sent, reads to the end, closes.
    Orderly,
    /// Closes when all is handed over, whatever comes.
    CloseWhenSent,
    /// At a time: closes, aborts, or shuts both directions.
    CloseAt(u64),
    AbortAt(u64),
    ShutBothAt(u64),
}

impl Plan {
    pub fn new(dice: &mut Dice<'_>) -> Self {
        let is_v6 = dice.percent(25);
        let is_orderly = dice.percent(70);
        let mut configs = [config(dice), config(dice)];
        let has_cookies = dice.percent(8);
        if has_cookies {
            configs.iter_mut().for_each(|config| config.syn_queue_max = 1);
        }
        let calm = dice.percent(20);
        let base = dice.magnitude(MICROSECOND, 100 * MILLISECOND);
        let heal_ns = dice.magnitude(10 * MILLISECOND, 5 * SECOND);
        let links = [link(dice, base, calm, is_v6, heal_ns), link(dice, base, calm, is_v6, heal_ns)];
        let count = if dice.percent(85) { dice.between(1, 2) } else { dice.between(3, PAIRS_MAX) };
        let pairs = (0..count).map(|_| pair(dice, is_orderly, count)).collect();
        let strangers = if dice.percent(15) { dice.between(1, 20) as u8 } else { 0 };
        Self { configs, links, heal_ns, pairs, is_v6, is_orderly, strangers, has_cookies }
    }
}

fn config(dice: &mut Dice<'_>) -> Config {
    let base = if dice.percent(50) { Config::latency() } else { Config::default() };
    let buffer = |dice: &mut Dice<'_>| if dice.percent(40) { dice.magnitude(4096, 1 << 20) as u32 } else { 4 << 20 };
    let receive_buffer_bytes = buffer(dice);
    Config {
        sack: dice.percent(75),
        timestamps: dice.percent(75),
        window_scaling: dice.percent(80),
        nodelay: dice.percent(50),
        quickack: dice.percent(50),
        ack_segments_max: dice.one_of(&[2, 2, 5, 16]),
        burst_gap_us: dice.one_of(&[0, 0, 4, 100]),
        tail_probe: dice.percent(75),
        slow_start_after_idle: dice.percent(50),
        congestion: dice.one_of(&[Congestion::Reno, Congestion::Cubic, Congestion::Bbr]),
        initial_window_segments: dice.one_of(&[1, 2, 3, 10, 10, 40]),
        send_buffer_bytes: buffer(dice),
        send_buffer_initial_bytes: buffer(dice),
        receive_buffer_bytes,
        receive_window_initial_bytes: dice.magnitude(4096, 65_536) as u32,
        mtu_bytes: dice.one_of(&[1500, 1500, 1500, 9000, 1280, 600]),
        out_of_order_ranges_max: dice.one_of(&[1, 2, 8, 128]),
        in_flight_segments_max: dice.one_of(&[4, 16, 8192, 8192]),
        time_wait_max: dice.one_of(&[0, 1, 16_384]),
        // A schedule's link can be dark for seconds: no connection may be given up meanwhile.
        orphan_retries_max: 15,
        ..base
    }
}

fn link(dice: &mut Dice<'_>, base_ns: u64, calm: bool, is_v6: bool, heal_ns: u64) -> LinkPlan {
    let mut chance =
        |often: u8, most: u64| if !calm && dice.percent(often) { dice.magnitude(1, most) as u8 } else { 0 };
    let (loss, duplication, corruption) = (chance(50, 40), chance(30, 20), chance(30, 10));
    let (late, refusal) = (chance(40, 40), chance(15, 30));
    let late_ns = dice.magnitude(MICROSECOND, 200 * MILLISECOND);
    let (byte_ns, queue_bytes) = match dice.percent(30) {
        true => (dice.magnitude(1, 10_000), dice.magnitude(30_000, 1 << 20)),
        false => (0, u64::MAX),
    };
    let least = if is_v6 { 1280 } else { 576 };
    let mtu = |dice: &mut Dice<'_>| if dice.percent(25) { dice.between(least, 1500) as u16 } else { 65_535 };
    let dark = if !calm && dice.percent(10) { dice.below(heal_ns) } else { heal_ns };
    LinkPlan {
        delay_ns: base_ns + dice.below(base_ns),
        jitter_ns: if dice.percent(40) { dice.below(base_ns / 2 + 1) } else { 0 },
        loss,
        duplication,
        corruption,
        late,
        late_ns,
        refusal,
        byte_ns,
        queue_bytes,
        mtus: [(0, mtu(dice)), (dice.below(heal_ns), mtu(dice))],
        told: dice.one_of(&[100, 100, 50]),
        blackout_ns: (dark, dark + dice.below(heal_ns - dark)),
    }
}

fn pair(dice: &mut Dice<'_>, is_orderly: bool, count: u64) -> PairPlan {
    let opener = if dice.percent(8) { 2 } else { dice.below(2) as usize };
    let most = 80_000 / count;
    let apps = [app(dice, is_orderly, most), app(dice, is_orderly, most)];
    PairPlan { start_ns: if dice.percent(50) { 0 } else { dice.magnitude(1, SECOND) }, opener, apps }
}

fn app(dice: &mut Dice<'_>, is_orderly: bool, most: u64) -> AppPlan {
    let total = if dice.percent(15) { 0 } else { dice.magnitude(1, most) as usize };
    let at = dice.magnitude(MICROSECOND, 2 * SECOND);
    let end = match dice.below(7) {
        _ if is_orderly => End::Orderly,
        0 | 1 => End::Orderly,
        2 | 3 => End::CloseWhenSent,
        4 => End::CloseAt(at),
        5 => End::AbortAt(at),
        _ => End::ShutBothAt(at),
    };
    AppPlan {
        key: dice.number(),
        total,
        write_max: dice.magnitude(1, 20_000).max(total as u64 / 200) as usize,
        read_max: dice.magnitude(1, 70_000).max(most / 200) as usize,
        pause: if dice.percent(50) { dice.between(1, 60) as u8 } else { 0 },
        pause_ns: dice.magnitude(MICROSECOND, 100 * MILLISECOND),
        takes: if dice.percent(30) { dice.magnitude(1, 10_000) as usize } else { 0 },
        fickle: if dice.percent(15) { 20 } else { 0 },
        end,
    }
}
