//! Two hosts, the link between them, and the time.

use super::app::{App, Desk};
use super::dice::Dice;
use super::hand_over::{HandOver, HandOvers};
use super::link::{Fate, Link};
use super::plan::{MICROSECOND, Plan, SECOND};
use super::watch::Watch;
use sidestep_stack::tcp::{
    ConnectionId, Event, Flow, Incoming, Instant, ListenerId, NoRoom, Outgoing, Output, Secret, Tcp,
};
use sidestep_wire::tcp::{SequenceNumber, View};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, SocketAddr};

const PORT: u16 = 80;
/// Connection number n uses this plus n; for opening at once, both sides do.
const PORT_FIRST: u16 = 40_000;
/// Virtual time begins here, so that a deadline at zero would be seen.
const BEGIN_NS: u64 = SECOND;
/// A sink without room is tried again so much later.
const RETRY_NS: u64 = 10 * MICROSECOND;

/// A router's message that a packet was too big.
struct Told {
    at_ns: u64,
    side: usize,
    flow: Flow,
    sequence: SequenceNumber,
    mtu: u16,
}

/// One connection as both sides have it.
pub struct Pair {
    pub apps: [App; 2],
    pub watches: [Watch; 2],
    pub opener: usize,
    start_ns: u64,
    is_started: bool,
}

pub struct World<'a> {
    pub dice: Dice<'a>,
    pub plan: Plan,
    pub now_ns: u64,
    pub tcps: [Tcp; 2],
    pub listeners: [ListenerId; 2],
    pub wire: Wire,
    pub pairs: Vec<Pair>,
    /// Which pair a connection's index belongs to.
    owners: [Vec<usize>; 2],
    told: Vec<Told>,
    pub is_traced: bool,
    /// What the hosts know of themselves goes into the digest, too.
    pub is_compared: bool,
    /// Steps so far.
    pub steps: u64,
    pub hand_overs: Vec<HandOver>,
    pub seen_hand_overs: HandOvers,
}

/// Both directions, with the refusals and errors since the last check.
pub struct Wire {
    pub links: [Link; 2],
    told: Vec<Told>,
    pub fault: Option<String>,
    pub segments: u64,
    /// Of all that the hosts have sent, when, and what became of it.
    pub digest: u64,
}

/// Everything that a stack's sink needs: `side` sends.
struct Sink<'a, 'b> {
    side: usize,
    now_ns: u64,
    wire: &'a mut Wire,
    pairs: &'a mut [Pair],
    dice: &'a mut Dice<'b>,
    is_traced: bool,
}

impl Output for Sink<'_, '_> {
    fn segment(&mut self, outgoing: &Outgoing<'_>) -> Result<(), NoRoom> {
        let mut bytes = vec![0; outgoing.bytes()];
        match outgoing.write(&mut bytes) {
            Ok(count) if count == bytes.len() => {}
            other => self.wire.fault = Some(format!("write: {other:?}")),
        }
        let flow = outgoing.flow;
        let mut hasher = DefaultHasher::new();
        (self.wire.digest, self.side, self.now_ns, &bytes).hash(&mut hasher);
        self.wire.digest = hasher.finish();
        let fate = self.wire.links[self.side].take(self.dice, self.now_ns, flow.addresses, bytes);
        if self.is_traced {
            trace(self.now_ns, self.side, outgoing, &fate);
        }
        if matches!(fate, Fate::Refused) {
            return Err(NoRoom);
        }
        self.wire.segments += 1;
        if let Some(pair) = pair_of(self.pairs, flow) {
            let [first, second] = &mut pair.watches;
            let (own, peer) = if self.side == 0 { (first, second) } else { (second, first) };
            let seen = own.see(peer, outgoing, pair.apps[self.side].plan.key);
            if let (Err(fault), None) = (seen, &self.wire.fault) {
                self.wire.fault = Some(format!("host {} {flow}: {fault}", self.side));
            }
        }
        if let Fate::TooBig { mtu, told_at_ns: Some(at_ns) } = fate {
            let sequence = outgoing.header.sequence;
            self.wire.told.push(Told { at_ns, side: self.side, flow: *flow, sequence, mtu });
        }
        Ok(())
    }
}

fn pair_of<'a>(pairs: &'a mut [Pair], flow: &Flow) -> Option<&'a mut Pair> {
    let port = flow.local_port.max(flow.remote_port);
    pairs.get_mut(usize::from(port.checked_sub(PORT_FIRST)?))
}

