//! Our own acceptor: a `sidestep fix exchange` process, started for the run.

use super::veth::{Ends, Wire};
use super::{Acceptor, Reach, certificate};
use sidestep_sys::{Problem, process};
use std::fs::DirBuilder;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

/// Our acceptors to be measured: each store over each transport.
#[derive(Clone, Debug, Default)]
pub struct Own {
    /// `tcp`, `tls`, `uds`, `shm`; behind a veth in a lab, which needs root: `veth` (TCP by the kernel), `xdp-one-end` (the acceptor
    /// past the kernel), `xdp` (the client, too), and each of them with `-tls`.
    pub transports: Vec<String>,
    /// Stores, as `sidestep fix exchange --store` knows them.
    pub stores: Vec<String>,
    /// Set if it spins; else it sleeps until something arrives.
    pub spin: bool,
    /// Set if a bare acceptor ([`Bare`](super::Bare)) is measured beside them over each transport.
    pub bare: bool,
}

/// A process to be started.
#[derive(Clone, Copy, Debug)]
enum Kind<'a> {
    Exchange { store: &'a str, spin: bool },
    Bare,
}

/// The transport that is TLS over the kernel's TCP of this host.
const TLS: &str = "tls";

/// Returns whether records of TLS travel over a transport: `tls`, `veth-tls`, `xdp-tls`.
fn is_tls(transport: &str) -> bool {
    transport.rsplit('-').next() == Some(TLS)
}

/// The store without a suffix in the name of a path: an engine's default.
const USUAL_STORE: &str = "page-cache";

/// The processes of our acceptors; dropping ends them and removes their files.
pub(super) struct Exchanges {
    children: Vec<Child>,
    folder: PathBuf,
    pub(super) acceptors: Vec<Acceptor>,
    // Dropped after the processes behind them.
    wires: Vec<Wire>,
}

impl Exchanges {
    /// Starts `program` on `cpu`, once for each store over each transport: a journal belongs to one session of one process,
    /// and each transport has sessions of its own.
    pub(super) fn start(own: &Own, program: &Path, cpu: u32) -> Result<Self, Problem> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("sidestep-fix-{}-{number}", std::process::id()));
        // It must not exist yet, and only this user may enter it: others can guess its name.
        let made = DirBuilder::new().mode(0o700).create(&folder);
        made.map_err(|error| Problem::failed(format!("cannot create {}", folder.display()), error))?;
        let mut exchanges = Self { children: Vec::new(), folder, acceptors: Vec::new(), wires: Vec::new() };
        for store in &own.stores {
            for transport in &own.transports {
                exchanges.start_one(transport, Kind::Exchange { store, spin: own.spin }, program, cpu)?;
            }
        }
        if own.bare && own.transports.iter().any(|transport| is_tls(transport)) {
            let why = "the bare acceptor speaks no TLS";
            return Err(Problem::usage("cannot measure a bare acceptor over TLS", why).next("leave --bare or TLS out"));
        }
        for transport in own.transports.iter().filter(|_| own.bare) {
            exchanges.start_one(transport, Kind::Bare, program, cpu)?;
            let exchange = |store| Kind::Exchange { store, spin: own.spin }.name(transport);
            if let Some(bare) = exchanges.acceptors.last_mut() {
                bare.beside = own.stores.iter().map(|store| exchange(store)).collect();
            }
        }
        Ok(exchanges)
    }

    fn start_one(&mut self, transport: &str, kind: Kind<'_>, program: &Path, cpu: u32) -> Result<(), Problem> {
        let failed = |why: String| Problem::failed("cannot start our own acceptor", why);
        let folder = self.folder.join(kind.name(transport));
        let wire = Ends::named(transport).map(Wire::up).transpose()?;
        let listen = wire.as_ref().map_or_else(|| listen(transport, &folder), |wire| Ok(wire.listen()))?;
        std::fs::create_dir_all(&folder).map_err(|error| failed(error.to_string()))?;
        let mut command = kind.command(program, &folder);
        command.args(["--listen", &listen, "--cpu", &cpu.to_string()]);
        if is_tls(transport) {
            certificate::make(&folder)?.present(&mut command);
        }
        // Ctrl-C is for the client alone, which then ends its acceptors.
        command.stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0);
        // One that spins would go on for ever if this process were killed. This thread lives until the run ends.
        process::die_with_parent(&mut command);
        let mut child = match &wire {
            Some(wire) => wire.host().spawn(&mut command)?,
            None => command.spawn().map_err(|error| failed(error.to_string()))?,
        };
        let output = child.stdout.take().map(BufReader::new);
        let pid = child.id();
        self.children.push(child);
        let line = output.into_iter().flat_map(BufRead::lines).map_while(Result::ok).next();
        let line = line.ok_or_else(|| failed("it ended early".into()))?;
        let address = line.strip_prefix("listening on ").ok_or_else(|| failed(format!("it says {line:?}")))?;
        let reach = match &wire {
            Some(wire) => Reach::Wire(Box::new(wire.way(address, pid, is_tls(transport))?)),
            None if is_tls(transport) => format!("tls:{address}").parse().map_err(failed)?,
            None => address.parse().map_err(failed)?,
        };
        self.wires.extend(wire);
        let (name, description) = (kind.name(transport), kind.description(transport, &reach));
        self.acceptors.push(Acceptor { name, reach, pid: Some(pid), description, beside: Vec::new() });
        Ok(())
    }
}

