//! A counterparty that sends anything, at any time, and what has to hold nevertheless.

use sidestep_fix::session::{
    Application, CancelOn, Outbox, Refusal, Role, Rules, Session, SessionId, SessionSettings, Throttle, Validate,
};
use sidestep_fix::store::{MemoryStore, Store};
use sidestep_fix::{Framer, Index, Message, Now};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Bytes that choose; zeros when there are no more.
struct Choices<'a>(&'a [u8]);

impl<'a> Choices<'a> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }
}

/// Answers orders, refuses what it does not know, and now and then logs out.
#[derive(Default)]
struct App {
    seen: u64,
}

impl Application for App {
    fn from_app(&mut self, message: &Message<'_, '_>, out: &mut dyn Outbox) -> Result<(), Refusal> {
        self.seen += 1;
        if message.msg_type() != b"D" {
            return Err(Refusal::UNSUPPORTED);
        }
        let order = message.required(11)?;
        drop(out.send(b"8", &mut |report| _ = report.bytes(11, order)));
        if order == b"bye" {
            out.logout("as you wish");
        }
        Ok(())
    }
}

const TAGS: [u32; 20] = [7, 11, 16, 34, 35, 36, 43, 45, 49, 52, 56, 97, 98, 108, 112, 115, 122, 123, 141, 789];
const VALUES: [&str; 16] =
    ["0", "1", "2", "3", "Y", "N", "-1", "18446744073709551615", "999999", "30", "US", "THEM", "bye", "x", "7", ""];
const TYPES: [&str; 12] = ["0", "1", "2", "3", "4", "5", "A", "D", "8", "j", "*", "AE"];

/// Bytes that one message may cause: a resend is the longest answer, and it stops when so much waits.
const OUTPUT_BYTES_MAX: usize = 256 << 10;

struct Host {
    session: Session<MemoryStore>,
    app: App,
    framer: Framer,
    index: Index,
    now: Now,
    numbers: (u64, u64, u64),
}

fn rules() -> Rules {
    static RULES: OnceLock<Rules> = OnceLock::new();
    RULES.get_or_init(|| Rules::standard("FIX.4.4", "").expect("it is a version")).clone()
}

/// Plays the input against one session.
pub(crate) fn run(input: &[u8]) -> Result<(), String> {
    let mut choices = Choices(input);
    let mut host = Host::new(&mut choices);
    while !choices.0.is_empty() {
        host.step(&mut choices);
        host.check()?;
    }
    Ok(())
}

impl Host {
    fn new(choices: &mut Choices<'_>) -> Self {
        let flags = choices.byte();
        let role = if flags & 1 == 0 { Role::Acceptor } else { Role::Initiator };
        let mut settings = SessionSettings::new(role, SessionId::new("FIX.4.4", "US", "THEM"));
        settings.next_expected_msg_seq_num = flags & 2 != 0;
        settings.last_msg_seq_num_processed = flags & 4 != 0;
        settings.resend_request_chunk_size = u64::from(flags >> 3 & 1) * 2;
        settings.validate_sequence_numbers = flags & 16 == 0;
        settings.reset_on_disconnect = flags & 32 != 0;
        settings.send_when_logged_off = flags & 64 != 0;
        settings.early_bytes_max = 1000;
        settings.resend_requests_per_second = 3;
        settings.cancel_on = CancelOn::Both;
        settings.throttle = (flags & 128 != 0).then_some(Throttle { messages: 5, window: Duration::from_secs(1) });
        let now = Now { utc_ns: 1_709_899_200_000_000_000, mono_ns: 5 };
        let rules = (choices.byte() & 1 == 0).then(|| Arc::new(rules()) as Arc<dyn Validate>);
        let store = MemoryStore::with_bytes(now.utc_ns, 10_000);
        let session = Session::new(settings, store, rules, now).expect("the settings are good");
        let (framer, index) = (Framer::new(4096), Index::new(64));
        let mut host = Self { session, app: App::default(), framer, index, now, numbers: (1, 1, 0) };
        host.session.connected(now, &mut host.app);
        host
    }

