//! The settings of a session. Names and defaults are QuickFIX's where it has one; the name is in quotes.

use super::identity::SessionId;
use crate::schedule::Schedule;
use crate::value::Precision;
use sidestep_sys::Problem;
use std::time::Duration;

/// The supported values of BeginString (8).
pub(crate) const BEGIN_STRINGS: [&str; 6] = ["FIX.4.0", "FIX.4.1", "FIX.4.2", "FIX.4.3", "FIX.4.4", "FIXT.1.1"];

/// The side that sends the first Logon. "ConnectionType"
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Connects, and sends the first Logon.
    Initiator,
    /// Is connected to, and answers it.
    Acceptor,
}

/// The limit of inbound messages that are answered. Ours; QuickFIX has no such limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Throttle {
    /// Application messages allowed within `window`.
    pub messages: u32,
    /// Length of the window.
    pub window: Duration,
}

/// The condition for cancelling orders because the counterparty is gone. Values of CancelOnDisconnect as venues use
/// them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CancelOn {
    /// Never.
    #[default]
    Nothing,
    /// The connection ended without a Logout.
    Disconnect,
    /// A Logout.
    Logout,
    /// Either.
    Both,
}

/// Everything about one session but its dictionaries and its transport.
#[derive(Debug, Clone)]
pub struct SessionSettings {
    /// The identity of the session.
    pub id: SessionId,
    /// Our side of it.
    pub role: Role,
    /// Seconds in HeartBtInt (108) of the Logon; an acceptor takes what the initiator asks for. "HeartBtInt", 30
    pub heart_bt_int_s: u32,
    /// The longest HeartBtInt that an acceptor takes. Ours, 1 h
    pub heart_bt_int_max_s: u32,
    /// A TestRequest leaves after this many HeartBtInt without a message. QuickFIX's constant, 1.2
    pub test_request_delay: f64,
    /// The connection ends after this many HeartBtInt without a message. QuickFIX's constant, 2.4
    pub heartbeat_timeout: f64,
    /// A Logout leaves before that end. "SendLogoutBeforeDisconnectFromTimeout", no
    pub logout_before_timeout: bool,
    /// "LogonTimeout", 10 s
    pub logon_timeout: Duration,
    /// "LogoutTimeout", 2 s
    pub logout_timeout: Duration,
    /// "ResetOnLogon", no
    pub reset_on_logon: bool,
    /// "ResetOnLogout", no
    pub reset_on_logout: bool,
    /// "ResetOnDisconnect", no
    pub reset_on_disconnect: bool,
    /// "RefreshOnLogon", no
    pub refresh_on_logon: bool,
    /// "CheckCompID", yes
    pub check_comp_id: bool,
    /// "CheckLatency", yes
    pub check_latency: bool,
    /// The largest difference between SendingTime (52) and our clock. "MaxLatency", 120 s
    pub max_latency: Duration,
    /// OrigSendingTime (122) must be there when PossDupFlag (43) is. "RequiresOrigSendingTime", yes
    pub requires_orig_sending_time: bool,
    /// No: messages are taken whatever their number. "ValidateSequenceNumbers", yes
    pub validate_sequence_numbers: bool,
    /// Another ResendRequest for each message beyond a gap. "SendRedundantResendRequests", no
    pub send_redundant_resend_requests: bool,
    /// Largest range of one ResendRequest, 0 for no limit. "ResendRequestChunkSize", 0
    pub resend_request_chunk_size: u64,
    /// ResendRequests name the last message instead of 0. "ClosedResendInterval", no
    pub closed_resend_interval: bool,
    /// NextExpectedMsgSeqNum (789) in Logons. "SendNextExpectedMsgSeqNum" or "EnableNextExpectedMsgSeqNum", no
    pub next_expected_msg_seq_num: bool,
    /// LastMsgSeqNumProcessed (369) in every header. "EnableLastMsgSeqNumProcessed", no
    pub last_msg_seq_num_processed: bool,
    /// Messages are kept for resending, else only their numbers are. "PersistMessages", yes
    pub persist_messages: bool,
    /// `None`: milliseconds where the version has them. "TimestampPrecision"
    pub precision: Option<Precision>,
    /// DefaultApplVerID (1137) of a FIXT session: `7` for FIX 5.0, `8` SP1, `9` SP2. "DefaultApplVerID"
    pub default_appl_ver_id: String,
    /// Username (553) of the Logon.
    pub username: String,
    /// Password (554) of the Logon.
    pub password: String,
    /// True to reject invalid messages, else they are processed and counted. "RejectInvalidMessage", yes
    pub reject_invalid_message: bool,
    /// Rejects and Logouts say all that QuickFIX/J's say: RefTagID (371) of a SendingTime or NewSeqNo that is wrong, and Text (58)
    /// of the Logout behind a Reject. QuickFIX's say less. "RejectDetails", ours, yes
    pub reject_details: bool,
    /// Most fields of a message; one that has more is rejected. "MaxMessageFields", ours, 4096
    pub message_fields_max: usize,
    /// Messages sent while the session is not logged on are stored, and sent when the counterparty requests them, as QuickFIX does.
    /// An order that leaves an hour late is seldom wanted: ours, no
    pub send_when_logged_off: bool,
    /// The times at which the session is open: StartTime, EndTime, StartDay, EndDay, Weekdays, TimeZone, NonStopSession
    pub schedule: Schedule,
    /// The times at which a logon is allowed, if not whenever the session is open. "LogonTime", "LogoutTime",
    /// "LogonDay", "LogoutDay"
    pub logon_schedule: Option<Schedule>,
    /// Application messages that the counterparty may send. Ours, no limit
    pub throttle: Option<Throttle>,
    /// The condition for asking the application to cancel orders. Ours, never
    pub cancel_on: CancelOn,
    /// The delay after that, within which the counterparty may return. Ours, 0
    pub cancel_after: Duration,
    /// Bytes that wait to be written before the application is refused, at most 64 MiB. At twice as many reading stops. Ours,
    /// 128 KiB
    pub output_bytes_max: usize,
    /// A consumer that takes nothing for so long while the application is refused is disconnected. Ours, 5 s
    pub slow_consumer_after: Duration,
    /// Bytes of messages beyond a gap that are kept until it is filled. Ours, 1 MiB
    pub early_bytes_max: usize,
    /// ResendRequests answered a second; more wait. Ours, 100
    pub resend_requests_per_second: u32,
    /// Garbled messages on one connection after which it ends, 0 for no limit. Ours, 1000
    pub garbled_max: u64,
}

