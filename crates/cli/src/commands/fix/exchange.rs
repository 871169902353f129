//! `sidestep fix exchange`.

use super::settle;
use crate::args_fix::{Exchange as Args, Store};
use crate::{exit, output, signal};
use sidestep_fix::config::Config;
use sidestep_fix::engine::{
    AdminSocket, Asker, Endpoint, Engine, Idle, SessionPlan, SocketOptions, StorePlan, TlsSettings,
};
use sidestep_fix::exchange::{Exchange, anyone};
use sidestep_fix::session::{Role, SessionSettings};
use sidestep_fix::store::journal::{Durability, Options};
use sidestep_sys::Problem;
use sidestep_sys::problem::say;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Between two writes of the file of metrics.
const METRICS_EVERY: Duration = Duration::from_secs(1);

pub(super) fn run(args: &Args) -> Result<u8, Problem> {
    let stop = signal::stop_flag()?;
    let mut engine = Engine::new(Exchange::default());
    serve_operators(args, &mut engine)?;
    // Threads started from here on would share the CPU.
    let (idle, options) = settle(&args.thread)?;
    match &args.cfg {
        Some(file) => configure(&mut engine, file, idle)?,
        None => listen(&mut engine, args, &options)?,
    }
    let mut text = String::new();
    for endpoint in engine.endpoints() {
        text.push_str(&format!("listening on {endpoint}\n"));
    }
    output::print(&text)?;
    engine.run(&stop, idle)?;
    say(format!("{} orders", engine.app().orders()));
    Ok(exit::GOOD)
}

fn configure(engine: &mut Engine<Exchange>, file: &Path, idle: Idle) -> Result<(), Problem> {
    let config = Config::read(file)?;
    config.notes.iter().for_each(say);
    engine.configure(&config, idle)
}

fn listen(engine: &mut Engine<Exchange>, args: &Args, options: &SocketOptions) -> Result<(), Problem> {
    let tls = args.tls_cert.as_ref().map(|certificate| TlsSettings {
        certificate: Some(certificate.clone()),
        key: args.tls_key.clone(),
        authorities: args.tls_ca.clone(),
        require_client_certificate: args.tls_ca.is_some(),
        ..TlsSettings::default()
    });
    for address in &args.listen {
        let door = engine.listen(&Endpoint::parse(address)?, tls.as_ref(), options)?;
        let mut plan = SessionPlan::new(SessionSettings::new(Role::Acceptor, anyone()));
        plan.store = store(args.store, &args.store_path);
        engine.add_template(door, plan);
    }
    Ok(())
}

fn store(kind: Store, folder: &Path) -> StorePlan {
    let durability = match kind {
        Store::None => return StorePlan::Memory,
        Store::PageCache => Durability::PageCache,
        Store::GroupCommit => Durability::Disk,
    };
    StorePlan::Journal { folder: folder.to_owned(), options: Options { durability, ..Options::default() } }
}

fn serve_operators(args: &Args, engine: &mut Engine<Exchange>) -> Result<(), Problem> {
    if let Some(path) = &args.admin {
        engine.serve(AdminSocket::unix(path)?);
    }
    let Some(metrics) = &args.metrics else { return Ok(()) };
    if let Ok(address) = metrics.parse::<SocketAddr>() {
        let socket = AdminSocket::http(address)?;
        if let Some(address) = socket.address {
            say(format!("metrics at http://{address}/metrics"));
        }
        engine.serve(socket);
    } else {
        let (socket, asker) = AdminSocket::local();
        engine.serve(socket);
        let file = PathBuf::from(metrics);
        output::write(&file, "")?;
        std::thread::spawn(move || write_metrics(&asker, &file));
    }
    Ok(())
}

/// Until the engine is gone.
fn write_metrics(engine: &Asker, file: &Path) {
    while let Ok(answer) = engine.ask("metrics") {
        if let Err(problem) = output::write(file, answer.strip_prefix("ok\n").unwrap_or_default()) {
            say(problem);
        }
        std::thread::sleep(METRICS_EVERY);
    }
}
