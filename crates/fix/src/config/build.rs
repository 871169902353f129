//! From a file's sections to sessions.

use super::fields::{Fields, Raw, Section};
use super::keys::{Effect, effect};
use super::{Config, DictionaryConfig, SessionConfig, place};
use crate::engine::{SessionPlan, StorePlan};
use crate::schedule::{Schedule, ScheduleText};
use crate::session::{CancelOn, Role, SessionId, SessionSettings, Throttle};
use crate::store::journal::{Durability, Options, SEGMENT_BYTES_DEFAULT, Writing};
use crate::value::Precision;
use sidestep_sys::Problem;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

pub(super) fn config(raw: &Raw, file: &str) -> Result<Config, Problem> {
    let mut config = Config { sessions: Vec::new(), notes: notes(raw, file) };
    let mut names = BTreeSet::new();
    for section in &raw.sessions {
        let session = session(&Fields { file, session: section, default: &raw.default })?;
        let id = &session.plan.settings.id;
        if !names.insert(id.clone()) {
            return Err(Problem::usage(
                format!("{file}, line {}", section.line),
                format!("there are two sessions {id}"),
            )
            .next("give them different names, or a SessionQualifier"));
        }
        config.sessions.push(session);
    }
    if config.sessions.is_empty() {
        return Err(Problem::usage(file.to_owned(), "it has no session").next("add a section [SESSION]"));
    }
    Ok(config)
}

/// One line for each key without effect.
fn notes(raw: &Raw, file: &str) -> Vec<String> {
    let sections: Vec<&Section> = std::iter::once(&raw.default).chain(&raw.sessions).collect();
    let entries = sections.into_iter().flat_map(|section| &section.entries);
    let note = |(key, line): (&str, usize)| {
        let place = if line == 0 { file.to_owned() } else { format!("{file}, line {line}") };
        match effect(key) {
            Some(Effect::Full(_)) => None,
            Some(Effect::None(what)) => Some(format!("{place}: {key} has no effect: it {what}")),
            None => Some(format!("{place}: {key} is not known and has no effect")),
        }
    };
    entries.filter_map(|entry| note((&entry.key, entry.line))).collect()
}

fn session(fields: &Fields<'_>) -> Result<SessionConfig, Problem> {
    let role = match fields.text("ConnectionType") {
        Some(text) if text.eq_ignore_ascii_case("initiator") => Role::Initiator,
        Some(text) if text.eq_ignore_ascii_case("acceptor") => Role::Acceptor,
        // quickfixgo has no such key: a session with an address to connect to is an initiator.
        None if fields.any(&["SocketConnectHost", "SocketConnectPath"]).is_some() => Role::Initiator,
        None if fields.any(&["SocketAcceptPort", "SocketAcceptPath"]).is_some() => Role::Acceptor,
        _ => return Err(fields.wrong("ConnectionType", "it is neither initiator nor acceptor")),
    };
    let is_template =
        fields.flag("AcceptorTemplate")?.unwrap_or(false) || fields.flag("DynamicSessions")?.unwrap_or(false);
    let mut settings = SessionSettings::new(role, id(fields, is_template)?);
    session_settings(fields, &mut settings)?;
    if !is_template {
        settings.check()?;
    }
    let mut plan = SessionPlan::new(settings);
    plan.store = store(fields)?;
    plan.allowed = place::allowed(fields)?;
    plan.certificates = place::certificates(fields)?;
    fields.number_into("MaxMessageSize", &mut plan.message_bytes_max)?;
    fields.number_into("MaxDynamicSessions", &mut plan.kept_max)?;
    Ok(SessionConfig { plan, place: place::place(fields, role)?, is_template, dictionary: dictionary(fields)? })
}

fn id(fields: &Fields<'_>, is_template: bool) -> Result<SessionId, Problem> {
    let name = |key: &str| match fields.text(key) {
        Some(text) => Ok(text.to_owned()),
        None if is_template => Ok("*".to_owned()),
        None => Err(fields.wrong(key, "it is not set").next("every session needs one")),
    };
    let optional = |key: &str| fields.text(key).unwrap_or(if is_template { "*" } else { "" }).to_owned();
    Ok(SessionId {
        begin_string: name("BeginString")?,
        sender_comp_id: name("SenderCompID")?,
        target_comp_id: name("TargetCompID")?,
        sender_sub_id: optional("SenderSubID"),
        target_sub_id: optional("TargetSubID"),
        sender_location_id: fields.text("SenderLocationID").unwrap_or_default().to_owned(),
        target_location_id: fields.text("TargetLocationID").unwrap_or_default().to_owned(),
        qualifier: fields.text("SessionQualifier").unwrap_or_default().to_owned(),
    })
}

