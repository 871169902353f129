//! The keys of the seven example files of QuickFIX/J's distribution, in files of our own: every one of them starts. The real
//! ones are fetched and started by `peers/fix/examples`.

use sidestep_fix::config::Config;
use sidestep_fix::dictionary::{Dictionary, Kind};
use sidestep_fix::engine::Engine;
use sidestep_fix::exchange::Exchange;
use sidestep_sys::idle::IdleStrategy;
use std::fs;
use tempfile::tempdir;

/// BeginStrings of the examples that have a session for each version, and what FIXT.1.1 says more.
const VERSIONS: [&str; 6] =
    ["FIX.4.0", "FIX.4.1", "FIX.4.2", "FIX.4.3", "FIX.4.4", "FIXT.1.1\nDefaultApplVerID=FIX.5.0"];

fn sessions(versions: &[&str], keys: impl Fn(usize) -> String) -> String {
    let session = |(at, version): (usize, &&str)| format!("\n[session]\nBeginString={version}\n{}\n", keys(at));
    versions.iter().enumerate().map(session).collect()
}

/// The files by the names of those that they are like.
fn files() -> Vec<(&'static str, String)> {
    let initiator = "ConnectionType=initiator\nSenderCompID=BUYER\nTargetCompID=VENUE\nSocketConnectHost=localhost\n\
                     StartTime=00:00:00\nEndTime=00:00:00\nHeartBtInt=30\nReconnectInterval=5\n";
    let acceptor = "ConnectionType=acceptor\nStartTime=00:00:00\nEndTime=00:00:00\nHeartBtInt=30\n\
                    ValidOrderTypes=1,2,F\nUseDataDictionary=Y\nDefaultMarketPrice=12.30\n";
    let port = |_| "SocketConnectPort=1".to_owned();
    let stem = |at: usize| format!("AcceptorTemplate=Y\nDataDictionary=FIX4{at}.xml");
    vec![
        ("banzai", format!("[default]\n{initiator}{}", sessions(&VERSIONS, port))),
        ("banzai_dynamic", format!("[default]\n{initiator}{}", sessions(&VERSIONS[..5], port))),
        (
            "banzai_failover",
            format!(
                "[default]\n{initiator}{}",
                sessions(&VERSIONS[2..3], |_| {
                    "SocketConnectPort=1\nSocketConnectHost1=localhost\nSocketConnectPort1=2".into()
                })
            ),
        ),
        (
            "executor",
            format!(
                "[default]\n{acceptor}SenderCompID=VENUE\nTargetCompID=BUYER\n{}",
                sessions(&VERSIONS, |_| "SocketAcceptPort=0".into())
            ),
        ),
        (
            "executor_dynamic",
            format!(
                "[default]\n{acceptor}SenderCompID=*\nTargetCompID=*\nSocketAcceptPort=0\n{}",
                sessions(&VERSIONS[..5], stem)
            ),
        ),
        (
            "executor_standby",
            format!(
                "[default]\n{acceptor}DataDictionary=etc/FIX42.xml\nRefreshOnLogon=Y\nSocketAcceptPort=0\n{}",
                sessions(&VERSIONS[2..3], |_| "SenderCompID=VENUE\nTargetCompID=BUYER".into())
            ),
        ),
        (
            "ordermatch",
            format!(
                "[default]\nDataDictionary=FIX42.xml\nSocketAcceptPort=0\nNonStopSession=Y\n{}",
                sessions(&VERSIONS[2..3], |_| {
                    "SenderCompID=VENUE\nTargetCompID=BUYER\nConnectionType=acceptor\nStartTime=00:00:00\nEndTime=00:00:00"
                        .into()
                })
            ),
        ),
    ]
}

#[test]
fn files_like_quickfixjs_examples_start() {
    let folder = tempdir().unwrap();
    for (name, text) in files() {
        // Every one keeps a store.
        let store = format!("[default]\nFileStorePath={}\n", folder.path().join(name).display());
        let path = folder.path().join(format!("{name}.cfg"));
        fs::write(&path, text.replacen("[default]\n", &store, 1)).unwrap();
        let config = Config::read(&path).unwrap_or_else(|problem| panic!("{name}: {problem}"));
        let count = config.sessions.len();
        assert_eq!(count, text.matches("[session]").count(), "{name}");
        let mut engine = Engine::new(Exchange::default());
        engine.configure(&config, IdleStrategy::PARK).unwrap_or_else(|problem| panic!("{name}: {problem}"));
        engine.poll();
    }
}

#[test]
fn a_dictionary_that_is_neither_a_file_nor_built_in_is_refused() {
    let text = "[default]\nConnectionType=acceptor\nSocketAcceptPort=0\nSenderCompID=A\nTargetCompID=B\n\
                BeginString=FIX.4.2\nDataDictionary=FIX42.custom.xml\n[session]\n";
    let config = Config::parse_cfg(text, "test.cfg").unwrap();
    let refused = Engine::new(Exchange::default()).configure(&config, IdleStrategy::PARK).unwrap_err().to_string();
    assert!(refused.contains("FIX42.custom.xml"), "{refused}");
}

#[test]
fn a_type_that_nobody_knows_is_a_string_and_said() {
    let xml = "<fix major='5' minor='0' type='FIX'><header/><trailer/><messages/><components/><fields>\
               <field number='200' name='MaturityMonthYear' type='MONTH-YEAR'/>\
               <field number='205' name='MaturityDay' type='DAY-OF-MONTH'/>\
               <field number='5001' name='Mood' type='EMOTION'/>\
               <field number='5002' name='Humour' type='EMOTION'/></fields></fix>";
    let dictionary = Dictionary::from_quickfix_xml(xml.as_bytes()).unwrap();
    let kind = |tag| dictionary.field(tag).unwrap().kind;
    assert_eq!([kind(200), kind(205), kind(5001)], [Kind::MonthYear, Kind::DayOfMonth, Kind::Text]);
    let [note] = dictionary.notes() else { panic!("one note: {:?}", dictionary.notes()) };
    assert!(note.contains("EMOTION") && note.contains("Mood and 1 more") && note.contains("String"), "{note}");
}