/// Longest HeartBtInt that makes sense: a day is the longest session's unit.
const HEART_BT_INT_LIMIT_S: u32 = 86_400;

/// CompIDs are names; longer ones make headers that do not fit the templates.
const IDENTIFIER_BYTES_MAX: usize = 128;

/// Fewest and most fields of a message that may be chosen: a header and a Logon fit; what a session takes of memory stays bounded.
const MESSAGE_FIELDS_MIN: usize = 64;
const MESSAGE_FIELDS_LIMIT: usize = 1 << 20;

/// Fewest bytes of output at which an application may be refused: whenever some wait.
const OUTPUT_BYTES_MIN: usize = 1;
/// Most of them: a session has memory for three times as many.
const OUTPUT_BYTES_LIMIT: usize = 64 << 20;

impl SessionSettings {
    /// QuickFIX's defaults.
    pub fn new(role: Role, id: SessionId) -> Self {
        let default_appl_ver_id = if id.is_fixt() { "9" } else { "" };
        Self {
            id,
            role,
            heart_bt_int_s: 30,
            heart_bt_int_max_s: 3600,
            test_request_delay: 1.2,
            heartbeat_timeout: 2.4,
            logout_before_timeout: false,
            logon_timeout: Duration::from_secs(10),
            logout_timeout: Duration::from_secs(2),
            reset_on_logon: false,
            reset_on_logout: false,
            reset_on_disconnect: false,
            refresh_on_logon: false,
            check_comp_id: true,
            check_latency: true,
            max_latency: Duration::from_secs(120),
            requires_orig_sending_time: true,
            validate_sequence_numbers: true,
            send_redundant_resend_requests: false,
            resend_request_chunk_size: 0,
            closed_resend_interval: false,
            next_expected_msg_seq_num: false,
            last_msg_seq_num_processed: false,
            persist_messages: true,
            precision: None,
            default_appl_ver_id: default_appl_ver_id.to_owned(),
            username: String::new(),
            password: String::new(),
            reject_invalid_message: true,
            reject_details: true,
            message_fields_max: crate::decode::FIELDS_MAX,
            send_when_logged_off: false,
            schedule: Schedule::non_stop(),
            logon_schedule: None,
            throttle: None,
            cancel_on: CancelOn::Nothing,
            cancel_after: Duration::ZERO,
            output_bytes_max: 128 << 10,
            slow_consumer_after: Duration::from_secs(5),
            early_bytes_max: 1 << 20,
            resend_requests_per_second: 100,
            garbled_max: 1000,
        }
    }