impl Drop for Exchanges {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn listen(transport: &str, folder: &Path) -> Result<String, Problem> {
    match transport {
        "tcp" | TLS => Ok("127.0.0.1:0".into()),
        "uds" => Ok(format!("unix:{}", folder.join("uds").display())),
        "shm" => Ok(format!("shm:{}", folder.join("shm").display())),
        _ => Err(Problem::usage(format!("cannot start our own acceptor over {transport:?}"), "it is unknown").next(
            "choose from: tcp, tls, uds, shm, veth, xdp, xdp-one-end, each of these three with -tls; start another one yourself and give --acceptor",
        )),
    }
}

impl Kind<'_> {
    fn command(self, program: &Path, folder: &Path) -> Command {
        let mut command = Command::new(program);
        match self {
            Self::Exchange { store, spin } => {
                command.args(["fix", "exchange", "--store", store]).args(spin.then_some("--spin"));
                command.arg("--store-path").arg(folder.join("store"));
            }
            Self::Bare => drop(command.args(["bench", "fix-bare"])),
        }
        command
    }

    fn name(self, transport: &str) -> String {
        let transport = (transport != "tcp").then_some(transport);
        let parts = match self {
            Self::Exchange { store, spin } => {
                vec![Some("sidestep"), transport, (store != USUAL_STORE).then_some(store), (!spin).then_some("block")]
            }
            Self::Bare => vec![Some("bare"), transport],
        };
        parts.into_iter().flatten().collect::<Vec<_>>().join("-")
    }

    fn description(self, transport: &str, reach: &Reach) -> String {
        let medium = reach.transport();
        let way = match Ends::named(transport) {
            None => "",
            Some(Ends::None) => " by the kernel, through a veth between two namespaces",
            Some(Ends::Acceptor) => {
                " past the kernel at its end, through a veth between two namespaces; the client's end is the kernel's"
            }
            Some(Ends::Both) => " past the kernel at both ends, through a veth between two namespaces",
        };
        let tls = if is_tls(transport) { "; its certificate is made for the run, and not verified" } else { "" };
        match self {
            Self::Exchange { store, spin } => {
                let waits = if spin { "spins" } else { "sleeps until something comes" };
                format!(
                    "sidestep fix exchange over {medium}{way}: it {waits}; its store is {store}; no dictionary{tls}."
                )
            }
            Self::Bare => format!(
                "The bare acceptor over {medium}{way}: it spins, and answers with reports that were encoded before: \
                 the transport's own time for the same bytes."
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_is_not_usual() {
        let name = |transport, store, spin| Kind::Exchange { store, spin }.name(transport);
        assert_eq!(name("tcp", "page-cache", true), "sidestep");
        assert_eq!(name("uds", "none", true), "sidestep-uds-none");
        assert_eq!(name("tcp", "page-cache", false), "sidestep-block");
        assert_eq!([Kind::Bare.name("tcp"), Kind::Bare.name("xdp")], ["bare", "bare-xdp"]);
    }

    #[test]
    fn a_program_that_is_no_exchange_is_refused_and_nothing_is_left() {
        let own = Own { transports: vec!["tcp".into()], stores: vec!["none".into()], spin: true, bare: false };
        for (program, why) in [("true", "ended early"), ("echo", "it says"), ("/no/such/program", "No such file")] {
            let problem = Exchanges::start(&own, Path::new(program), 0).err().expect("it is none").to_string();
            assert!(problem.contains(why), "{problem}");
        }
        let other = Own { transports: vec!["carrier-pigeon".into()], ..own };
        assert!(Exchanges::start(&other, Path::new("true"), 0).err().expect("unknown").to_string().contains("pigeon"));
    }
}
