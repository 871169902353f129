//! The server of OUCH: connections log in as users, whose answers are kept, so that a client that comes back gets what it missed.

use super::account::{Account, LIVE_ALL_MAX, USER_SHIFT};
use super::message::{Answer, Request};
use crate::core::Core;
use crate::matching;
use crate::service::{Service, Time};
use crate::soup::{Connection, End, Login, Packet};

/// Users at most.
pub const USERS_MAX: usize = 256;

/// Connections at most, those that have not logged in included: half of the descriptors that a process has by default, so that
/// a crowd here does not keep FIX and GLIMPSE from theirs.
pub const CONNECTIONS_MAX: usize = 512;

/// The kind of owner that [`matching::Enter::owner`] has for orders of this server.
const OWNER: u64 = 1 << 62;

/// Settings of the server.
#[derive(Debug, Clone, Copy, Default)]
pub struct OuchSettings {
    /// Orders of a user are cancelled when its connection is lost.
    pub cancel_on_disconnect: bool,
    /// The password of all users, padded with spaces; `None`: any.
    pub password: Option<[u8; 10]>,
}

/// Counts of the server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OuchCounters {
    /// Connections that came.
    pub connections: u64,
    /// Connections that were closed at once, as there were too many.
    pub turned_away: u64,
    /// Logins.
    pub logins: u64,
    /// Logins that were refused.
    pub refused: u64,
    /// Messages of clients.
    pub messages: u64,
    /// Messages among them that are no OUCH, and were ignored.
    pub malformed: u64,
    /// Answers.
    pub answers: u64,
    /// Connections that ended for bytes that are no SoupBinTCP.
    pub garbage: u64,
    /// Connections that ended because they did not read.
    pub slow: u64,
}

/// A connection and the user that it has logged in as.
#[derive(Debug)]
struct Place {
    connection: Connection,
    account: Option<usize>,
}

/// The server.
#[derive(Debug)]
pub struct Ouch {
    session: [u8; 10],
    settings: OuchSettings,
    accounts: Vec<Account>,
    /// Live orders of all accounts.
    live: usize,
    places: Vec<Option<Place>>,
    answers: Vec<(u64, matching::Answer)>,
    has_ended: bool,
    counters: OuchCounters,
}

impl Ouch {
    /// A server of this session.
    pub fn new(session: [u8; 10], settings: OuchSettings) -> Self {
        let (accounts, places, answers) = (Vec::new(), Vec::new(), Vec::new());
        Self {
            session,
            settings,
            accounts,
            live: 0,
            places,
            answers,
            has_ended: false,
            counters: OuchCounters::default(),
        }
    }

    /// True if an answer with this owner is for [`Self::hear`].
    pub fn owns(owner: u64) -> bool {
        owner & OWNER != 0
    }

    /// Tells a user what happened to its order.
    pub fn hear(&mut self, time: Time, owner: u64, answer: &matching::Answer) {
        let user = ((owner & !OWNER) >> USER_SHIFT) as usize;
        if let Some(account) = self.accounts.get_mut(user) {
            self.counters.answers += 1;
            let before = account.live();
            account.hear(time.day_ns, owner as u32, answer);
            self.live = self.live + account.live() - before;
        }
    }

    /// What it has done.
    pub fn counters(&self) -> OuchCounters {
        self.counters
    }

    /// Live orders of all users.
    pub fn live(&self) -> usize {
        self.live
    }

    fn place(&mut self, connection: usize) -> Option<&mut Place> {
        self.places.get_mut(connection)?.as_mut()
    }

    /// Does what the packets that have come ask for.
    fn handle(&mut self, time: Time, connection: usize, core: &mut Core) {
        loop {
            let Some(place) = self.place(connection) else { return };
            match place.connection.packet() {
                Ok(None) => return,
                Ok(Some(Packet::Login(login))) => self.log_in(time, connection, &login),
                Ok(Some(Packet::Logout)) => place.connection.end(End::Left),
                Ok(Some(Packet::Data(payload))) => self.request(time, connection, payload.bytes(), core),
                Err(why) => {
                    place.connection.end(why);
                    self.counters.garbage += 1;
                }
            }
        }
    }

    fn log_in(&mut self, time: Time, connection: usize, login: &Login) {
        let granted = self.grant(time, login);
        let Some(Some(place)) = self.places.get_mut(connection) else { return };
        let account = match granted {
            Ok(account) => account,
            Err(reason) => {
                self.counters.refused += 1;
                return place.connection.refuse(reason);
            }
        };
        self.counters.logins += 1;
        let user = &mut self.accounts[account];
        user.cursor = if login.sequence == 0 { user.next() } else { login.sequence };
        place.account = Some(account);
        place.connection.accept(&self.session, user.cursor);
        let before = user.connection.replace(connection);
        if let Some(Some(before)) = before.filter(|before| *before != connection).map(|before| &mut self.places[before])
        {
            before.account = None;
            before.connection.end(End::Replaced);
        }
    }

