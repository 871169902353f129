//! Kernels, and the place where `scripts/vm-kernels` puts them.

use super::modules::Modules;
use sidestep_sys::Problem;
use std::fs;
use std::path::{Path, PathBuf};

/// A stock kernel of Debian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// The kernel of Debian 12.
    Linux6_1,
    /// The kernel of Debian 13.
    Linux6_12,
}

impl Kernel {
    /// The series, as `uname -r` begins.
    pub fn series(self) -> &'static str {
        match self {
            Self::Linux6_1 => "6.1",
            Self::Linux6_12 => "6.12",
        }
    }

    /// The unpacked kernel.
    pub(super) fn files(self) -> Result<Files, Problem> {
        Files::open(&folder().join(self.series())).map_err(|why| {
            Problem::failed(format!("no Linux {} to boot", self.series()), why)
                .next("fetch it with: scripts/vm-kernels")
        })
    }
}

/// `SIDESTEP_VM_DIR`, or target/vm of the workspace.
fn folder() -> PathBuf {
    let ours = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/vm");
    std::env::var_os("SIDESTEP_VM_DIR").map_or_else(ours, PathBuf::from)
}

/// The content of a kernel's folder.
#[derive(Debug)]
pub(super) struct Files {
    /// The kernel, an ELF file that QEMU enters directly (CONFIG_PVH).
    pub(super) vmlinux: PathBuf,
    /// Its modules.
    pub(super) modules: Modules,
    /// The folder of all that.
    folder: PathBuf,
}

impl Files {
    fn open(folder: &Path) -> Result<Self, String> {
        let vmlinux = folder.join("vmlinux");
        // Written last: a folder that has it is complete.
        let package = folder.join("package");
        fs::metadata(&package).map_err(|error| format!("{}: {error}", package.display()))?;
        let builtin = fs::read_to_string(folder.join("builtin")).map_err(|error| format!("builtin: {error}"))?;
        let modules = Modules::find(&folder.join("modules"), &builtin);
        let modules = modules.map_err(|error| format!("modules: {error}"))?;
        Ok(Self { vmlinux, modules, folder: folder.to_owned() })
    }

    /// The file of a module of ours that was built for this kernel.
    pub(super) fn own_module(&self, name: &str) -> Result<PathBuf, Problem> {
        let file = self.folder.join(format!("{name}.ko"));
        fs::metadata(&file).map_err(|error| {
            Problem::failed(format!("no module {name} to load"), format!("{}: {error}", file.display()))
                .next("build it with: scripts/vm-kernels && scripts/build-module")
        })?;
        Ok(file)
    }
}
