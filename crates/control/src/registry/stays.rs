//! Processes for which a control that ends when it is not used stays: programs of `sidestep run`, which connect with their first
//! socket, and may not have one yet.

use sidestep_control_api::message::{Code, Refusal};
use sidestep_sys::owner::Owner;
use sidestep_sys::process::{Process, Watch};

/// The most processes, and the most of one owner: each costs a descriptor.
const STAYS_MAX: usize = 1024;
const STAYS_PER_OWNER_MAX: usize = 256;

/// The processes.
#[derive(Debug, Default)]
pub(super) struct Stays(Vec<Stay>);

#[derive(Debug)]
struct Stay {
    owner: Owner,
    process: Process,
    watch: Watch,
}

impl Stays {
    /// Adds a process; one that is there already stays.
    pub(super) fn add(&mut self, owner: Owner, process: Option<Process>) -> Result<(), Refusal> {
        let refused = |code, reason| Refusal::new(code, "cannot stay for this process", reason);
        self.forget_ended();
        if self.0.iter().any(|stay| Some(stay.process) == process) {
            return Ok(());
        }
        let of_owner = self.0.iter().filter(|stay| stay.owner == owner).count();
        if self.0.len() >= STAYS_MAX || of_owner >= STAYS_PER_OWNER_MAX {
            return Err(
                refused(Code::Limit, "it stays for too many").next("start sidestep control by hand, which stays")
            );
        }
        let watch = process.and_then(|process| Some((process, Watch::new(process).ok().flatten()?)));
        let (process, watch) = watch.ok_or_else(|| refused(Code::NotAllowed, "the control plane cannot see it"))?;
        self.0.push(Stay { owner, process, watch });
        Ok(())
    }

    /// Returns whether any of the processes lives.
    pub(super) fn any(&mut self) -> bool {
        self.forget_ended();
        !self.0.is_empty()
    }

    fn forget_ended(&mut self) {
        self.0.retain(|stay| !stay.watch.has_ended());
    }
}
