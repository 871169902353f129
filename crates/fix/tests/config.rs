//! Files of settings: QuickFIX's as they are, TOML, and what is refused or named.

use sidestep_fix::config::keys::{Effect, KEYS, effect};
use sidestep_fix::config::{Config, Place};
use sidestep_fix::engine::{CertificateFiles, Endpoint, StorePlan};
use sidestep_fix::session::Role;
use sidestep_fix::store::journal::Durability;
use sidestep_fix::value::Precision;
use std::time::Duration;

/// A settings file of a QuickFIX user.
const INITIATOR: &str = "\u{feff}# default settings for sessions\r
[DEFAULT]\r
ConnectionType=initiator\r
ReconnectInterval=60\r
SenderCompID=TW\r
FileStorePath=store\r
FileLogPath=log\r
StartTime=12:30:00\r
EndTime=23:30:00\r
HeartBtInt=20\r
\r
[SESSION]\r
# inherits ConnectionType, ReconnectInterval and SenderCompID\r
BeginString=FIX.4.1\r
TargetCompID=ARCA\r
SocketConnectPort=9823\r
SocketConnectHost=123.123.123.123\r
DataDictionary=somewhere/FIX41.xml\r
\r
[session]\r
beginstring=FIXT.1.1\r
DefaultApplVerID=FIX.5.0SP1\r
TargetCompID=INCA\r
ReconnectInterval=30\r
SocketConnectPort=6523\r
SocketConnectHost=3.3.3.3\r
SocketConnectPort1=8392\r
SocketConnectHost1=8.8.8.8\r
SocketConnectPort2=2932\r
SocketConnectHost2=fix.example\r
LogonTag=553=user\r
LogonTag1=554=secret#1\r
TimeStampPrecision=MICROS\r
FileStoreSync=Y\r
Colour=blue\r
";

fn cfg(text: &str) -> Config {
    Config::parse_cfg(text, "test.cfg").unwrap()
}

fn refused(text: &str) -> String {
    Config::parse_cfg(text, "test.cfg").err().expect("it must be refused").to_string()
}

#[test]
fn a_file_of_quickfix_is_taken_as_it_is() {
    let config = cfg(INITIATOR);
    let [first, second] = &config.sessions[..] else { panic!("two sessions") };
    assert_eq!(first.plan.settings.id.to_string(), "FIX.4.1:TW->ARCA");
    assert_eq!(first.plan.settings.role, Role::Initiator);
    assert_eq!(first.plan.settings.heart_bt_int_s, 20);
    assert_eq!(first.dictionary.data.as_deref().unwrap().to_str(), Some("somewhere/FIX41.xml"));
    let StorePlan::Journal { options, .. } = &first.plan.store else { panic!("a journal") };
    assert_eq!(options.durability, Durability::PageCache);
    let Place::Connect(destinations) = &second.place else { panic!("an initiator") };
    let names: Vec<String> = destinations.endpoints.iter().map(Endpoint::to_string).collect();
    assert_eq!(names, ["3.3.3.3:6523", "8.8.8.8:8392", "fix.example:2932"]);
    assert_eq!(destinations.reconnect_interval, Duration::from_secs(30));
    let settings = &second.plan.settings;
    assert_eq!((settings.username.as_str(), settings.password.as_str()), ("user", "secret#1"));
    assert_eq!((settings.default_appl_ver_id.as_str(), settings.precision), ("8", Some(Precision::Micros)));
    let StorePlan::Journal { options, .. } = &second.plan.store else { panic!("a journal") };
    assert_eq!(options.durability, Durability::Disk);
}

#[test]
fn keys_without_effect_and_unknown_keys_are_named_with_their_lines() {
    let notes = cfg(INITIATOR).notes;
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert!(notes[0].starts_with("test.cfg, line 7: FileLogPath has no effect: it writes a log"), "{notes:?}");
    assert!(notes[1].starts_with("test.cfg, line 35: Colour is not known"), "{notes:?}");
}

#[test]
fn refresh_on_logon_is_named_as_without_effect() {
    let text = INITIATOR.replace("Colour=", "RefreshOnLogon=Y\nColour=");
    let notes = cfg(&text).notes;
    assert!(notes.iter().any(|note| note.contains("RefreshOnLogon has no effect: it reads again")), "{notes:?}");
}

#[test]
fn an_acceptor_with_templates_hosts_and_tls() {
    let config = cfg(
        "[DEFAULT]\nConnectionType=acceptor\nSocketAcceptPort=9876\nAllowedRemoteAddresses=10.0.0.0/8, 192.0.2.7\n\
        SocketCertificateFile=c.pem\nSocketPrivateKeyFile=k.pem\nSocketCAFile=ca.pem\n\
        [SESSION]\nBeginString=FIX.4.4\nAcceptorTemplate=Y\nSenderCompID=*\nTargetCompID=*\n\
        MaxDynamicSessions=70\n",
    );
    let session = &config.sessions[0];
    assert!(session.is_template);
    assert_eq!((session.plan.kept_max, config.notes.len()), (70, 0));
    assert_eq!(session.plan.allowed.len(), 2);
    let Place::Listen { endpoint, tls: Some(tls), .. } = &session.place else { panic!("an acceptor with TLS") };
    assert_eq!(endpoint.to_string(), ":9876");
    assert!(tls.require_client_certificate, "who names authorities wants certificates");
}