    /// Returns whether a session can be made of it.
    ///
    /// # Errors
    /// Names that cannot stand in a message, a version that does not exist, times without meaning.
    pub fn check(&self) -> Result<(), Problem> {
        if !BEGIN_STRINGS.contains(&self.id.begin_string.as_str()) {
            let what = format!("BeginString={}", self.id.begin_string);
            let known = BEGIN_STRINGS.join(", ");
            return Err(Problem::usage(what, "no such version").next(format!("use one of {known}")));
        }
        self.check_names()?;
        let hb = self.heart_bt_int_s;
        if hb > HEART_BT_INT_LIMIT_S || (self.role == Role::Initiator && hb == 0) {
            let why = format!("it is not between 1 and {HEART_BT_INT_LIMIT_S} seconds");
            return Err(Problem::usage(format!("HeartBtInt={hb}"), why).next("30 is usual"));
        }
        let waiting = self.output_bytes_max;
        if !(OUTPUT_BYTES_MIN..=OUTPUT_BYTES_LIMIT).contains(&waiting) {
            let why = format!("it is not between {OUTPUT_BYTES_MIN} and {OUTPUT_BYTES_LIMIT} bytes");
            return Err(Problem::usage(format!("SlowConsumerBytes={waiting}"), why).next("131072 is usual"));
        }
        let fields = self.message_fields_max;
        if !(MESSAGE_FIELDS_MIN..=MESSAGE_FIELDS_LIMIT).contains(&fields) {
            let why = format!("it is not between {MESSAGE_FIELDS_MIN} and {MESSAGE_FIELDS_LIMIT}");
            return Err(Problem::usage(format!("MaxMessageFields={fields}"), why).next("4096 is usual"));
        }
        let ordered = 0.0 < self.test_request_delay && self.test_request_delay < self.heartbeat_timeout;
        if !ordered || !self.heartbeat_timeout.is_finite() {
            let what = "test request delay and heartbeat timeout";
            return Err(Problem::usage(what, "the second must be longer than the first").next("1.2 and 2.4 are usual"));
        }
        Ok(())
    }

    fn check_names(&self) -> Result<(), Problem> {
        let id = &self.id;
        let required = [("SenderCompID", &id.sender_comp_id), ("TargetCompID", &id.target_comp_id)];
        for (name, value) in required {
            if value.is_empty() {
                return Err(Problem::usage(name, "it is not set").next("every session needs one"));
            }
        }
        let all = required.into_iter().chain([
            ("SenderSubID", &id.sender_sub_id),
            ("SenderLocationID", &id.sender_location_id),
            ("TargetSubID", &id.target_sub_id),
            ("TargetLocationID", &id.target_location_id),
            ("DefaultApplVerID", &self.default_appl_ver_id),
            ("Username", &self.username),
            ("Password", &self.password),
        ]);
        for (name, value) in all {
            if value.bytes().any(|byte| byte < b' ') || value.len() > IDENTIFIER_BYTES_MAX {
                let why = format!("it has a control character or more than {IDENTIFIER_BYTES_MAX} bytes");
                return Err(Problem::usage(name, why).next("use another"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> SessionSettings {
        SessionSettings::new(Role::Initiator, SessionId::new("FIX.4.4", "A", "B"))
    }

    #[test]
    fn the_defaults_make_a_session() {
        assert!(settings().check().is_ok());
    }

    #[test]
    fn what_cannot_stand_in_a_message_is_refused() {
        let mut bad = settings();
        bad.id.sender_comp_id = "A\x01B".to_owned();
        assert!(bad.check().is_err());
        let mut bad = settings();
        bad.id.target_comp_id.clear();
        assert!(bad.check().is_err());
        let mut bad = settings();
        bad.id.begin_string = "FIX.3.9".to_owned();
        assert!(bad.check().is_err());
    }

    #[test]
    fn a_slow_consumer_is_told_by_bytes_that_there_is_memory_for() {
        for output_bytes_max in [0, (64 << 20) + 1, usize::MAX] {
            assert!(SessionSettings { output_bytes_max, ..settings() }.check().is_err(), "{output_bytes_max}");
        }
        assert!(SessionSettings { output_bytes_max: 1 << 20, ..settings() }.check().is_ok());
    }

    #[test]
    fn times_without_meaning_are_refused() {
        for (heart_bt_int_s, delay, timeout) in [(0, 1.2, 2.4), (30, 2.4, 1.2), (30, 0.0, 1.0), (30, 1.0, f64::NAN)] {
            let bad =
                SessionSettings { heart_bt_int_s, test_request_delay: delay, heartbeat_timeout: timeout, ..settings() };
            assert!(bad.check().is_err(), "{heart_bt_int_s} {delay} {timeout}");
        }
    }
}
