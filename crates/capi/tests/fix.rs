//! Every call of `fix.h`, from C, against an exchange in this process.

mod support;

use sidestep_fix::engine::{Endpoint, Engine, SessionPlan, SocketOptions};
use sidestep_fix::exchange::{Exchange, anyone};
use sidestep_fix::session::{Role, SessionSettings};
use sidestep_sys::idle::IdleStrategy;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use support::{C99, compile, include, library_folder};

#[test]
fn a_client_in_c_trades_with_an_exchange() {
    let folder = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fix.c");
    let (library, include) = (library_folder().join("libsidestep_c.so"), include());
    symlink(&library, folder.path().join("libsidestep_c.so.1")).unwrap();
    let rpath = format!("-Wl,-rpath,{}", folder.path().display());
    let more = ["-I".as_ref(), include.as_os_str(), library.as_os_str(), rpath.as_ref()];
    let program = folder.path().join("fix");
    compile(&C99, &source, &more, &program).unwrap();
    let mut engine = Engine::new(Exchange::default());
    let endpoint = Endpoint::Unix(folder.path().join("fix.sock"));
    let acceptor = engine.listen(&endpoint, None, &SocketOptions::default()).unwrap();
    engine.add_template(acceptor, SessionPlan::new(SessionSettings::new(Role::Acceptor, anyone())));
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let thread = std::thread::spawn(move || engine.run(&stopped, IdleStrategy::PARK).unwrap());
    let settings = folder.path().join("client.cfg");
    let text = format!(
        "[DEFAULT]\nConnectionType=initiator\nTransport=unix\nSocketConnectPath={}\nResetOnLogon=Y\n[SESSION]\n\
         BeginString=FIX.4.4\nSenderCompID=C\nTargetCompID=EXCHANGE\nUseDataDictionary=N\n",
        folder.path().join("fix.sock").display()
    );
    std::fs::write(&settings, text).unwrap();
    let output = Command::new(program).arg(&settings).output().unwrap();
    stop.store(true, Ordering::Relaxed);
    thread.join().unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "good\n", "{words}");
}