fn trace(now_ns: u64, side: usize, outgoing: &Outgoing<'_>, fate: &Fate) {
    let header = &outgoing.header;
    let (seq, ack, options) = (header.sequence, header.acknowledgement, header.options);
    let sack: Vec<_> = options.sack.as_slice().iter().map(|block| format!("{}-{}", block.start, block.end)).collect();
    let fate = match fate {
        Fate::Taken => "",
        Fate::Refused => " REFUSED",
        Fate::TooBig { .. } => " TOO BIG",
    };
    let (port, bytes, clock) = (outgoing.flow.remote_port, outgoing.payload_bytes(), options.timestamps);
    let clock = clock.map_or(String::new(), |clock| format!(" ts {}/{}", clock.value, clock.echo));
    eprintln!(
        "{:>14.3} us host {side} to {port} [{}] {seq}+{bytes} ack {ack} win {} {}{clock}{fate}",
        now_ns as f64 / 1000.0,
        header.flags,
        header.window,
        sack.join(" ")
    );
}

impl<'a> World<'a> {
    pub fn new(mut dice: Dice<'a>, plan: Plan, is_traced: bool) -> Result<Self, String> {
        let begin = Instant::from_nanos(BEGIN_NS);
        let numbers = u64::from(dice.number());
        let mut tcps = [0, 1].map(|side| {
            let secret = Secret([numbers, side as u64, 3, 4]);
            Tcp::new(plan.configs[side].clone(), secret, begin)
        });
        let mut listeners = Vec::new();
        for (side, tcp) in tcps.iter_mut().enumerate() {
            let options = tcp.config().options();
            let local = SocketAddr::new(address(plan.is_v6, side), PORT);
            listeners.push(tcp.listen(local, 64, options).map_err(|error| format!("listen: {error}"))?);
        }
        let links = [0, 1].map(|side| Link::new(shifted(&plan, side), BEGIN_NS + plan.heal_ns));
        let pairs = plan.pairs.iter().map(|pair| Pair {
            apps: pair.apps.clone().map(|app| App::new(begun(app))),
            watches: Default::default(),
            opener: pair.opener,
            start_ns: BEGIN_NS + pair.start_ns,
            is_started: false,
        });
        let pairs = pairs.collect();
        let wire = Wire { links, told: Vec::new(), fault: None, segments: 0, digest: 0 };
        let listeners = [listeners[0], listeners[1]];
        let owners = Default::default();
        Ok(Self {
            dice,
            plan,
            now_ns: BEGIN_NS,
            tcps,
            listeners,
            wire,
            pairs,
            owners,
            told: Vec::new(),
            is_traced,
            is_compared: false,
            steps: 0,
            hand_overs: Vec::new(),
            seen_hand_overs: HandOvers::default(),
        })
    }

    /// When something happens next; `None`: nothing ever does.
    pub fn next_at_ns(&self) -> Option<u64> {
        let links = self.wire.links.iter().filter_map(Link::next_at_ns);
        let timers = self.tcps.iter().filter_map(Tcp::next_poll).map(|at| match at.as_nanos() {
            0 => self.now_ns + RETRY_NS,
            at => at,
        });
        let told = self.told.iter().map(|told| told.at_ns);
        let starts = self.pairs.iter().filter(|pair| !pair.is_started).map(|pair| pair.start_ns);
        let apps = self.pairs.iter().flat_map(|pair| &pair.apps).map(App::next_at_ns).filter(|at| *at != u64::MAX);
        let hand_overs = self.hand_overs.iter().map(HandOver::next_at_ns).filter(|at| *at != u64::MAX);
        let earliest = links.chain(timers).chain(told).chain(starts).chain(apps).chain(hand_overs).min();
        earliest.map(|at| at.max(self.now_ns))
    }

    /// Goes to what happens next and lets it happen. False if nothing does before `end_ns`.
    pub fn step(&mut self, end_ns: u64) -> Result<bool, String> {
        let Some(at) = self.next_at_ns().filter(|at| *at <= end_ns) else { return Ok(false) };
        self.now_ns = at;
        self.steps += 1;
        for side in [0, 1] {
            self.deliver(side)?;
        }
        self.tell_too_big();
        self.start_pairs()?;
        for side in [0, 1] {
            self.serve(side)?;
            self.call(side, |tcp, now, sink| tcp.poll(now, sink));
            self.serve(side)?;
        }
        self.hand_over()?;
        self.look()
    }

    /// The first invariant that does not hold.
    fn look(&mut self) -> Result<bool, String> {
        self.told.append(&mut self.wire.told);
        if let Some(fault) = self.wire.fault.take() {
            return Err(fault);
        }
        for (side, tcp) in self.tcps.iter().enumerate() {
            tcp.audit().map_err(|fault| format!("host {side}: {fault}"))?;
        }
        if self.is_compared {
            self.digest_state();
        }
        Ok(true)
    }

