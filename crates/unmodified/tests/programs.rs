//! Real binaries are recognised: made by the compilers of this machine, or skipped by name.

use sidestep_unmodified::program::{Obstacle, Program};
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles a program in C; `None`, said by name, if the compiler cannot.
fn compiled(folder: &Path, compiler: &str, flags: &[&str]) -> Option<PathBuf> {
    let (source, program) = (folder.join("program.c"), folder.join("program"));
    std::fs::write(&source, "int main(void) { return 0; }\n").unwrap();
    let done = Command::new(compiler).args(flags).arg(&source).arg("-o").arg(&program).output();
    if !done.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: {compiler} {} does not work here", flags.join(" "));
        return None;
    }
    Some(program)
}

fn obstacle(program: &Path) -> Option<Obstacle> {
    Program::find(program.as_os_str(), None).unwrap().obstacle
}

#[test]
fn binaries_of_the_c_compiler_are_recognised() {
    let folder = tempfile::tempdir().unwrap();
    let of =
        |compiler: &str, flags: &[&str]| compiled(folder.path(), compiler, flags).map(|program| obstacle(&program));
    assert!(of("cc", &[]).is_none_or(|found| found.is_none()));
    assert!(of("cc", &["-s", "-no-pie"]).is_none_or(|found| found.is_none()));
    assert!(of("cc", &["-static"]).is_none_or(|found| found == Some(Obstacle::Static)));
    assert!(of("cc", &["-static-pie"]).is_none_or(|found| found == Some(Obstacle::Static)));
    let musl = ["-Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1"];
    assert!(of("cc", &musl).is_none_or(|found| found == Some(Obstacle::Musl)));
    let other = Some(Obstacle::Architecture("32 bits".into()));
    assert!(of("cc", &["-m32"]).is_none_or(|found| found == other));
    // A library of that name, which need not be the real one.
    let Some(library) = compiled(folder.path(), "cc", &["-shared", "-fPIC", "-Wl,-soname,liburing.so.2"]) else {
        return;
    };
    let uring = folder.path().join("liburing.so.2");
    std::fs::rename(library, &uring).unwrap();
    let linked = ["-Wl,--no-as-needed", uring.to_str().unwrap()];
    assert!(of("cc", &linked).is_none_or(|found| found == Some(Obstacle::IoUring)));
}

#[test]
fn go_programs_are_recognised_also_without_symbols() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("main.go"), "package main\nfunc main() {}\n").unwrap();
    for flags in ["", "-s -w"] {
        let mut command = Command::new("go");
        command.args(["build", "-ldflags", flags, "-o", "program", "main.go"]).current_dir(folder.path());
        let done = command.env("GO111MODULE", "off").env("GOFLAGS", "").output();
        if !done.is_ok_and(|output| output.status.success()) {
            return eprintln!("skipped: go does not build here");
        }
        assert_eq!(obstacle(&folder.path().join("program")), Some(Obstacle::Go), "{flags}");
    }
}

#[test]
fn another_machines_binary_and_what_is_no_binary_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled(folder.path(), "cc", &[]) else { return };
    let mut bytes = std::fs::read(&program).unwrap();
    // e_machine.
    let machine = |bytes: &mut Vec<u8>, number: u16| bytes[18..20].copy_from_slice(&number.to_le_bytes());
    let changed = |bytes: &[u8]| {
        let path = folder.path().join("changed");
        std::fs::write(&path, bytes).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        obstacle(&path)
    };
    machine(&mut bytes, 0xb7);
    let expected = if cfg!(target_arch = "aarch64") { None } else { Some(Obstacle::Architecture("aarch64".into())) };
    assert_eq!(changed(&bytes), expected);
    machine(&mut bytes, 0xfeed);
    assert_eq!(changed(&bytes), Some(Obstacle::Architecture("machine 65261".into())));
    // Cut anywhere, it is told, and nothing panics.
    let whole = std::fs::read(&program).unwrap();
    for end in (4..whole.len()).step_by(97) {
        let _ = changed(&whole[..end]);
    }
    assert!(matches!(changed(&whole[..40]), Some(Obstacle::Unknown(_))));
}

#[test]
fn programs_with_more_rights_are_recognised() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled(folder.path(), "cc", &[]) else { return };
    if std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) != 0) {
        return eprintln!("skipped: needs root");
    }
    let mode = |mode| std::fs::set_permissions(&program, std::fs::Permissions::from_mode(mode)).unwrap();
    mode(0o4755);
    assert_eq!(obstacle(&program), None, "root's, started by root");
    std::os::unix::fs::chown(&program, Some(65_534), None).unwrap();
    mode(0o4755);
    assert_eq!(obstacle(&program), Some(Obstacle::Privileged("it is set-user-ID")));
    std::os::unix::fs::chown(&program, Some(0), Some(65_534)).unwrap();
    mode(0o2755);
    assert_eq!(obstacle(&program), Some(Obstacle::Privileged("it is set-group-ID")));
    mode(0o2745);
    assert_eq!(obstacle(&program), None, "mandatory locking, which is no more");
    let found = Program::find(OsStr::new("/bin/sh"), None).unwrap();
    assert!(found.obstacle.is_none() && found.path == found.binary);
}
