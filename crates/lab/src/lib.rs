//! Two hosts on one machine, with a wire between them that can be impaired.
//!
//! [`Lab::up`] makes two hosts out of network namespaces and joins them by a veth pair; nothing of it is visible in the
//! machine's own namespace. [`wire::Impairment`] describes the impairment of the wire per direction.
//!
//! An ephemeral lab is removed when its value is dropped. SIGINT does not drop anything: a program that wants its lab
//! removed on Ctrl-C handles the signal by a flag and returns normally. After SIGKILL the next [`Lab::up`], or
//! [`Lab::sweep_stale`], finds the lab by its record and removes it.
//!
//! The records are in `/run/sidestep/labs` (or `$SIDESTEP_STATE_DIR/labs`), one `NAME.json` per lab, written before
//! anything of the lab is made.
#![forbid(unsafe_code)]

mod build;
mod directory;
mod holders;
mod host;
mod ip;
mod listing;
mod mark;
mod name;
mod options;
mod privilege;
mod ready;
mod relay;
mod removal;
mod state;
mod sweep;
mod teardown;
pub mod wire;

use sidestep_sys::problem::{Problem, say};
use sidestep_sys::process::Process;

pub use host::{Host, Side};
pub use listing::{Condition, Listing};
pub use options::{Checksums, Lifetime, MTU_USUAL, Options};
pub use relay::run_wire;
pub use removal::Removal;

pub use wire::Impairment;

use crate::wire::{Directions, WireCounters};
use directory::{Directory, Lock};
use ip::Ip;
use mark::Mark;
use name::LabName;
use relay::RelayThread;
use state::State;

/// The limit of draws of a random name: this many names in use are no accident.
const NAME_ATTEMPTS_MAX: usize = 100;

/// A lab that is up.
#[derive(Debug)]
pub struct Lab {
    ip: Ip,
    directory: Directory,
    state: State,
    swept: Vec<String>,
    /// The impaired wire, if a thread of this process runs it.
    relay: Option<RelayThread>,
    /// True if it is removed on drop: this process owns it and has not taken it down yet.
    is_ours: bool,
}

impl Lab {
    /// Makes a lab. Dead labs of others are removed first ([`Lab::swept`] lists them).
    pub fn up(options: &Options) -> Result<Self, Problem> {
        options.check()?;
        let ip = Ip::find()?;
        privilege::check(options.impairment.is_some())?;
        let directory = Directory::from_environment();
        let owner = this_process()?;
        let (state, swept) = {
            let lock = directory.lock()?;
            let swept = sweep::sweep(&ip, &directory, &lock)?;
            (claim(&directory, options, owner, &lock)?, swept)
        };
        let mut lab = Self { ip, directory, state, swept, relay: None, is_ours: true };
        let mut created = Vec::new();
        match lab.build(options, owner, &mut created) {
            Ok(()) => Ok(lab),
            Err(problem) => {
                lab.undo(&created);
                Err(problem)
            }
        }
    }

    fn build(&mut self, options: &Options, owner: Process, created: &mut Vec<String>) -> Result<(), Problem> {
        build::build(&self.ip, &self.state, Mark::Owner(owner), created)?;
        if let Some(impairment) = self.state.impairment.clone() {
            self.start_wire(options, impairment)?;
        }
        if options.lifetime == Lifetime::Persistent {
            self.release()?;
        }
        Ok(())
    }

    fn start_wire(&mut self, options: &Options, impairment: Directions<Impairment>) -> Result<(), Problem> {
        let Some(program) = options.relay_program.as_ref().filter(|_| options.lifetime == Lifetime::Persistent) else {
            self.relay = Some(RelayThread::start(&self.state.name, impairment)?);
            return Ok(());
        };
        let Self { directory, state, .. } = self;
        relay::start_process(directory, &state.name.clone(), program, |process| {
            state.wire = Some(process.into());
            directory.store(state)
        })
    }

    /// Removes a half-built lab, and nothing that existed before it.
    fn undo(&mut self, created: &[String]) {
        self.is_ours = false;
        self.relay = None;
        let wire = self.state.wire.map(Process::from);
        if let Err(problem) = teardown::remove(&self.ip, &self.directory, &self.state.name, wire, created) {
            // The caller gets the error of building, which matters more; the next lab removes the rest of this one.
            say(problem);
        }
    }

    /// Makes the lab outlive this process.
    fn release(&mut self) -> Result<(), Problem> {
        build::mark_persistent(&self.ip, &self.state)?;
        self.state.owner = None;
        self.directory.store(&self.state)?;
        self.is_ours = false;
        Ok(())
    }