fn session_settings(fields: &Fields<'_>, settings: &mut SessionSettings) -> Result<(), Problem> {
    fields.number_into("HeartBtInt", &mut settings.heart_bt_int_s)?;
    fields.seconds_into("LogonTimeout", &mut settings.logon_timeout)?;
    fields.seconds_into("LogoutTimeout", &mut settings.logout_timeout)?;
    fields.seconds_into("MaxLatency", &mut settings.max_latency)?;
    for (key, place) in [
        ("ResetOnLogon", &mut settings.reset_on_logon),
        ("ResetOnLogout", &mut settings.reset_on_logout),
        ("ResetOnDisconnect", &mut settings.reset_on_disconnect),
        ("RefreshOnLogon", &mut settings.refresh_on_logon),
        ("CheckCompID", &mut settings.check_comp_id),
        ("CheckLatency", &mut settings.check_latency),
        ("RequiresOrigSendingTime", &mut settings.requires_orig_sending_time),
        ("ValidateSequenceNumbers", &mut settings.validate_sequence_numbers),
        ("SendRedundantResendRequests", &mut settings.send_redundant_resend_requests),
        ("ClosedResendInterval", &mut settings.closed_resend_interval),
        ("EnableNextExpectedMsgSeqNum", &mut settings.next_expected_msg_seq_num),
        ("EnableLastMsgSeqNumProcessed", &mut settings.last_msg_seq_num_processed),
        ("PersistMessages", &mut settings.persist_messages),
        ("RejectInvalidMessage", &mut settings.reject_invalid_message),
        ("SendLogoutBeforeDisconnectFromTimeout", &mut settings.logout_before_timeout),
        ("SendWhenLoggedOff", &mut settings.send_when_logged_off),
    ] {
        fields.flag_into(key, place)?;
    }
    // Other engines' names for the same.
    fields.flag_into("SendResetSeqNumFlag", &mut settings.reset_on_logon)?;
    fields.flag_into("SendNextExpectedMsgSeqNum", &mut settings.next_expected_msg_seq_num)?;
    fields.number_into("MaxMessagesInResendRequest", &mut settings.resend_request_chunk_size)?;
    fields.number_into("ResendRequestChunkSize", &mut settings.resend_request_chunk_size)?;
    // QuickFIX/J's multipliers come on top of one interval.
    if let Some(more) = fields.number::<f64>("TestRequestDelayMultiplier")? {
        settings.test_request_delay = 1.0 + more;
    }
    if let Some(more) = fields.number::<f64>("HeartBeatTimeoutMultiplier")? {
        settings.heartbeat_timeout = 1.0 + more;
    }
    settings.precision = precision(fields)?.or(settings.precision);
    if let Some(version) = fields.text("DefaultApplVerID") {
        version_number(version).clone_into(&mut settings.default_appl_ver_id);
    }
    schedules(fields, settings)?;
    logon_fields(fields, settings)?;
    limits(fields, settings)
}

fn precision(fields: &Fields<'_>) -> Result<Option<Precision>, Problem> {
    let key = "TimestampPrecision";
    match fields.text(key).map(str::to_ascii_uppercase).as_deref() {
        Some("0" | "SECONDS") => Ok(Some(Precision::Seconds)),
        Some("3" | "MILLIS") => Ok(Some(Precision::Millis)),
        Some("6" | "MICROS") => Ok(Some(Precision::Micros)),
        Some("9" | "NANOS") => Ok(Some(Precision::Nanos)),
        Some(_) => Err(fields.wrong(key, "it is no precision").next("use 0, 3, 6 or 9, or SECONDS to NANOS")),
        None => Ok(fields.flag("MillisecondsInTimeStamp")?.filter(|millis| !millis).map(|_| Precision::Seconds)),
    }
}

/// ApplVerID (1128) of a version's name.
fn version_number(name: &str) -> &str {
    match name {
        "FIX.4.0" => "2",
        "FIX.4.1" => "3",
        "FIX.4.2" => "4",
        "FIX.4.3" => "5",
        "FIX.4.4" => "6",
        "FIX.5.0" => "7",
        "FIX.5.0SP1" => "8",
        "FIX.5.0SP2" => "9",
        number => number,
    }
}

fn schedules(fields: &Fields<'_>, settings: &mut SessionSettings) -> Result<(), Problem> {
    let common = ScheduleText {
        time_zone: fields.text("TimeZone"),
        use_local_time: fields.flag("UseLocalTime")?.unwrap_or(false),
        ..ScheduleText::default()
    };
    let text = ScheduleText {
        start_time: fields.text("StartTime"),
        end_time: fields.text("EndTime"),
        start_day: fields.text("StartDay"),
        end_day: fields.text("EndDay"),
        weekdays: fields.text("Weekdays"),
        non_stop_session: fields.flag("NonStopSession")?.unwrap_or(false),
        ..common
    };
    settings.schedule = Schedule::from_text(&text)?;
    let logon = ScheduleText {
        start_time: fields.text("LogonTime"),
        end_time: fields.text("LogoutTime"),
        start_day: fields.text("LogonDay"),
        end_day: fields.text("LogoutDay"),
        ..common
    };
    if logon.start_time.is_some() || logon.start_day.is_some() {
        settings.logon_schedule = Some(Schedule::from_text(&logon)?);
    }
    Ok(())
}

