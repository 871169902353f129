//! `sidestep fix exchange`.

use super::apply_thread_options;
use crate::args_fix::{Exchange as Args, Store};
use crate::{exit, output, signal};
use sidestep_fix::config::Config;
use sidestep_fix::engine::{AdminSocket, Asker, Endpoint, Engine, SessionPlan, SocketOptions, StorePlan, TlsSettings};
use sidestep_fix::exchange::{Exchange, anyone};
use sidestep_fix::session::{Role, SessionSettings};
use sidestep_fix::store::journal::{Durability, Options};
use sidestep_sys::Problem;
use sidestep_sys::idle::IdleStrategy;
use sidestep_sys::problem::say;
use std::io::ErrorKind;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Default folder of the store.
const STORE_FOLDER: &str = "fix-store";
/// Interval of writes to the metrics file.
const METRICS_EVERY: Duration = Duration::from_secs(1);

pub(super) fn run(args: &Args) -> Result<u8, Problem> {
    let stop = signal::stop_flag()?;
    let mut engine = Engine::new(Exchange::default());
    serve_operators(args, &mut engine)?;
    // Threads started from here on would share the CPU.
    let (idle, options) = apply_thread_options(&args.thread)?;
    match &args.cfg {
        Some(file) => configure(&mut engine, file, idle, args.accept_loss)?,
        None => listen(&mut engine, args, &options)?,
    }
    let mut text = String::new();
    for endpoint in engine.endpoints() {
        text.push_str(&format!("listening on {endpoint}\n"));
    }
    output::print(&text)?;
    engine.run(&stop, idle)?;
    let unanswered = engine.app().unanswered();
    say(format!("{} orders, {unanswered} of them unanswered", engine.app().orders()));
    Ok(if unanswered > 0 { exit::FAILED } else { exit::GOOD })
}

fn configure(engine: &mut Engine<Exchange>, file: &Path, idle: IdleStrategy, accept_loss: bool) -> Result<(), Problem> {
    let mut config = Config::read(file)?;
    config.sessions.iter_mut().for_each(|session| session.plan.store.accept_loss(accept_loss));
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
    let store = store(args.store, args.store_path.as_deref())?;
    for address in &args.listen {
        let acceptor = engine.listen(&Endpoint::parse(address)?, tls.as_ref(), options)?;
        let mut plan = SessionPlan::new(SessionSettings::new(Role::Acceptor, anyone()));
        plan.store = store.clone();
        plan.store.accept_loss(args.accept_loss);
        plan.check_store("--store-path")?;
        engine.add_template(acceptor, plan);
    }
    Ok(())
}

fn store(kind: Option<Store>, folder: Option<&Path>) -> Result<StorePlan, Problem> {
    let durability = match (kind, folder) {
        (None, Some(folder)) => {
            let what = format!("--store-path {}", folder.display());
            let problem = Problem::usage(what, "without --store nothing is stored there");
            return Err(problem.next("add --store page-cache or group-commit"));
        }
        (None | Some(Store::None), _) => return Ok(StorePlan::Memory),
        (Some(Store::PageCache), _) => Durability::PageCache,
        (Some(Store::GroupCommit), _) => Durability::Disk,
    };
    let folder = folder.unwrap_or_else(|| Path::new(STORE_FOLDER)).to_owned();
    Ok(StorePlan::Journal { folder, options: Options { durability, ..Options::default() } })
}

fn serve_operators(args: &Args, engine: &mut Engine<Exchange>) -> Result<(), Problem> {
    if let Some(path) = &args.admin {
        engine.serve(AdminSocket::unix(path)?);
    }
    let Some(metrics) = &args.metrics else { return Ok(()) };
    if let Some(address) = address(metrics)? {
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

/// Returns the address of the metrics, or `None` for a file. A text with a colon and without a folder is an address.
fn address(text: &str) -> Result<Option<SocketAddr>, Problem> {
    if text.contains('/') || !text.contains(':') {
        return Ok(None);
    }
    let wrong = |why: &dyn std::fmt::Display| {
        Problem::usage(format!("--metrics {text}"), why).next("write ADDRESS:PORT, or a file as ./FILE")
    };
    let found = text.to_socket_addrs().map_err(|error| wrong(&error))?.next();
    found.ok_or_else(|| wrong(&"there is no address of this name")).map(Some)
}

/// Writes the metrics until the engine ends.
fn write_metrics(engine: &Asker, file: &Path) {
    loop {
        let written = match engine.ask("metrics") {
            Ok(answer) => output::write(file, answer.strip_prefix("ok\n").unwrap_or_default()),
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return,
            // The engine is busy, or waits for a slow disk; the next attempt follows.
            Err(_) => Ok(()),
        };
        if let Err(problem) = written {
            say(problem);
        }
        std::thread::sleep(METRICS_EVERY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_without_a_store_is_no_silent_loss() {
        let folder = Some(Path::new("/data"));
        assert!(store(None, folder).unwrap_err().to_string().contains("--store page-cache"));
        assert!(matches!(store(None, None), Ok(StorePlan::Memory)));
        assert!(matches!(store(Some(Store::None), folder), Ok(StorePlan::Memory)), "who says so means it");
        let Ok(StorePlan::Journal { folder, .. }) = store(Some(Store::PageCache), folder) else { panic!("a journal") };
        assert_eq!(folder, Path::new("/data"));
        let Ok(StorePlan::Journal { folder, .. }) = store(Some(Store::GroupCommit), None) else { panic!("a journal") };
        assert_eq!(folder, Path::new(STORE_FOLDER));
    }

    #[test]
    fn metrics_go_to_an_address_or_into_a_file() {
        assert_eq!(address("127.0.0.1:9464").unwrap(), "127.0.0.1:9464".parse().ok());
        assert_eq!(address("localhost:9464").unwrap().map(|address| address.port()), Some(9464));
        for file in ["metrics.prom", "/run/a:9464/metrics", "./metrics:1", "./run:late"] {
            assert_eq!(address(file).unwrap(), None, "{file}");
        }
        for wrong in ["localhost:metrics", "127.0.0.1:99999", "127.0.0.1:", "::1"] {
            assert!(address(wrong).unwrap_err().to_string().contains("write ADDRESS:PORT"), "{wrong}");
        }
    }
}
