//! The modules of a kernel, and their dependencies.

use sidestep_sys::Problem;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The limit of nested folders; a kernel's deepest module is six below.
const DEPTH_MAX: u32 = 16;

/// Modules by name, `-` written as `_`.
#[derive(Debug, Default)]
pub(super) struct Modules {
    files: BTreeMap<String, PathBuf>,
    builtin: BTreeSet<String>,
}

impl Modules {
    /// Finds the modules below `folder`, and those that `builtin` (modules.builtin, one path per line) lists as part of
    /// the kernel.
    pub(super) fn find(folder: &Path, builtin: &str) -> io::Result<Self> {
        let builtin = builtin.lines().filter_map(|line| name(Path::new(line))).collect();
        let mut modules = Self { files: BTreeMap::new(), builtin };
        modules.add(folder, DEPTH_MAX)?;
        Ok(modules)
    }

    fn add(&mut self, folder: &Path, depth: u32) -> io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() && depth > 0 {
                self.add(&entry.path(), depth - 1)?;
            } else if let Some(name) = name(&entry.path()) {
                self.files.insert(name, entry.path());
            }
        }
        Ok(())
    }

    /// The files to load for `wanted`, each after its dependencies, none twice; nothing for built-in ones.
    pub(super) fn in_order(&self, wanted: &[&str]) -> Result<Vec<&Path>, Problem> {
        let mut order = Vec::new();
        for one in wanted {
            self.visit(&one.replace('-', "_"), &mut Vec::new(), &mut order)?;
        }
        Ok(order.iter().map(|name| self.files[name].as_path()).collect())
    }

    fn visit(&self, name: &str, above: &mut Vec<String>, order: &mut Vec<String>) -> Result<(), Problem> {
        if self.builtin.contains(name) || order.iter().any(|known| known == name) {
            return Ok(());
        }
        let failed = |why: String| Problem::failed(format!("cannot load module {name}"), why);
        if above.iter().any(|known| known == name) {
            return Err(failed("it depends on itself".into()));
        }
        let file = self.files.get(name).ok_or_else(|| {
            failed("this kernel has none, or scripts/vm-kernels did not unpack it".into())
                .next("see its folder below target/vm, and the list at the top of scripts/vm-kernels")
        })?;
        let bytes = fs::read(file).map_err(|error| failed(format!("{}: {error}", file.display())))?;
        above.push(name.to_owned());
        for needed in depends(&bytes) {
            self.visit(&needed, above, order)?;
        }
        above.pop();
        order.push(name.to_owned());
        Ok(())
    }
}

/// The module name of a file; `None` for other files.
fn name(path: &Path) -> Option<String> {
    let file = path.file_name()?.to_str()?;
    file.strip_suffix(".ko").map(|stem| stem.replace('-', "_"))
}

/// The dependencies in the section `.modinfo` of a module: `depends=a,b`, between zero bytes.
fn depends(module: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let start = module.windows(KEY.len()).position(|window| window == KEY).map(|at| at + KEY.len());
    let list = start.and_then(|start| module[start..].split(|byte| *byte == 0).next()).unwrap_or_default();
    let names = String::from_utf8_lossy(list).replace('-', "_");
    names.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modules(folder: &Path, list: &[(&str, &str)]) -> Modules {
        fs::create_dir_all(folder.join("net/deep")).unwrap();
        for (name, needs) in list {
            let text = format!("\x7fELF\0license=GPL\0depends={needs}\0name=x\0");
            fs::write(folder.join("net/deep").join(format!("{name}.ko")), text).unwrap();
        }
        Modules::find(folder, "kernel/lib/built-in.ko\n").unwrap()
    }

    fn names(modules: &Modules, wanted: &[&str]) -> Result<Vec<String>, Problem> {
        modules.in_order(wanted).map(|paths| paths.into_iter().filter_map(name).collect())
    }

    #[test]
    fn what_is_needed_comes_first() {
        let folder = tempfile::tempdir().unwrap();
        let list = [("a", "b-c,d"), ("b-c", "d"), ("d", ""), ("e", "a"), ("f", "g"), ("g", "f"), ("h", "gone")];
        let modules = modules(folder.path(), &list);
        assert_eq!(names(&modules, &["a"]).unwrap(), ["d", "b_c", "a"]);
        assert_eq!(names(&modules, &["e", "d", "b-c"]).unwrap(), ["d", "b_c", "a", "e"]);
        assert!(names(&modules, &["built_in", "built-in"]).unwrap().is_empty());
        let problem = |wanted| names(&modules, &[wanted]).unwrap_err().to_string();
        assert!(problem("f").contains("depends on itself"));
        assert!(problem("h").contains("module gone"));
        assert!(problem("nothing").contains("next:"));
    }

    #[test]
    fn what_is_no_module_depends_on_nothing() {
        assert!(depends(b"").is_empty());
        assert!(depends(b"depends=x").is_empty(), "not the start of a string");
        assert_eq!(depends(b"\0depends=x"), ["x"]);
    }
}
