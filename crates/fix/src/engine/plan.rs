//! The plan of a session: its settings, its store, the addresses that may connect to it.

use super::certificate::CertificateName;
use crate::clock::Now;
use crate::session::{Session, SessionId, SessionSettings, Validate};
use crate::store::journal::{Journal, Options};
use crate::store::{AnyStore, MemoryStore, Store};
use rustix::fs::{Access, AtFlags, CWD, accessat};
use rustls::pki_types::CertificateDer;
use sidestep_sys::Problem;
use std::fmt::Write;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The number of sessions made from templates that an engine holds at a time: memory and descriptors, against made-up names.
pub const DYNAMIC_MAX: usize = 1000;

/// The store of a session's numbers and messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum StorePlan {
    /// In this process only.
    #[default]
    Memory,
    /// In a journal; each session has a folder of its own below this one.
    Journal {
        /// The folder of all sessions. "FileStorePath"
        folder: PathBuf,
        /// The durability of a commit, and the size of segments.
        options: Options,
    },
}

impl StorePlan {
    /// Returns whether sessions can be kept there.
    fn check(&self, setting: &str) -> Result<(), Problem> {
        let Self::Journal { folder, .. } = self else { return Ok(()) };
        let named = folder.ancestors().map(|path| if path.as_os_str().is_empty() { Path::new(".") } else { path });
        // Where it is missing it will be made.
        let Some(there) = named.into_iter().find(|path| path.exists()) else { return Ok(()) };
        let access = Access::WRITE_OK | Access::EXEC_OK;
        let fault = match accessat(CWD, there, access, AtFlags::EACCESS) {
            _ if !there.is_dir() => io::ErrorKind::NotADirectory.into(),
            Err(error) => io::Error::from(error),
            Ok(()) => return Ok(()),
        };
        Err(Problem::failed(
            format!("cannot keep sessions in {}", folder.display()),
            format!("{}: {fault}", there.display()),
        )
        .next(format!("choose a folder that this user may write to ({setting})")))
    }

    /// Opens a damaged journal, too, if `yes` says so or the plan has said so before.
    pub fn accept_loss(&mut self, yes: bool) {
        if let Self::Journal { options, .. } = self {
            options.accept_loss |= yes;
        }
    }
}

/// Everything that a session of an engine is made of.
#[derive(Clone)]
pub struct SessionPlan {
    /// The session's own settings.
    pub settings: SessionSettings,
    /// Its store.
    pub store: StorePlan,
    /// Checks messages by a dictionary; `None` for the session layer alone.
    pub validator: Option<Arc<dyn Validate>>,
    /// Hosts that may connect; empty for all. "AllowedRemoteAddresses"
    pub allowed: Vec<AllowedAddress>,
    /// Certificates of a counterparty that connects, one of which it must show; empty for any, and none.
    /// "ClientCertificateNames"
    pub certificates: Vec<CertificateName>,
    /// The longest message taken, bytes.
    pub message_bytes_max: usize,
    /// Sessions that templates keep in the folder of the store: a Logon by a name that is not yet there is refused beyond them.
    /// "MaxDynamicSessions", [`KEPT_MAX_DEFAULT`]
    pub kept_max: usize,
}

/// The default limit of sessions that templates keep on the disk: as many as exist at a time. Each takes two segments, 8 MiB.
pub const KEPT_MAX_DEFAULT: usize = DYNAMIC_MAX;

impl SessionPlan {
    /// A session kept in memory, with every other setting as it is by default.
    pub fn new(settings: SessionSettings) -> Self {
        Self {
            settings,
            store: StorePlan::Memory,
            validator: None,
            allowed: Vec::new(),
            certificates: Vec::new(),
            message_bytes_max: crate::frame::MESSAGE_BYTES_MAX,
            kept_max: KEPT_MAX_DEFAULT,
        }
    }

    /// Checks that the session can be kept, as far as is visible without making anything: a template would find out when a counterparty logs
    /// on. `setting` is what names the folder.
    ///
    /// # Errors
    /// It cannot.
    pub fn check_store(&self, setting: &str) -> Result<(), Problem> {
        // What is there already may be written where nothing can be made.
        if self.is_kept() { Ok(()) } else { self.store.check(setting) }
    }

    /// The same for another counterparty.
    pub(super) fn for_session(&self, id: SessionId) -> Self {
        let mut settings = SessionSettings { id, ..self.settings.clone() };
        if settings.id.is_fixt() && settings.default_appl_ver_id.is_empty() {
            settings.default_appl_ver_id = SessionSettings::new(settings.role, settings.id.clone()).default_appl_ver_id;
        }
        Self { settings, ..self.clone() }
    }

    /// Opens the store and makes the session.
    pub(super) fn open(&self) -> Result<Session<AnyStore>, Problem> {
        // Before anything is made on the disk.
        self.settings.check()?;
        let now = Now::system();
        let store = match &self.store {
            StorePlan::Memory => AnyStore::Memory(MemoryStore::new(now.utc_ns)),
            StorePlan::Journal { folder, options } => self.open_journal(folder, *options, now.utc_ns)?,
        };
        Session::new(self.settings.clone(), store, self.validator.clone(), now)
    }

    /// The same in memory, for now: see [`SessionPlan::keep`].
    pub(super) fn try_out(&self) -> Result<Session<AnyStore>, Problem> {
        let now = Now::system();
        let store = AnyStore::Memory(MemoryStore::new(now.utc_ns));
        Session::new(self.settings.clone(), store, self.validator.clone(), now)
    }