fn logon_fields(fields: &Fields<'_>, settings: &mut SessionSettings) -> Result<(), Problem> {
    for (key, value) in fields.numbered("LogonTag") {
        match value.split_once('=') {
            Some(("553", name)) => name.clone_into(&mut settings.username),
            Some(("554", password)) => password.clone_into(&mut settings.password),
            _ => {
                return Err(fields
                    .wrong(&key, "only 553 (Username) and 554 (Password) are added to a Logon by settings")
                    .next("add other fields in the program, by Application::to_admin"));
            }
        }
    }
    let credentials = [("Username", &mut settings.username), ("Password", &mut settings.password)];
    for (key, place) in credentials {
        if let Some(value) = fields.text(key) {
            value.clone_into(place);
        }
    }
    Ok(())
}

fn limits(fields: &Fields<'_>, settings: &mut SessionSettings) -> Result<(), Problem> {
    fields.number_into("MaxMessageFields", &mut settings.message_fields_max)?;
    fields.flag_into("RejectDetails", &mut settings.reject_details)?;
    fields.number_into("SlowConsumerBytes", &mut settings.output_bytes_max)?;
    fields.seconds_into("SlowConsumerTimeout", &mut settings.slow_consumer_after)?;
    fields.seconds_into("CancelOnDisconnectTimeout", &mut settings.cancel_after)?;
    if let Some(messages) = fields.number("ThrottleMessages")? {
        let window = fields.seconds("ThrottleWindow")?.unwrap_or(Duration::from_secs(1));
        settings.throttle = Some(Throttle { messages, window });
    }
    settings.cancel_on = match fields.text("CancelOnDisconnect") {
        None | Some("N") => CancelOn::Nothing,
        Some("Y" | "disconnect") => CancelOn::Disconnect,
        Some("logout") => CancelOn::Logout,
        Some("both") => CancelOn::Both,
        Some(_) => {
            let problem = fields.wrong("CancelOnDisconnect", "it says nothing known");
            return Err(problem.next("use N, disconnect, logout or both"));
        }
    };
    Ok(())
}

fn store(fields: &Fields<'_>) -> Result<StorePlan, Problem> {
    let sync = fields.flag("FileStoreSync")?.unwrap_or(false);
    let durability = match fields.text("JournalMode") {
        None if sync => Durability::Disk,
        None | Some("page-cache") => Durability::PageCache,
        Some("group-commit") => Durability::Disk,
        Some("none") => return Ok(StorePlan::Memory),
        Some(_) => {
            let problem = fields.wrong("JournalMode", "there is no such mode");
            return Err(problem.next("use none, page-cache or group-commit"));
        }
    };
    let Some(folder) = fields.text("FileStorePath") else {
        return match fields.text("JournalMode") {
            Some(_) => Err(fields.wrong("JournalMode", "there is no folder for a journal").next("set FileStorePath")),
            None => Ok(StorePlan::Memory),
        };
    };
    let segment_bytes = fields.number("JournalSegmentBytes")?.unwrap_or(SEGMENT_BYTES_DEFAULT);
    let writing = match fields.text("JournalWrite") {
        None | Some("mapped") => Writing::Mapped,
        Some("call") => Writing::Call,
        Some(_) => return Err(fields.wrong("JournalWrite", "there is no such way").next("use mapped or call")),
    };
    let helper_cpu = fields.number("JournalCpu")?;
    let accept_loss = fields.flag("JournalAcceptLoss")?.unwrap_or(false);
    let options = Options { durability, writing, segment_bytes, helper_cpu, accept_loss };
    Ok(StorePlan::Journal { folder: PathBuf::from(folder), options })
}

fn dictionary(fields: &Fields<'_>) -> Result<DictionaryConfig, Problem> {
    let mut dictionary = DictionaryConfig {
        data: fields.text("DataDictionary").map(PathBuf::from),
        transport: fields.text("TransportDataDictionary").map(PathBuf::from),
        application: fields.text("AppDataDictionary").map(PathBuf::from),
        ..DictionaryConfig::default()
    };
    for (key, place) in [
        ("UseDataDictionary", &mut dictionary.use_dictionary),
        ("ValidateFieldsOutOfOrder", &mut dictionary.fields_out_of_order),
        ("ValidateFieldsHaveValues", &mut dictionary.fields_have_values),
        ("ValidateUserDefinedFields", &mut dictionary.user_defined_fields),
        ("ValidateUnorderedGroupFields", &mut dictionary.unordered_group_fields),
        ("AllowUnknownMsgFields", &mut dictionary.allow_unknown_fields),
        ("ValidateIncomingMessage", &mut dictionary.incoming),
    ] {
        fields.flag_into(key, place)?;
    }
    Ok(dictionary)
}
