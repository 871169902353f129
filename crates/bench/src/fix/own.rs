//! Our own acceptor: a `sidestep fix exchange` process, started for the run.

use super::process::{Kind, is_tls, new_folder, not_started};
use super::remote::Remote;
use super::veth::{Ends, Wire};
use super::{Acceptor, Reach};
use sidestep_sys::Problem;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::Arc;

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

/// The starter of our acceptors.
pub(super) enum Starter<'a> {
    /// This process, on a CPU of this host.
    Here { program: &'a Path, cpu: u32 },
    /// The peer on another host, on a CPU of its choice unless it is told.
    There { remote: Arc<Remote>, cpu: Option<u32> },
}

/// The processes of our acceptors; dropping ends them and removes their files.
pub(super) struct Exchanges {
    children: Vec<Child>,
    folder: PathBuf,
    pub(super) acceptors: Vec<Acceptor>,
    // Dropped after the processes behind them.
    wires: Vec<Wire>,
}

impl Exchanges {
    /// Starts acceptors, one for each store over each transport: a journal belongs to one session of one process, and each
    /// transport has sessions of its own.
    pub(super) fn start(own: &Own, host: &Starter<'_>) -> Result<Self, Problem> {
        let folder = new_folder()?;
        let mut exchanges = Self { children: Vec::new(), folder, acceptors: Vec::new(), wires: Vec::new() };
        for store in &own.stores {
            for transport in &own.transports {
                exchanges.start_one(transport, Kind::Exchange { store, spin: own.spin }, host)?;
            }
        }
        if own.bare && own.transports.iter().any(|transport| is_tls(transport)) {
            let why = "the bare acceptor speaks no TLS";
            return Err(Problem::usage("cannot measure a bare acceptor over TLS", why).next("leave --bare or TLS out"));
        }
        for transport in own.transports.iter().filter(|_| own.bare) {
            exchanges.start_one(transport, Kind::Bare, host)?;
            let exchange = |store| Kind::Exchange { store, spin: own.spin }.name(transport);
            if let Some(bare) = exchanges.acceptors.last_mut() {
                bare.beside = own.stores.iter().map(|store| exchange(store)).collect();
            }
        }
        Ok(exchanges)
    }

    fn start_one(&mut self, transport: &str, kind: Kind<'_>, host: &Starter<'_>) -> Result<(), Problem> {
        let (reach, pid) = match host {
            Starter::Here { program, cpu } => self.start_here(transport, kind, program, *cpu)?,
            Starter::There { remote, cpu } => (Reach::Far(Box::new(remote.start(transport, kind, *cpu)?)), None),
        };
        let (name, description) = (kind.name(transport), kind.description(transport, &reach));
        self.acceptors.push(Acceptor { name, reach, pid, description, beside: Vec::new() });
        Ok(())
    }

    fn start_here(
        &mut self,
        transport: &str,
        kind: Kind<'_>,
        program: &Path,
        cpu: u32,
    ) -> Result<(Reach, Option<u32>), Problem> {
        let folder = self.folder.join(kind.name(transport));
        let wire = Ends::named(transport).map(Wire::up).transpose()?;
        let listen = wire.as_ref().map_or_else(|| listen(transport, &folder), |wire| Ok(wire.listen()))?;
        let host = wire.as_ref().map(Wire::host);
        let (child, address) = kind.start(program, &listen, is_tls(transport), &folder, cpu, host)?;
        let pid = child.id();
        self.children.push(child);
        let reach = match &wire {
            Some(wire) => Reach::Wire(Box::new(wire.way(&address, pid, is_tls(transport))?)),
            None if is_tls(transport) => format!("tls:{address}").parse().map_err(not_started)?,
            None => address.parse().map_err(not_started)?,
        };
        self.wires.extend(wire);
        Ok((reach, Some(pid)))
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
        "tcp" | "tls" => Ok("127.0.0.1:0".into()),
        "uds" => Ok(format!("unix:{}", folder.join("uds").display())),
        "shm" => Ok(format!("shm:{}", folder.join("shm").display())),
        _ => Err(Problem::usage(format!("cannot start our own acceptor over {transport:?}"), "it is unknown").next(
            "choose from: tcp, tls, uds, shm, veth, xdp, xdp-one-end, each of these three with -tls; start another one yourself and give --acceptor",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_no_exchange_is_refused_and_nothing_is_left() {
        let own = Own { transports: vec!["tcp".into()], stores: vec!["none".into()], spin: true, bare: false };
        for (program, why) in [("true", "ended early"), ("echo", "it says"), ("/no/such/program", "No such file")] {
            let here = Starter::Here { program: Path::new(program), cpu: 0 };
            let problem = Exchanges::start(&own, &here).err().expect("it is none").to_string();
            assert!(problem.contains(why), "{problem}");
        }
        let other = Own { transports: vec!["carrier-pigeon".into()], ..own };
        assert!(
            Exchanges::start(&other, &Starter::Here { program: Path::new("true"), cpu: 0 })
                .err()
                .expect("unknown")
                .to_string()
                .contains("pigeon")
        );
    }
}