    /// A session that is to be refused: it keeps nothing.
    pub(super) fn refused(&self) -> Result<Session<AnyStore>, Problem> {
        let now = Now::system();
        let store = AnyStore::Memory(MemoryStore::with_bytes(now.utc_ns, 0));
        Session::new(self.settings.clone(), store, self.validator.clone(), now)
    }

    /// The reason for that refusal.
    pub(super) fn too_many(&self, peer: &str) -> Problem {
        let folder = match &self.store {
            StorePlan::Journal { folder, .. } => folder.display().to_string(),
            StorePlan::Memory => "memory".to_owned(),
        };
        let why = format!("{} sessions are kept in {folder}, as many as MaxDynamicSessions allows", self.kept_max);
        Problem::failed(format!("session {} from {peer} is refused", self.settings.id), why)
            .next("raise it in a file of settings (--cfg), or remove the folders of sessions that are not needed")
    }

    /// Returns whether there may be numbers of this session from an earlier time.
    pub(super) fn is_kept(&self) -> bool {
        match &self.store {
            StorePlan::Memory => false,
            StorePlan::Journal { folder, .. } => session_folder(folder, &self.settings.id).exists(),
        }
    }

    /// Gives a session that was tried out the store that it is to have, with what it has sent and received so far. Where that
    /// fails nothing is left of it. A journal that cannot be opened is left as it is: it may be another process's by now.
    pub(super) fn keep(&self, session: &mut Session<AnyStore>) -> Result<(), Problem> {
        let StorePlan::Journal { folder, options } = &self.store else { return Ok(()) };
        let mut journal = self.open_journal(folder, *options, session.store().created_utc_ns())?;
        if let Err(problem) = session.store_mut().copy_to(&mut journal) {
            // It is locked by us as long as it is open.
            let _ = std::fs::remove_dir_all(session_folder(folder, &self.settings.id));
            return Err(problem);
        }
        *session.store_mut() = journal;
        Ok(())
    }

    fn open_journal(&self, folder: &Path, options: Options, utc_ns: i64) -> Result<AnyStore, Problem> {
        let folder = session_folder(folder, &self.settings.id);
        let name = self.settings.id.to_string();
        let (journal, recovery) = Journal::open(&folder, &name, options, utc_ns)?;
        for line in recovery.words(&journal) {
            sidestep_sys::problem::say(format!("{name}: {line}"));
        }
        Ok(AnyStore::Journal(Box::new(journal)))
    }

    /// Returns whether who shows this certificate may log on to the session.
    pub(super) fn is_certified(&self, shown: Option<&CertificateDer<'_>>) -> bool {
        let is_one = |shown| self.certificates.iter().any(|wanted| wanted.is_of(shown));
        self.certificates.is_empty() || shown.is_some_and(is_one)
    }

    pub(super) fn allows(&self, peer: Option<IpAddr>) -> bool {
        peer.is_none_or(|peer| self.allowed.is_empty() || self.allowed.iter().any(|allowed| allowed.holds(peer)))
    }
}

/// The folder of one session. What may not stand in a file's name is written as `%XX`.
pub fn session_folder(folder: &Path, id: &SessionId) -> PathBuf {
    let mut name = String::new();
    for byte in id.to_string().replace("->", "-").replace(':', "-").bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-' => name.push(byte as char),
            _ => {
                let _ = write!(name, "%{byte:02X}");
            }
        }
    }
    folder.join(name)
}

/// A host, or all hosts of a network: `192.0.2.7` or `192.0.2.0/24`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllowedAddress {
    address: IpAddr,
    bits: u32,
}

impl AllowedAddress {
    /// Reads `192.0.2.7`, `192.0.2.0/24` or the same of IPv6.
    pub fn parse(text: &str) -> Option<Self> {
        let (address, bits) = match text.trim().split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse().ok()?)),
            None => (text.trim(), None),
        };
        let address: IpAddr = address.trim_start_matches('/').parse().ok()?;
        let longest = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(longest);
        (bits <= longest).then_some(Self { address: address.to_canonical(), bits })
    }

    /// Returns whether the host is meant.
    pub fn holds(&self, host: IpAddr) -> bool {
        match (self.address, host.to_canonical()) {
            (IpAddr::V4(ours), IpAddr::V4(theirs)) => {
                let mask = u32::MAX.checked_shl(32 - self.bits).unwrap_or(0);
                ours.to_bits() & mask == theirs.to_bits() & mask
            }
            (IpAddr::V6(ours), IpAddr::V6(theirs)) => {
                let mask = u128::MAX.checked_shl(128 - self.bits).unwrap_or(0);
                ours.to_bits() & mask == theirs.to_bits() & mask
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_networks() {
        let holds = |network: &str, host: &str| AllowedAddress::parse(network).unwrap().holds(host.parse().unwrap());
        assert!(holds("192.0.2.7", "192.0.2.7") && !holds("192.0.2.7", "192.0.2.8"));
        assert!(holds("192.0.2.7", "::ffff:192.0.2.7"), "IPv4 that came to a socket of IPv6");
        assert!(holds("192.0.2.0/24", "192.0.2.99") && !holds("192.0.2.0/24", "192.0.3.1"));
        assert!(holds("0.0.0.0/0", "8.8.8.8") && !holds("0.0.0.0/0", "::1"));
        assert!(holds("2001:db8::/32", "2001:db8:1::5"));
        assert!(AllowedAddress::parse("192.0.2.0/33").is_none() && AllowedAddress::parse("host").is_none());
    }

    #[test]
    fn sessions_have_folders_of_their_own() {
        let mut id = SessionId::new("FIX.4.4", "A/..", "B B");
        id.qualifier = "Q".into();
        let folder = session_folder(Path::new("/store"), &id);
        assert_eq!(folder, Path::new("/store/FIX.4.4-A%2F..-B%20B-Q"));
    }
}
