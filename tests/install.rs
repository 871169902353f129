//! `make install`: every file of packaging/files and no other, nothing built, nothing left by `make uninstall`.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// What others depend on by name, below PREFIX. The rest of packaging/files are patterns of the repository's own files.
const PROMISED: &[&str] = &[
    "bin/sidestep",
    "lib/sidestep/libsidestep.so",
    "lib/libsidestep_c.so.1",
    "lib/libsidestep_c.so",
    "lib/libsidestep_c.a",
    "lib/pkgconfig/sidestep.pc",
    "lib/systemd/system/sidestep-control.service",
    "lib/sysusers.d/sidestep.conf",
    "share/man/man1/sidestep.1",
    "share/man/man1/sidestep-bench-rr.1",
    "share/man/man7/sidestep-tune-checks.7",
    "share/bash-completion/completions/sidestep",
    "share/zsh/site-functions/_sidestep",
    "share/fish/vendor_completions.d/sidestep.fish",
    "share/sidestep/profiles/run/latency.toml",
    "share/sidestep/profiles/tune/drivers.toml",
    "share/doc/sidestep/README.md",
    "share/doc/sidestep/examples/udp_echo.rs",
];

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A folder that stands for `target` after `make build`, and one to install to.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Self { folder: tempfile::tempdir().unwrap() };
        let built = place.built();
        for name in ["release/libsidestep_preload.so", "release/libsidestep_c.so", "c/libsidestep_c.a"] {
            fs::create_dir_all(built.join(name).parent().unwrap()).unwrap();
            fs::write(built.join(name), name).unwrap();
        }
        fs::copy(env!("CARGO_BIN_EXE_sidestep"), built.join("release/sidestep")).unwrap();
        let mut share = Command::new(repository().join("packaging/share"));
        let done = share.arg(env!("CARGO_BIN_EXE_sidestep")).arg(built.join("share")).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        place
    }

    fn built(&self) -> PathBuf {
        self.folder.path().join("built")
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    /// `make TARGET` without cargo: it must not be called.
    fn make(&self, target: &str) -> Output {
        let mut make = Command::new("make");
        make.args(["--silent", target, "CARGO=false", "PREFIX=/opt/x"])
            .arg(format!("DESTDIR={}", self.root().display()));
        make.env("BUILT", self.built()).env_remove("MAKEFLAGS").current_dir(repository()).output().unwrap()
    }

    fn made(&self, target: &str) -> String {
        let done = self.make(target);
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8_lossy(&done.stderr).into_owned()
    }

    fn files(&self) -> BTreeSet<PathBuf> {
        let root = self.root();
        below(&root).iter().map(|path| path.strip_prefix(&root).unwrap().to_owned()).collect()
    }
}

fn below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { below(&path) } else { vec![path] }).collect()
}

#[test]
fn what_is_listed_is_installed_and_removed() {
    let place = Place::new();
    place.made("install");
    let files = place.files();
    for promised in PROMISED {
        assert!(files.contains(&Path::new("opt/x").join(promised)), "{promised} is not installed: {files:?}");
    }
    for header in fs::read_dir(repository().join("include/sidestep")).unwrap().flatten() {
        assert!(files.contains(&Path::new("opt/x/include/sidestep").join(header.file_name())), "{header:?}");
    }
    let read = |path: &str| fs::read_to_string(place.root().join(path)).unwrap();
    let unit = read("opt/x/lib/systemd/system/sidestep-control.service");
    assert!(unit.contains("ExecStart=/opt/x/bin/sidestep control") && !unit.contains("/usr/local"), "{unit}");
    assert!(unit.contains("EnvironmentFile=-/opt/x/etc/default/sidestep-control"), "{unit}");
    let pkg_config = read("opt/x/lib/pkgconfig/sidestep.pc");
    let version = format!("Version: {}", env!("CARGO_PKG_VERSION"));
    assert!(pkg_config.contains("libdir=/opt/x/lib\n") && pkg_config.contains(&version), "{pkg_config}");
    assert!(!pkg_config.contains('@'), "a word was not filled in: {pkg_config}");
    let mode = |path: &str| fs::metadata(place.root().join(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("opt/x/bin/sidestep"), mode("opt/x/lib/libsidestep_c.so.1")), (0o755, 0o644));
    // By the link, to the library.
    assert_eq!(read("opt/x/lib/libsidestep_c.so"), "release/libsidestep_c.so");

    place.made("uninstall");
    assert_eq!(place.files(), BTreeSet::new());
    assert!(!place.root().join("opt/x/include/sidestep").exists(), "our own folders go, too");
}

#[test]
fn settings_that_were_changed_stay() {
    let place = Place::new();
    place.made("install");
    let settings = place.root().join("opt/x/etc/default/sidestep-control");
    fs::write(&settings, "SIDESTEP_CONTROL_OPTIONS=--user-queues 2\n").unwrap();
    assert!(place.made("install").contains("stays as it is"));
    assert!(place.made("uninstall").contains("was changed, and stays"));
    assert_eq!(place.files().len(), 1);
    assert!(fs::read_to_string(settings).unwrap().contains("--user-queues 2"));
}

#[test]
fn what_is_removed_need_not_be_built_and_others_pages_stay() {
    let place = Place::new();
    place.made("install");
    let others = Path::new("opt/x/share/man/man1/other.1");
    fs::write(place.root().join(others), ".TH other 1\n").unwrap();
    fs::remove_dir_all(place.built()).unwrap();
    place.made("uninstall");
    assert_eq!(place.files(), BTreeSet::from([others.to_owned()]));
}

#[test]
fn what_is_not_built_is_named_before_anything_is_installed() {
    let place = Place::new();
    fs::remove_file(place.built().join("c/libsidestep_c.a")).unwrap();
    let done = place.make("install");
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(!done.status.success() && said.contains("c/libsidestep_c.a; next: make build"), "{said}");
    assert_eq!(place.files(), BTreeSet::new());
}

/// Every page that the program writes is installed, and every command has one.
#[test]
fn every_command_has_its_manual_page() {
    let place = Place::new();
    let help = Command::new(env!("CARGO_BIN_EXE_sidestep")).arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let commands = help.split("Commands:\n").nth(1).unwrap().lines().take_while(|line| !line.is_empty());
    // Further lines of a description stand further right.
    let names: Vec<&str> = commands.filter_map(|line| line.strip_prefix("  ")?.split(' ').next()).collect();
    let names = names.into_iter().filter(|name| !name.is_empty() && *name != "help");
    let mut count = 0;
    for name in names {
        let page = place.built().join(format!("share/man/sidestep-{name}.1"));
        assert!(page.exists(), "{}", page.display());
        count += 1;
    }
    assert!(count > 10, "{help}");
}