    /// Opens an existing lab; dropping the value leaves it up.
    pub fn open(name: &str) -> Result<Self, Problem> {
        let name = LabName::new(name)?;
        let directory = Directory::from_environment();
        let what = format!("cannot open lab {name}");
        let state = match directory.load(&name)? {
            Some(Ok(state)) => state,
            Some(Err(damage)) => {
                return Err(Problem::failed(what, format!("its record is damaged: {damage}"))
                    .next(format!("remove it with: sidestep lab down {name}")));
            }
            None => {
                return Err(Problem::failed(what, "there is no such lab").next(format!(
                    "make it with: sidestep lab up {name}, or list the labs with: sidestep lab status"
                )));
            }
        };
        if let Some(reason) = sweep::death(&state) {
            return Err(Problem::failed(what, reason).next("make it again; the dead one is removed by that"));
        }
        if let Some(host) = state.hosts.iter().find(|host| !host.namespace_path.exists()) {
            return Err(Problem::failed(what, format!("its namespace {} is gone", host.namespace))
                .next(format!("remove the rest with: sidestep lab down {name}")));
        }
        Ok(Self { ip: Ip::find()?, directory, state, swept: Vec::new(), relay: None, is_ours: false })
    }

    /// Every lab that has a record.
    pub fn list() -> Result<Vec<Listing>, Problem> {
        listing::list(&Directory::from_environment())
    }

    /// Removes dead labs that sidestep certainly made; returns a line for each.
    pub fn sweep_stale() -> Result<Vec<String>, Problem> {
        let ip = Ip::find()?;
        privilege::check(false)?;
        let directory = Directory::from_environment();
        let lock = directory.lock()?;
        sweep::sweep(&ip, &directory, &lock)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.state.name.as_str()
    }

    /// One of its hosts.
    pub fn host(&self, side: Side) -> &Host {
        match side {
            Side::A => &self.state.hosts[0],
            Side::B => &self.state.hosts[1],
        }
    }

    /// The same host by its interface of the second pair, if the lab was made with one ([`Options::frames_pair`]).
    pub fn by_frames(&self, side: Side) -> Option<Host> {
        self.state.frames_pair.then(|| self.host(side).by_frames())
    }

    /// The state of checksums in the frames between the hosts.
    pub fn checksums(&self) -> Checksums {
        self.state.checksums
    }

    /// The counters of the frames, per direction; `None` for a perfect wire. For a persistent lab they are up to a
    /// second old; another process's ephemeral lab has none.
    pub fn counters(&self) -> Result<Option<Directions<WireCounters>>, Problem> {
        match (&self.relay, self.state.wire) {
            (Some(relay), _) => Ok(Some(relay.counters())),
            (None, Some(_)) => relay::reported_counters(&self.directory, &self.state.name).map(Some),
            (None, None) => Ok(None),
        }
    }

    /// The dead labs that were removed before this lab was made.
    pub fn swept(&self) -> &[String] {
        &self.swept
    }

    /// Takes the lab down; returns remarks for the user, such as processes that were inside. After a refusal the lab is
    /// unchanged.
    pub fn down(&mut self, removal: Removal) -> Result<Option<String>, Problem> {
        let _lock = self.directory.lock()?;
        let State { name, wire, .. } = &self.state;
        if removal == Removal::Careful {
            removal::refuse_if_used(&self.ip, name, Some(&self.state))?;
        }
        self.relay = None;
        let namespaces = self.state.existing_namespaces();
        let remark = teardown::remove(&self.ip, &self.directory, name, wire.map(Process::from), &namespaces)?;
        self.is_ours = false;
        Ok(remark)
    }

    /// Takes down the lab of this name, even if its record is damaged or parts of it are gone.
    pub fn down_by_name(name: &str, removal: Removal) -> Result<Option<String>, Problem> {
        let name = LabName::new(name)?;
        let ip = Ip::find()?;
        privilege::check(false)?;
        removal::by_name(&ip, &Directory::from_environment(), &name, removal)
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if !self.is_ours {
            return;
        }
        // Drop has no caller to return the answer to.
        match self.down(Removal::Forced) {
            Ok(None) => {}
            Ok(Some(remark)) => say(remark),
            Err(problem) => say(problem),
        }
    }
}

fn this_process() -> Result<Process, Problem> {
    Process::this().map_err(|error| {
        Problem::failed("cannot read when this process was started", error).next("mount /proc, then try again")
    })
}

/// Claims the name and writes the record: from now on the lab is found even if this process is killed.
fn claim(directory: &Directory, options: &Options, owner: Process, _lock: &Lock) -> Result<State, Problem> {
    let is_free = |name: &LabName| !directory.has(name) && state::existing_namespaces(name).is_empty();
    let name = match &options.name {
        Some(name) => Some(LabName::new(name)?).filter(is_free),
        None => (0..NAME_ATTEMPTS_MAX).map(|_| LabName::random()).find(is_free),
    };
    let name = name.ok_or_else(|| {
        let name = options.name.as_deref().unwrap_or("of a random name");
        Problem::failed(format!("cannot make lab {name}"), "there is one of this name")
            .next(format!("choose another name, or take it down with: sidestep lab down {name}"))
    })?;
    let state = State::new(name, options, owner, build::has_ipv6());
    directory.store(&state)?;
    Ok(state)
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
