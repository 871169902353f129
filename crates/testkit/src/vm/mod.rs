//! A stock kernel in a virtual machine, for tests of features that this host's kernel lacks: modules, devices, other
//! versions.
//!
//! A test binary lists its tests with [`vm_tests!`](crate::vm_tests). The first of them that runs boots QEMU (an
//! emulated CPU: it needs no privilege and no hardware) on a Debian kernel that `scripts/vm-kernels` has unpacked. The
//! initial RAM disk holds this binary, which is init in the machine and runs the tests of that kernel as root, each in
//! its own process. If QEMU or the kernel is missing, the tests print "skipped" with the reason; with
//! `SIDESTEP_VM=required` in the environment, as in CI, they fail.
//!
//! ```text
//!  test binary on the host                        the same binary in the machine
//!  run ─ outcome ─ image ── initial RAM disk ───> pid 1: init ─ mounts, modules ─┐
//!            └───── machine ─ QEMU                    └ each test as a process:  run ─ body
//!                      └ transcript <── second serial port ── begin, output, end ┘
//! ```

mod archive;
mod cable;
mod chosen;
mod image;
mod init;
mod kernel;
mod libraries;
mod machine;
mod modules;
mod outcome;
mod own;
mod transcript;

pub use cable::{Cable, MACHINE, PEER, PEER_MAC, Peer, plug};
pub use kernel::Kernel;
pub use own::{load_module, unload_module};

/// Set inside the machine, on the kernel's command line: unknown words there become init's environment.
const INSIDE: &str = "SIDESTEP_VM_INSIDE";

/// Set in the environment, it is set in the machine, too: tests that can run longer do.
const LONG: &str = "SIDESTEP_VM_LONG";

/// The equipment of a test binary's machines.
#[derive(Debug)]
pub struct Plan {
    /// Kernel modules, loaded before the first test together with their dependencies.
    pub modules: &'static [&'static str],
    /// Programs by name or path, put at their path on the host, with their libraries. `ip` is always there.
    pub programs: &'static [&'static str],
    /// Devices in the form of QEMU's `-device`.
    pub devices: &'static [&'static str],
    /// A device that is connected to this host, which takes root.
    pub cable: Option<&'static Cable>,
    /// Modules of ours that `scripts/build-module` builds, for [`load_module`].
    pub own_modules: &'static [&'static str],
    /// Words for the kernel's command line.
    pub arguments: &'static str,
}

impl Plan {
    /// A machine that has only the kernel, `ip`, and the tests.
    pub const BARE: Self =
        Self { modules: &[], programs: &[], devices: &[], cable: None, own_modules: &[], arguments: "" };
}

/// The tests of one binary that run on one kernel.
#[derive(Debug)]
pub struct Suite {
    /// The machine.
    pub plan: &'static Plan,
    /// The kernel.
    pub kernel: Kernel,
    /// `module_path!()` of the tests.
    pub module: &'static str,
    /// Their names in that module.
    pub tests: &'static [&'static str],
}

impl Suite {
    /// The name of a test in the harness: without the crate.
    fn full_name(&self, test: &str) -> String {
        let module = self.module.split_once("::").map_or("", |(_, module)| module);
        if module.is_empty() { test.to_owned() } else { format!("{module}::{test}") }
    }
}

/// Runs the test in a machine; inside a machine, runs its body.
///
/// # Panics
/// Panics if the test failed in the machine, with its output.
pub fn run(suite: &'static Suite, test: &str, body: fn()) {
    match (std::env::var_os(INSIDE), std::process::id()) {
        (None, _) => outcome::of(suite, test),
        (Some(_), 1) => init::run(),
        (Some(_), _) => body(),
    }
}

/// Returns whether this process runs in a test machine.
pub fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// Makes tests out of functions: `vm_tests!(PLAN: one, another);` gives `linux_6_1::one`, `linux_6_12::one`, and so on.
///
/// `PLAN` is a `static` of type [`vm::Plan`](crate::vm::Plan) beside the functions.
#[macro_export]
macro_rules! vm_tests {
    ($plan:ident: $($test:ident),+ $(,)?) => {
        $crate::vm_tests!(@kernel linux_6_1 Linux6_1 $plan: $($test),+);
        $crate::vm_tests!(@kernel linux_6_12 Linux6_12 $plan: $($test),+);
    };
    (@kernel $module:ident $kernel:ident $plan:ident: $($test:ident),+) => {
        mod $module {
            static SUITE: $crate::vm::Suite = $crate::vm::Suite {
                plan: &super::$plan,
                kernel: $crate::vm::Kernel::$kernel,
                module: module_path!(),
                tests: &[$(stringify!($test)),+],
            };
            $(#[test]
            fn $test() {
                $crate::vm::run(&SUITE, stringify!($test), super::$test);
            })+
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_is_named_as_the_harness_names_it() {
        let suite = |module| Suite { plan: &Plan::BARE, kernel: Kernel::Linux6_1, module, tests: &[] };
        assert_eq!(suite("vm::linux_6_1").full_name("a"), "linux_6_1::a");
        assert_eq!(suite("vm::deep::linux_6_1").full_name("a"), "deep::linux_6_1::a");
        assert_eq!(suite("vm").full_name("a"), "a");
    }
}