    /// Everything that the hosts have counted; now and then, because it is slow, everything that they know of connections.
    fn digest_state(&mut self) {
        let mut hasher = DefaultHasher::new();
        self.wire.digest.hash(&mut hasher);
        for (side, tcp) in self.tcps.iter().enumerate() {
            tcp.counters().iter().for_each(|counted| counted.hash(&mut hasher));
            let ids = self.pairs.iter().filter_map(|pair| pair.apps[side].id);
            for id in ids.filter(|_| self.steps.is_multiple_of(8)) {
                format!("{:?} {:?}", tcp.facts(id), tcp.readiness(id)).hash(&mut hasher);
            }
        }
        self.wire.digest = hasher.finish();
    }

    /// Calls a stack with the link as its sink.
    pub fn call<T>(&mut self, side: usize, call: impl FnOnce(&mut Tcp, Instant, &mut dyn Output) -> T) -> T {
        let Self { wire, pairs, dice, now_ns, is_traced, tcps, .. } = self;
        let mut sink = Sink { side, now_ns: *now_ns, wire, pairs, dice, is_traced: *is_traced };
        call(&mut tcps[side], Instant::from_nanos(*now_ns), &mut sink)
    }

    fn deliver(&mut self, side: usize) -> Result<(), String> {
        while let Some(packet) = self.wire.links[1 - side].arrive(self.now_ns) {
            self.receive(side, &packet.addresses, &packet.bytes, packet.is_damaged)?;
            if self.dice.percent(self.plan.strangers) && self.now_ns < BEGIN_NS + self.plan.heal_ns {
                super::stranger::disturb(self, side)?;
            }
        }
        Ok(())
    }

    /// A segment reaches `side`.
    pub fn receive(
        &mut self,
        side: usize,
        addresses: &sidestep_wire::Addresses,
        bytes: &[u8],
        is_damaged: bool,
    ) -> Result<(), String> {
        let Ok(segment) = View::parse(bytes) else { return Ok(()) };
        let incoming = Incoming { addresses, segment, is_verified: false };
        let now = Instant::from_nanos(self.now_ns);
        let mut fault = None;
        // What the application takes in the frame is gathered, and checked against its stream behind the call.
        let mut lent: Vec<(ConnectionId, Vec<u8>)> = Vec::new();
        let takes: Vec<usize> = self.pairs.iter().map(|pair| pair.apps[side].plan.takes).collect();
        let owners = std::mem::take(&mut self.owners[side]);
        let received = self.call(side, |tcp, _, sink| {
            tcp.receive(now, &incoming, sink, &mut |id, bytes| {
                let Some(&pair) = owners.get(id.index()) else {
                    fault = Some("data for nobody was delivered");
                    return 0;
                };
                let count = bytes.len().min(takes[pair]);
                lent.push((id, bytes[..count].to_vec()));
                count
            })
        });
        self.owners[side] = owners;
        for (id, bytes) in lent {
            let pair = &mut self.pairs[self.owners[side][id.index()]];
            let key = pair.apps[1 - side].plan.key;
            let app = &mut pair.apps[side];
            app.take(key, &bytes).map_err(|fault| format!("host {side}: {fault}"))?;
        }
        if is_damaged && received != sidestep_stack::tcp::Received::Damaged {
            return Err(format!("host {side}: a damaged segment was believed: {received:?}"));
        }
        fault.map_or(Ok(()), |fault| Err(format!("host {side}: {fault}")))
    }

    fn tell_too_big(&mut self) {
        let now_ns = self.now_ns;
        let (due, later) = std::mem::take(&mut self.told).into_iter().partition(|told: &Told| told.at_ns <= now_ns);
        self.told = later;
        for told in due {
            self.call(told.side, |tcp, now, sink| tcp.packet_too_big(now, &told.flow, told.sequence, told.mtu, sink));
        }
    }

    fn start_pairs(&mut self) -> Result<(), String> {
        for number in 0..self.pairs.len() {
            let pair = &mut self.pairs[number];
            if pair.is_started || pair.start_ns > self.now_ns {
                continue;
            }
            pair.is_started = true;
            let opener = pair.opener;
            for side in [0, 1].into_iter().filter(|side| opener == 2 || opener == *side) {
                self.connect(number, side, opener == 2)?;
            }
        }
        Ok(())
    }

    fn connect(&mut self, number: usize, side: usize, at_once: bool) -> Result<(), String> {
        let port = PORT_FIRST + number as u16;
        let is_v6 = self.plan.is_v6;
        let local = SocketAddr::new(address(is_v6, side), port);
        let remote = SocketAddr::new(address(is_v6, 1 - side), if at_once { port } else { PORT });
        let options = self.tcps[side].config().options();
        let id = self.call(side, |tcp, now, sink| tcp.connect(now, local, remote, None, options, sink));
        let id = id.map_err(|error| format!("connect: {error}"))?;
        self.own(side, id, number);
        Ok(())
    }

