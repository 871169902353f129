//! Settings of sessions: QuickFIX's `.cfg` as it is, or the same as TOML.
//!
//! A `.cfg` file is `[DEFAULT]` and any number of `[SESSION]`, each with lines of `Key=Value`; a session inherits the
//! keys that it does not set. The keys are those of QuickFIX, QuickFIX/J and quickfixgo ([`keys`]), and a few of ours.
//! [`Config::notes`] names keys without an effect here, with their meaning, and unknown keys.
//!
//! As TOML the keys are written in snake_case, in a table `[default]` and an array of tables `[[session]]`:
//!
//! ```toml
//! [default]
//! connection_type = "acceptor"
//! socket_accept_port = 9876
//! [[session]]
//! begin_string = "FIX.4.4"
//! sender_comp_id = "EXCHANGE"
//! target_comp_id = "CLIENT"
//! ```

mod build;
mod cfg;
mod dictionaries;
mod fields;
pub mod keys;
mod place;
mod toml;

pub use dictionaries::{Dictionaries, read as read_dictionary};

use crate::engine::{Destinations, Endpoint, SessionPlan, SocketOptions, TlsSettings};
use sidestep_sys::Problem;
use std::path::{Path, PathBuf};

/// The longest file of settings, bytes: some thousand sessions.
pub const FILE_BYTES_MAX: u64 = 4 << 20;

/// The content of a settings file.
#[derive(Clone, Default)]
pub struct Config {
    /// The sessions, in the order of the file.
    pub sessions: Vec<SessionConfig>,
    /// Keys that do nothing, and what that means, one line each.
    pub notes: Vec<String>,
}

/// One session of a file.
#[derive(Clone)]
pub struct SessionConfig {
    /// The plan of the session. Its validator is still to be made, as `dictionary` describes.
    pub plan: SessionPlan,
    /// The place where it meets its counterparty.
    pub place: Place,
    /// True for a template of sessions that are made when they log on. "AcceptorTemplate", "DynamicSessions"
    pub is_template: bool,
    /// The dictionary that checks its messages, and its strictness.
    pub dictionary: DictionaryConfig,
}

/// The place where a session meets its counterparty.
#[derive(Clone, Debug)]
pub enum Place {
    /// An acceptor's acceptor.
    Listen {
        /// The endpoint.
        endpoint: Endpoint,
        /// TLS, if it is wanted.
        tls: Option<TlsSettings>,
        /// Options of the connections' sockets.
        options: SocketOptions,
    },
    /// An initiator's hosts.
    Connect(Destinations),
}

/// The dictionary that checks a session's messages, and its strictness. Names and defaults are QuickFIX's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DictionaryConfig {
    /// "UseDataDictionary", yes
    pub use_dictionary: bool,
    /// "DataDictionary": QuickFIX's XML; our own tables if none is given.
    pub data: Option<PathBuf>,
    /// "TransportDataDictionary", for FIXT.1.1
    pub transport: Option<PathBuf>,
    /// "AppDataDictionary", for FIXT.1.1
    pub application: Option<PathBuf>,
    /// "ValidateFieldsOutOfOrder", yes
    pub fields_out_of_order: bool,
    /// "ValidateFieldsHaveValues", yes
    pub fields_have_values: bool,
    /// "ValidateUserDefinedFields", yes
    pub user_defined_fields: bool,
    /// "ValidateUnorderedGroupFields", yes
    pub unordered_group_fields: bool,
    /// "AllowUnknownMsgFields", no
    pub allow_unknown_fields: bool,
    /// "ValidateIncomingMessage", yes
    pub incoming: bool,
}

impl Default for DictionaryConfig {
    fn default() -> Self {
        Self {
            use_dictionary: true,
            data: None,
            transport: None,
            application: None,
            fields_out_of_order: true,
            fields_have_values: true,
            user_defined_fields: true,
            unordered_group_fields: true,
            allow_unknown_fields: false,
            incoming: true,
        }
    }
}

impl Config {
    /// Reads a file: TOML if its name ends in `.toml`, else QuickFIX's format.
    ///
    /// # Errors
    /// It cannot be read, or not be understood; the line is named.
    pub fn read(path: &Path) -> Result<Self, Problem> {
        let fail = |why: &dyn std::fmt::Display| {
            Problem::failed(format!("cannot read {}", path.display()), why)
                .next("name a file of settings that this user may read: QuickFIX's .cfg, or .toml")
        };
        let text = sidestep_sys::file::read_text(path, FILE_BYTES_MAX).map_err(|error| fail(&error))?;
        let name = path.display().to_string();
        if path.extension().is_some_and(|ending| ending == "toml") {
            Self::parse_toml(&text, &name)
        } else {
            Self::parse_cfg(&text, &name)
        }
    }

    /// Reads QuickFIX's format; `name` stands in errors.
    ///
    /// # Errors
    /// It cannot be understood; the line is named.
    pub fn parse_cfg(text: &str, name: &str) -> Result<Self, Problem> {
        build::config(&cfg::parse(text, name)?, name)
    }

    /// Reads TOML; `name` stands in errors.
    ///
    /// # Errors
    /// It cannot be understood; the line is named.
    pub fn parse_toml(text: &str, name: &str) -> Result<Self, Problem> {
        build::config(&toml::parse(text, name)?, name)
    }
}