    /// The account of a login, or the reason why it is refused.
    fn grant(&mut self, time: Time, login: &Login) -> Result<usize, u8> {
        let is_name = login.user.trim_ascii_end().iter().all(u8::is_ascii_alphanumeric) && login.user[0] != b' ';
        let is_known = self.settings.password.is_none_or(|password| password == login.password);
        if !is_name || !is_known || self.has_ended {
            return Err(b'A');
        }
        if !login.wants(&self.session) {
            return Err(b'S');
        }
        let found = self.accounts.iter().position(|account| account.user == login.user);
        let at = match found {
            Some(at) => at,
            None if self.accounts.len() == USERS_MAX => return Err(b'A'),
            None => {
                let owner = OWNER | (self.accounts.len() as u64) << USER_SHIFT;
                let mut account = Account::new(login.user, owner);
                account.say(Answer::system_event(time.day_ns, b'S'));
                self.accounts.push(account);
                let users = self.accounts.len();
                self.accounts.iter_mut().for_each(|account| account.share(users));
                self.accounts.len() - 1
            }
        };
        let account = &self.accounts[at];
        let can_resume = login.sequence == 0 || (account.first()..=account.next()).contains(&login.sequence);
        if can_resume { Ok(at) } else { Err(b'S') }
    }

    fn request(&mut self, time: Time, connection: usize, message: &[u8], core: &mut Core) {
        self.counters.messages += 1;
        let Some(account) = self.place(connection).and_then(|place| place.account) else { return };
        let Some(request) = Request::parse(message) else {
            self.counters.malformed += 1;
            return;
        };
        // What others did to this user's orders before counts before.
        self.fetch(time, core);
        let (has_room, before) = (self.live < LIVE_ALL_MAX, self.accounts[account].live());
        self.accounts[account].handle(time.day_ns, &request, has_room, core);
        self.live = self.live + self.accounts[account].live() - before;
        self.fetch(time, core);
    }

    /// Hands out the answers that are for this server's users, and leaves the others with the core.
    fn fetch(&mut self, time: Time, core: &mut Core) {
        let mut answers = std::mem::take(&mut self.answers);
        core.take_answers_of(Self::owns, &mut answers);
        for (owner, answer) in answers.drain(..) {
            self.hear(time, owner, &answer);
        }
        self.answers = answers;
    }

    /// Appends what the user has not got yet to what waits for its connection.
    fn fill(&mut self, connection: usize) {
        let Some(Some(place)) = self.places.get_mut(connection) else { return };
        let Some(account) = place.account.map(|account| &mut self.accounts[account]) else { return };
        if account.cursor < account.first() {
            self.counters.slow += 1;
            return place.connection.end(End::Slow);
        }
        while place.connection.has_room()
            && let Some(answer) = account.answer(account.cursor)
        {
            place.connection.sequenced(answer.bytes());
            account.cursor += 1;
        }
        if self.has_ended && account.cursor == account.next() {
            place.connection.end(End::EndOfSession);
        }
    }
}

impl Service for Ouch {
    fn accept(&mut self, time: Time) -> Option<usize> {
        self.counters.connections += 1;
        let free = self.places.iter().position(Option::is_none);
        let at = match free {
            Some(at) => at,
            None if self.places.len() == CONNECTIONS_MAX => {
                self.counters.turned_away += 1;
                return None;
            }
            None => {
                self.places.push(None);
                self.places.len() - 1
            }
        };
        self.places[at] = Some(Place { connection: Connection::new(time.mono_ns), account: None });
        Some(at)
    }

    fn room(&self, connection: usize) -> usize {
        self.places.get(connection).and_then(Option::as_ref).map_or(0, |place| place.connection.room())
    }

    fn receive(&mut self, time: Time, connection: usize, bytes: &[u8], core: &mut Core) {
        if let Some(place) = self.place(connection) {
            place.connection.push(time.mono_ns, bytes);
            self.handle(time, connection, core);
        }
    }

    fn output(&mut self, connection: usize) -> &[u8] {
        self.fill(connection);
        self.places.get(connection).and_then(Option::as_ref).map_or(&[], |place| place.connection.output())
    }

    fn sent(&mut self, time: Time, connection: usize, count: usize) {
        if let Some(place) = self.place(connection) {
            place.connection.sent(time.mono_ns, count);
        }
    }

    fn poll(&mut self, time: Time, connection: usize) -> Option<End> {
        let place = self.place(connection)?;
        place.connection.poll(time.mono_ns);
        place.connection.ending()
    }

    fn close(&mut self, time: Time, connection: usize, core: &mut Core) {
        let Some(place) = self.places.get_mut(connection).and_then(Option::take) else { return };
        let Some(account) = place.account else { return };
        self.accounts[account].connection = None;
        if self.settings.cancel_on_disconnect {
            self.fetch(time, core);
            self.accounts[account].cancel_all(time.day_ns, core);
            self.fetch(time, core);
        }
    }

    fn end(&mut self, time: Time) {
        if !std::mem::replace(&mut self.has_ended, true) {
            self.accounts.iter_mut().for_each(|account| account.say(Answer::system_event(time.day_ns, b'E')));
        }
        for place in self.places.iter_mut().flatten().filter(|place| place.account.is_none()) {
            place.connection.end(End::EndOfSession);
        }
    }
}
