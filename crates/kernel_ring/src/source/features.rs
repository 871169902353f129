//! What this kernel has of what the sources need.

use libbpf_rs::ProgramType;
use libbpf_rs::libbpf_sys::{BPF_FUNC_loop, BPF_FUNC_timer_init};
use sidestep_sys::Problem;

/// The features that were found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Features {
    pub(super) has_syscall_programs: bool,
    pub(super) has_timer: bool,
    pub(super) has_loop: bool,
}

impl Features {
    /// Tries each of them: root only, others seem to have none.
    pub(super) fn probe() -> Result<Self, Problem> {
        let failed = |error: libbpf_rs::Error| Problem::failed("cannot ask which BPF features this kernel has", error);
        // The helpers are those of every type of program: XDP is the oldest one here.
        let helper = |id| ProgramType::Xdp.is_helper_supported(id).map_err(failed);
        Ok(Self {
            has_syscall_programs: ProgramType::Syscall.is_supported().map_err(failed)?,
            has_timer: helper(BPF_FUNC_timer_init)?,
            has_loop: helper(BPF_FUNC_loop)?,
        })
    }

    /// Refuses a kernel without a timer for BPF programs, and names what it lacks.
    pub(super) fn require_timer(self) -> Result<(), Problem> {
        self.require(self.has_syscall_programs, "programs of type syscall: Linux 5.14")?;
        self.require(self.has_timer, "bpf_timer: Linux 5.15")
    }

    /// Refuses a kernel without loops of BPF programs, and names what it lacks.
    pub(super) fn require_loop(self) -> Result<(), Problem> {
        self.require(self.has_syscall_programs, "programs of type syscall: Linux 5.14")?;
        self.require(self.has_loop, "bpf_loop: Linux 5.17")
    }

    #[expect(clippy::unused_self, reason = "it reads as a question to the features")]
    fn require(self, has: bool, what: &str) -> Result<(), Problem> {
        if has {
            return Ok(());
        }
        Err(Problem::failed("this kernel cannot run the source of events", format!("it lacks {what}"))
            .next("measure on a newer kernel, or another source: --source xdp"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_feature_is_named() {
        let none = Features { has_syscall_programs: true, has_timer: false, has_loop: false };
        assert!(none.require_timer().unwrap_err().to_string().contains("bpf_timer: Linux 5.15"));
        assert!(none.require_loop().unwrap_err().to_string().contains("bpf_loop: Linux 5.17"));
        let older = Features { has_syscall_programs: false, ..none };
        assert!(older.require_timer().unwrap_err().to_string().contains("syscall: Linux 5.14"));
        assert!(Features { has_timer: true, ..none }.require_timer().is_ok());
    }
}
