//! The acceptors at the peer's end of a measurement between two hosts: started on request, all stopped but one.

use super::passage::{Passage, Stack};
use super::process::{Kind, new_folder};
use crate::peer::protocol::Acceptor as Wish;
use sidestep_control_api::place;
use sidestep_sys::Problem;
use sidestep_sys::process::Process;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::Child;

/// The most acceptors of a session: each is a process.
const ACCEPTORS_MAX: usize = 16;
/// The stores that `sidestep fix exchange` knows.
const STORES: [&str; 3] = ["none", "page-cache", "group-commit"];
/// Signal numbers of x86 and ARM (signal(7)).
const SIGCONT: i32 = 18;
const SIGSTOP: i32 = 19;

/// The acceptors of a session; dropping ends them and removes their files.
#[derive(Default)]
pub(crate) struct Acceptors {
    folder: Option<PathBuf>,
    all: Vec<One>,
}

struct One {
    child: Child,
    process: Process,
    /// Of one past the kernel.
    stack: Option<Stack>,
    passage: Option<Passage>,
}

impl Acceptors {
    /// Returns whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Starts one at `local`, past the kernel on `interface` if there is one, and stops it. Returns its port.
    pub(crate) fn start(
        &mut self,
        wish: &Wish,
        local: IpAddr,
        interface: Option<&str>,
        cpu: u32,
    ) -> Result<u16, Problem> {
        let what = "cannot start an acceptor";
        if self.all.len() >= ACCEPTORS_MAX {
            return Err(Problem::usage(what, format!("a session has at most {ACCEPTORS_MAX}")).next("ask for fewer"));
        }
        if !STORES.contains(&wish.store.as_str()) {
            return Err(
                Problem::usage(what, "its store is unknown").next(format!("choose from: {}", STORES.join(", ")))
            );
        }
        let kind = match wish.bare {
            true => Kind::Bare,
            false => Kind::Exchange { store: &wish.store, spin: wish.spin },
        };
        let address = SocketAddr::new(local, 0);
        let listen = interface.map_or_else(|| address.to_string(), |name| format!("xdp:{name}:{address}"));
        let folder = match &self.folder {
            Some(folder) => folder,
            None => self.folder.insert(new_folder()?),
        };
        let folder = folder.join(self.all.len().to_string());
        let failed = |error| Problem::failed(what, error);
        let program = std::env::current_exe().map_err(failed)?;
        let (mut child, address) = kind.start(&program, &listen, wish.tls, &folder, cpu, None)?;
        let started = of_child(&child, interface.is_some());
        let (process, stack) = started.inspect_err(|_| {
            let _ = child.kill();
            let _ = child.wait();
        })?;
        self.all.push(One { child, process, stack, passage: None });
        process.signal(SIGSTOP).map_err(failed)?;
        let port = address.rsplit(':').next().and_then(|port| port.parse().ok());
        port.ok_or_else(|| Problem::failed(what, format!("it says it listens on {address:?}")))
    }

    /// Stops all but acceptor `number`, and waits until that one can be reached.
    pub(crate) fn awake(&mut self, number: u32) -> Result<(), Problem> {
        let failed = |error| Problem::failed("cannot stop or continue an acceptor", error);
        for one in &self.all {
            one.process.signal(SIGSTOP).map_err(failed)?;
        }
        let one = self.one(number)?;
        if !one.process.signal(SIGCONT).map_err(failed)? {
            return Err(Problem::failed("lost an acceptor", "its process has ended"));
        }
        one.passage = one.stack.as_ref().map(Stack::awake).transpose()?;
        Ok(())
    }

    /// Returns the frames that acceptor `number` has received past the kernel since it is awake.
    pub(crate) fn frames(&mut self, number: u32) -> Result<u64, Problem> {
        self.one(number)?.passage.as_mut().map_or(Ok(0), Passage::frames)
    }

    fn one(&mut self, number: u32) -> Result<&mut One, Problem> {
        let unknown =
            || Problem::usage(format!("there is no acceptor {number}"), "it was not started").next("ask for it first");
        usize::try_from(number).ok().and_then(|number| self.all.get_mut(number)).ok_or_else(unknown)
    }
}

fn of_child(child: &Child, is_past_kernel: bool) -> Result<(Process, Option<Stack>), Problem> {
    let ended = || Problem::failed("cannot start an acceptor", "it ended early");
    let process = Process::of(child.id()).ok().flatten().ok_or_else(ended)?;
    let stack = is_past_kernel.then(|| Stack::of(place::socket()?, child.id())).transpose()?;
    Ok((process, stack))
}

impl Drop for Acceptors {
    fn drop(&mut self) {
        for one in &mut self.all {
            // SIGKILL ends a stopped process, too.
            let _ = one.child.kill();
            let _ = one.child.wait();
        }
        if let Some(folder) = &self.folder {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}
