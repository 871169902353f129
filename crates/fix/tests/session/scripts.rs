//! Our own scripts, in `tests/scripts/<concern>/<rule>.def`; COMPLIANCE.md lists them by clause.

use super::scripting::compare::Mode;
use super::scripting::{parse, run, world};
use sidestep_fix::schedule::{Schedule, ScheduleText};
use sidestep_fix::session::{CancelOn, Role, Session, SessionId, SessionSettings, Throttle};
use sidestep_fix::store::MemoryStore;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Fewer mean that the folder was not found whole.
const SCRIPTS_MIN: usize = 60;

#[test]
fn our_scripts_pass() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    let mut scripts: Vec<PathBuf> = concerns(&folder);
    scripts.sort();
    assert!(scripts.len() >= SCRIPTS_MIN, "only {} scripts in {}", scripts.len(), folder.display());
    let filter = std::env::var("FIX_SCRIPT").unwrap_or_default();
    let mut failures = Vec::new();
    for path in scripts.iter().filter(|path| path.to_string_lossy().contains(&filter)) {
        if let Err(reason) = run_one(path) {
            failures.push(format!("{}: {reason}", path.strip_prefix(&folder).expect("it is below").display()));
        }
    }
    assert!(failures.is_empty(), "{} of {} scripts failed:\n{}", failures.len(), scripts.len(), failures.join("\n"));
}

fn concerns(folder: &Path) -> Vec<PathBuf> {
    let entries = |folder: &Path| std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let folders = entries(folder).filter(|path| path.is_dir());
    folders.flat_map(|concern| entries(&concern).collect::<Vec<_>>()).collect()
}

fn run_one(path: &Path) -> Result<(), String> {
    let bytes = std::fs::read(path).map_err(|error| error.to_string())?;
    let steps = parse::script(&bytes).map_err(|bad| bad.to_string())?;
    let settings = settings(&parse::settings(&bytes));
    let now = world::start();
    let store = MemoryStore::with_bytes(now.utc_ns, 1 << 20);
    let session = Session::new(settings, store, None, now).map_err(|problem| problem.to_string())?;
    run::run(&steps, &mut world::World::new(vec![session]), Mode::Strict)
}

/// A session between us and them, changed as the script says.
fn settings(pairs: &[(String, String)]) -> SessionSettings {
    let find = |name: &str| pairs.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
    let role = if find("ConnectionType") == Some("initiator") { Role::Initiator } else { Role::Acceptor };
    let id = SessionId::new(find("BeginString").unwrap_or("FIX.4.4"), "US", "THEM");
    let mut settings = SessionSettings::new(role, id);
    let text = ScheduleText {
        start_time: find("StartTime"),
        end_time: find("EndTime"),
        start_day: find("StartDay"),
        end_day: find("EndDay"),
        weekdays: find("Weekdays"),
        time_zone: find("TimeZone"),
        non_stop_session: find("NonStopSession") == Some("Y"),
        ..ScheduleText::default()
    };
    settings.schedule = Schedule::from_text(&text).expect("a schedule");
    let logon = ScheduleText {
        start_time: find("LogonTime"),
        end_time: find("LogoutTime"),
        time_zone: find("TimeZone"),
        ..ScheduleText::default()
    };
    settings.logon_schedule = logon.start_time.map(|_| Schedule::from_text(&logon).expect("a schedule"));
    for (name, value) in pairs {
        set(&mut settings, name, value);
    }
    settings
}

fn set(settings: &mut SessionSettings, name: &str, value: &str) {
    let yes = value == "Y";
    let number = || value.parse::<u64>().expect("a number");
    let seconds = || Duration::from_secs(number());
    match name {
        "ConnectionType" | "BeginString" | "StartTime" | "EndTime" | "TimeZone" => {}
        "StartDay" | "EndDay" | "Weekdays" | "NonStopSession" | "LogonTime" | "LogoutTime" => {}
        "SlowConsumerBytes" => settings.output_bytes_max = number() as usize,
        "SlowConsumerTimeout" => settings.slow_consumer_after = seconds(),
        "HeartBtInt" => settings.heart_bt_int_s = number() as u32,
        "ResetOnLogon" => settings.reset_on_logon = yes,
        "ResetOnLogout" => settings.reset_on_logout = yes,
        "ResetOnDisconnect" => settings.reset_on_disconnect = yes,
        "CheckCompID" => settings.check_comp_id = yes,
        "CheckLatency" => settings.check_latency = yes,
        "MaxLatency" => settings.max_latency = seconds(),
        "LogonTimeout" => settings.logon_timeout = seconds(),
        "LogoutTimeout" => settings.logout_timeout = seconds(),
        "RequiresOrigSendingTime" => settings.requires_orig_sending_time = yes,
        "ValidateSequenceNumbers" => settings.validate_sequence_numbers = yes,
        "SendRedundantResendRequests" => settings.send_redundant_resend_requests = yes,
        "ResendRequestChunkSize" => settings.resend_request_chunk_size = number(),
        "ClosedResendInterval" => settings.closed_resend_interval = yes,
        "SendNextExpectedMsgSeqNum" => settings.next_expected_msg_seq_num = yes,
        "EnableLastMsgSeqNumProcessed" => settings.last_msg_seq_num_processed = yes,
        "PersistMessages" => settings.persist_messages = yes,
        "SendLogoutBeforeDisconnectFromTimeout" => settings.logout_before_timeout = yes,
        "DefaultApplVerID" => settings.default_appl_ver_id = value.to_owned(),
        "Username" => settings.username = value.to_owned(),
        "Password" => settings.password = value.to_owned(),
        "RejectDetails" => settings.reject_details = yes,
        "MaxMessageFields" => settings.message_fields_max = number() as usize,
        "SendWhenLoggedOff" => settings.send_when_logged_off = yes,
        "ThrottleMessages" => {
            settings.throttle = Some(Throttle { messages: number() as u32, window: Duration::from_secs(1) });
        }
        "CancelOn" => {
            settings.cancel_on = match value {
                "Disconnect" => CancelOn::Disconnect,
                "Logout" => CancelOn::Logout,
                "Both" => CancelOn::Both,
                other => panic!("CancelOn={other}?"),
            }
        }
        "CancelAfter" => settings.cancel_after = seconds(),
        "EarlyBytesMax" => settings.early_bytes_max = number() as usize,
        "ResendRequestsPerSecond" => settings.resend_requests_per_second = number() as u32,
        "GarbledMax" => settings.garbled_max = number(),
        other => panic!("a script sets {other}, which nobody knows"),
    }
}