#[test]
fn further_certificates_are_an_acceptors() {
    let of = |role: &str, where_to: &str| {
        format!(
            "[SESSION]\nConnectionType={role}\n{where_to}\nBeginString=FIX.4.4\nSenderCompID=A\nTargetCompID=B\n\
             SocketCertificateFile=c.pem\nSocketCAFile=ca.pem\nFurtherCertificateFiles=desk.crt:desk.key, both.pem\n"
        )
    };
    let config = cfg(&of("acceptor", "SocketAcceptPort=9876"));
    assert_eq!(config.notes.len(), 0, "{:?}", config.notes);
    let Place::Listen { tls: Some(tls), .. } = &config.sessions[0].place else { panic!("an acceptor with TLS") };
    let files = |certificate: &str, key: Option<&str>| CertificateFiles {
        certificate: certificate.into(),
        key: key.map(Into::into),
    };
    assert_eq!(tls.further_certificates, [files("desk.crt", Some("desk.key")), files("both.pem", None)]);
    let initiator = refused(&of("initiator", "SocketConnectHost=h\nSocketConnectPort=1"));
    assert!(initiator.contains("one certificate"), "{initiator}");
}

#[test]
fn the_same_as_toml() {
    let toml = r#"
        [default]
        connection_type = "initiator"
        socket_connect_host = "1.2.3.4"
        socket_connect_port = 9
        heart_bt_int = 7
        reset_on_logon = true
        [[session]]
        begin_string = "FIX.4.4"
        sender_comp_id = "A"
        target_comp_id = "B"
        timestamp_precision = 9
    "#;
    let config = Config::parse_toml(toml, "test.toml").unwrap();
    let settings = &config.sessions[0].plan.settings;
    assert_eq!((settings.heart_bt_int_s, settings.reset_on_logon), (7, true));
    assert_eq!((settings.precision, config.notes.len()), (Some(Precision::Nanos), 0));
    let error = Config::parse_toml("[default]\nx = = 1\n", "test.toml").err().unwrap().to_string();
    assert!(error.contains("test.toml, line 2"), "{error}");
}

#[test]
fn what_makes_no_sense_is_refused_by_line() {
    let base = "[DEFAULT]\nConnectionType=initiator\nSocketConnectHost=h\nSocketConnectPort=1\nBeginString=FIX.4.4\nSenderCompID=A\n";
    let with = |more: &str| refused(&format!("{base}[SESSION]\nTargetCompID=B\n{more}\n"));
    assert!(with("HeartBtInt=soon").contains("line 9: HeartBtInt=soon"));
    assert!(with("CheckLatency=perhaps").contains("neither Y nor N"));
    assert!(with("BeginString=FIX.9.9").contains("no such version"));
    assert!(with("SocketConnectHost1=other").contains("SocketConnectPort1"));
    assert!(with("Transport=pigeon").contains("no such transport"));
    assert!(with("SocketConnectProtocol=VM_PIPE").contains("only TCP"));
    assert!(with("StartTime=25:00:00\nEndTime=08:00:00").contains("StartTime"));
    assert!(with("LogonTag=58=hello").contains("553"));
    assert!(with("JournalMode=group-commit").contains("FileStorePath"));
    assert!(with("[SESSION]\nTargetCompID=B").contains("two sessions"));
    assert!(refused("[OTHER]\n").contains("line 1"));
    assert!(refused("Key=Value\n").contains("before any section"));
    assert!(refused("[DEFAULT]\nno equals sign\n").contains("line 2"));
    assert!(refused("[DEFAULT]\n").contains("no session"));
}

#[test]
fn tls_that_cannot_be_had_is_not_quietly_left_out() {
    let text = "[SESSION]\nConnectionType=initiator\nBeginString=FIX.4.4\nSenderCompID=A\nTargetCompID=B\n\
        SocketConnectHost=h\nSocketConnectPort=1\nSocketUseSSL=Y\nSocketKeyStore=store.jks\n";
    assert!(refused(text).contains("key stores of Java"));
}

#[test]
fn tls_keeps_to_the_versions_and_names_that_it_may_use() {
    let of = |more: &str| {
        let text = format!(
            "[SESSION]\nConnectionType=initiator\nBeginString=FIX.4.4\nSenderCompID=A\nTargetCompID=B\n\
             SocketConnectHost=h\nSocketConnectPort=1\nSocketCAFile=ca.pem\n{more}\n"
        );
        let Place::Connect(destinations) = cfg(&text).sessions.remove(0).place else { panic!("an initiator") };
        destinations.tls.expect("TLS")
    };
    assert_eq!(["", "UseSNI=Y", "UseSNI=N"].map(|more| of(more).without_sni), [false, false, true]);
    let versions = |more| (of(more).only_tls13, of(more).only_tls12);
    assert_eq!(versions("EnabledProtocols=TLSv1.3"), (true, false));
    assert_eq!(versions("EnabledProtocols=TLSv1.2"), (false, true));
    assert_eq!(versions("EnabledProtocols=TLSv1.2, TLSv1.3"), (false, false));
    assert_eq!(versions("EnabledProtocols=TLSv1.2\nSocketMinimumTLSVersion=TLS13"), (true, false));
}

#[test]
fn every_key_stands_once_and_says_what_it_would_do() {
    for (place, (name, known)) in KEYS.iter().enumerate() {
        assert!(KEYS.iter().skip(place + 1).all(|(other, _)| name != other), "{name} stands twice");
        match known {
            Effect::Full(meaning) => assert!(meaning.len() > 5, "{name}: {meaning}"),
            Effect::None(what) => assert!(what.len() > 20, "{name}: {what}"),
        }
    }
    assert!(matches!(effect("SocketConnectHost17"), Some(Effect::Full(_))));
    assert!(matches!(effect("AppDataDictionary.FIX.4.4"), Some(Effect::None(_))));
    assert!(matches!(effect("socket_connect_host"), Some(Effect::Full(_))));
    assert_eq!(effect("SocketConnectHostX"), None);
}
