//! The initial RAM disk: this test binary, the programs and modules it needs, and the list of tests.

use super::Plan;
use super::archive::Archive;
use super::kernel::Files;
use super::{libraries, own};
use sidestep_sys::Problem;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Modules in the order of loading, one path per line.
pub(super) const MODULES: &str = "/vm/modules";
/// Tests in the order of running, one name per line.
pub(super) const TESTS: &str = "/vm/tests";
/// Mount points of file systems, and /tmp.
const MOUNTS: [&str; 5] = ["/dev", "/proc", "/sys", "/tmp", "/run"];

/// Writes the image into `folder` and returns its path.
pub(super) fn write(folder: &Path, kernel: &Files, plan: &Plan, tests: &[String]) -> Result<PathBuf, Problem> {
    let modules = kernel.modules.in_order(plan.modules)?;
    let binary = this_binary()?;
    let mut programs = vec![binary, libraries::find("ip")?];
    for program in plan.programs {
        programs.push(libraries::find(program)?);
    }
    let path = folder.join("image.cpio");
    let failed = |error| Problem::failed("cannot write the machine's image", error);
    let mut image = Image { archive: Archive::new(BufWriter::new(File::create(&path).map_err(failed)?)), folder };
    image.skeleton(&modules, tests).map_err(failed)?;
    for module in plan.own_modules {
        let file = kernel.own_module(module)?;
        let bytes =
            fs::read(&file).map_err(|error| Problem::failed(format!("cannot read {}", file.display()), error))?;
        image.file(&own::place(module), &bytes)?;
    }
    image.programs(&programs)?;
    image.archive.finish().map_err(failed)?;
    Ok(path)
}

/// The running program: in the machine it has the same path.
pub(super) fn this_binary() -> Result<PathBuf, Problem> {
    std::env::current_exe().map_err(|error| Problem::failed("cannot find this program's file", error))
}

struct Image<'a> {
    archive: Archive<BufWriter<File>>,
    folder: &'a Path,
}

impl Image<'_> {
    fn skeleton(&mut self, modules: &[&Path], tests: &[String]) -> std::io::Result<()> {
        for mount in MOUNTS {
            self.archive.folder(Path::new(mount))?;
        }
        // Pid 1 writes there before it has mounted anything.
        self.archive.device(Path::new("/dev/console"), (5, 1))?;
        let mut list = String::new();
        for module in modules {
            let place = Path::new("/vm/module").join(module.file_name().unwrap_or_default());
            self.archive.file(&place, &fs::read(module)?)?;
            list += &format!("{}\n", place.display());
        }
        self.archive.file(Path::new(MODULES), list.as_bytes())?;
        self.archive.file(Path::new(TESTS), tests.join("\n").as_bytes())
    }

    fn programs(&mut self, programs: &[PathBuf]) -> Result<(), Problem> {
        let mut needed = BTreeSet::new();
        for program in programs {
            needed.extend(libraries::of(program)?);
        }
        let unreadable = |path: &Path, error| Problem::failed(format!("cannot read {}", path.display()), error);
        for library in &needed {
            let bytes = fs::read(library).map_err(|error| unreadable(library, error))?;
            self.file(library, &bytes)?;
        }
        for program in programs.iter().collect::<BTreeSet<_>>() {
            let bytes = self.without_debug_information(program).map_err(|error| unreadable(program, error))?;
            self.file(program, &bytes)?;
        }
        Ok(())
    }

    fn file(&mut self, path: &Path, bytes: &[u8]) -> Result<(), Problem> {
        let failed = |error| Problem::failed(format!("cannot put {} into the machine's image", path.display()), error);
        self.archive.file(path, bytes).map_err(failed)
    }

    /// Strips a program to a tenth of its size, because the emulated CPU has to copy it. Without strip(1), or if it
    /// fails, the whole program is used.
    fn without_debug_information(&self, program: &Path) -> std::io::Result<Vec<u8>> {
        let out = self.folder.join("stripped");
        let mut strip = Command::new("strip");
        strip.arg("--strip-debug").arg("-o").arg(&out).arg(program).stderr(Stdio::null());
        let is_stripped = strip.status().is_ok_and(|status| status.success());
        fs::read(if is_stripped { &out } else { program })
    }
}