    fn step(&mut self, choices: &mut Choices<'_>) {
        match choices.byte() % 12 {
            0..6 => {
                let message = self.message(choices);
                self.receive(&message);
            }
            6 => {
                let count = usize::from(choices.byte());
                let bytes = choices.bytes(count).to_vec();
                self.receive(&bytes);
            }
            7 => self.pass(u64::from(choices.byte()) * 100_000_000),
            8 => drop(self.session.send(b"D", self.now, |order| _ = order.str(11, "own"))),
            9 => {
                self.session.disconnected(self.now, &mut self.app);
                self.framer.clear();
                self.session.connected(self.now, &mut self.app);
            }
            10 => self.session.logout("x", self.now, &mut self.app),
            _ => drop(self.session.reset(self.now, &mut self.app)),
        }
        // Sometimes the counterparty does not read.
        if !choices.byte().is_multiple_of(4) {
            let waiting = self.session.output().len();
            self.session.sent(waiting, self.now);
        }
    }

    /// A message that the framer and the decoder take, with a number near the expected one and some fields of any kind.
    fn message(&self, choices: &mut Choices<'_>) -> Vec<u8> {
        let near = u64::from(choices.byte() % 8);
        let seq = self.session.store().next_inbound().saturating_sub(3).saturating_add(near);
        let msg_type = TYPES[usize::from(choices.byte()) % TYPES.len()];
        let time = {
            let mut text = [0; 27];
            let length = self.now.utc().write(sidestep_fix::value::Precision::Millis, &mut text);
            String::from_utf8_lossy(&text[..length]).into_owned()
        };
        let mut body = format!("35={msg_type}\x0134={seq}\x0149=THEM\x0152={time}\x0156=US\x01");
        if msg_type == "A" {
            body.push_str("98=0\x01108=30\x01");
        }
        for _ in 0..choices.byte() % 5 {
            let tag = TAGS[usize::from(choices.byte()) % TAGS.len()];
            let value = VALUES[usize::from(choices.byte()) % VALUES.len()];
            body.push_str(&format!("{tag}={value}\x01"));
        }
        let front = format!("8=FIX.4.4\x019={}\x01{body}", body.len());
        let sum = front.bytes().fold(0_u8, |sum, byte| sum.wrapping_add(byte));
        format!("{front}10={sum:03}\x01").into_bytes()
    }

    fn receive(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() && self.session.ending().is_none() {
            let taken = self.framer.push(rest);
            rest = &rest[taken..];
            self.process();
            if taken == 0 {
                return;
            }
        }
    }

    fn process(&mut self) {
        while self.session.ending().is_none() {
            let decoded = match self.framer.next() {
                Ok(None) => return,
                Ok(Some(raw)) => self.index.decode(raw),
                Err(garbled) => Err(garbled),
            };
            match decoded {
                Ok(message) => self.session.on_message(&message, self.now, &mut self.app),
                Err(garbled) => self.session.on_garbled(garbled, self.now, &mut self.app),
            }
        }
    }

    fn pass(&mut self, ns: u64) {
        self.now.mono_ns += ns;
        self.now.utc_ns += i64::try_from(ns).expect("it is short");
        self.session.on_timer(self.now, &mut self.app);
    }

    fn check(&mut self) -> Result<(), String> {
        if self.session.output().len() > OUTPUT_BYTES_MAX {
            return Err(format!("{} bytes wait", self.session.output().len()));
        }
        let resets = self.session.counters().resets;
        let store = self.session.store();
        let numbers = (store.next_outbound(), store.next_inbound(), resets);
        let fell = numbers.0 < self.numbers.0 || (numbers.1 < self.numbers.1 && resets == 0);
        if fell && resets == self.numbers.2 {
            return Err(format!("numbers went from {:?} to {numbers:?}", self.numbers));
        }
        self.numbers = numbers;
        // All due work is done: a driver that waits for the deadline must not loop without a wait.
        self.session.on_timer(self.now, &mut self.app);
        match self.session.next_deadline() {
            Some(due) if due <= self.now.mono_ns && self.session.ending().is_none() => {
                Err(format!("due at {due}, now {}: {:?}", self.now.mono_ns, self.session.phase()))
            }
            _ => Ok(()),
        }
    }
}