    pub fn own(&mut self, side: usize, id: ConnectionId, number: usize) {
        let owners = &mut self.owners[side];
        owners.resize(owners.len().max(id.index() + 1), 0);
        owners[id.index()] = number;
        self.pairs[number].apps[side].begin(id);
    }

    /// Delivers events to the applications of `side`, and lets them act.
    fn serve(&mut self, side: usize) -> Result<(), String> {
        while let Some(event) = self.tcps[side].next_event() {
            match event {
                Event::Listener(_) => self.accept(side)?,
                Event::Connection(id) => {
                    let number = self.owners[side].get(id.index()).copied().ok_or("an event for nobody")?;
                    let app = &mut self.pairs[number].apps[side];
                    if app.id == Some(id) {
                        app.wake();
                    }
                }
            }
        }
        for number in 0..self.pairs.len() {
            if self.pairs[number].apps[side].next_at_ns() <= self.now_ns {
                self.act(number, side)?;
            }
            let app = &self.pairs[number].apps[side];
            if app.id.is_some() && !app.is_done() {
                self.act(number, side)?;
            }
        }
        Ok(())
    }

    fn accept(&mut self, side: usize) -> Result<(), String> {
        while let Ok(id) = self.tcps[side].accept(self.listeners[side]) {
            let flow = self.tcps[side].facts(id).map_err(|error| format!("accepted: {error}"))?.flow;
            let number = usize::from(flow.remote_port - PORT_FIRST);
            if self.pairs[number].apps[side].id.is_some() && self.plan.has_cookies {
                // What an old ACK says is a good cookie still; there is no state that knows better (RFC 4987).
                let closed = self.call(side, |tcp, now, sink| tcp.abort(now, id, sink));
                closed.map_err(|error| format!("abort: {error}"))?;
                continue;
            }
            if self.pairs[number].apps[side].id.is_some() {
                return Err(format!("host {side}: {flow} was accepted twice"));
            }
            self.own(side, id, number);
        }
        Ok(())
    }

    /// Lets an application act, with the link as its sink.
    fn act(&mut self, number: usize, side: usize) -> Result<(), String> {
        let key = self.pairs[number].apps[1 - side].plan.key;
        // The application stands aside while its stack may talk to the watches.
        let spare = App::new(self.pairs[number].apps[side].plan.clone());
        let mut app = std::mem::replace(&mut self.pairs[number].apps[side], spare);
        let numbers = u64::from(self.dice.number()) << 32 | u64::from(self.dice.number());
        let mut dice = Dice::Seed(numbers);
        let acted =
            self.call(side, |tcp, now, sink| app.act(&mut Desk { tcp, now, dice: &mut dice, output: sink }, key));
        self.pairs[number].apps[side] = app;
        acted.map_err(|fault| format!("host {side} connection {number}: {fault}"))
    }

    /// Releases all handles.
    pub fn close_all(&mut self) -> Result<(), String> {
        for number in 0..self.pairs.len() {
            self.pairs[number].is_started = true;
            for side in [0, 1] {
                let app = &mut self.pairs[number].apps[side];
                if let Some(id) = app.id.filter(|_| !app.is_closed) {
                    (app.is_closed, app.is_cut_short) = (true, true);
                    let closed = self.call(side, |tcp, now, sink| tcp.close(now, id, sink));
                    closed.map_err(|error| format!("close: {error}"))?;
                }
            }
        }
        Ok(())
    }
}

pub fn address(is_v6: bool, side: usize) -> IpAddr {
    match is_v6 {
        true => IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1 + side as u16]),
        false => IpAddr::from([192, 0, 2, 1 + side as u8]),
    }
}

/// The link's plan on the world's clock.
fn shifted(plan: &Plan, side: usize) -> super::plan::LinkPlan {
    let mut link = plan.links[side].clone();
    link.mtus[1].0 += BEGIN_NS;
    link.blackout_ns = (link.blackout_ns.0 + BEGIN_NS, link.blackout_ns.1 + BEGIN_NS);
    link
}

/// The application's plan on the world's clock.
fn begun(mut app: super::plan::AppPlan) -> super::plan::AppPlan {
    use super::plan::End;
    app.end = match app.end {
        End::CloseAt(at) => End::CloseAt(BEGIN_NS + at),
        End::AbortAt(at) => End::AbortAt(BEGIN_NS + at),
        End::ShutBothAt(at) => End::ShutBothAt(BEGIN_NS + at),
        other => other,
    };
    app
}
