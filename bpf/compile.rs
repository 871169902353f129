//! Compiles programs for the BPF virtual machine. The build scripts of the crates that embed them share it.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The compilers to try, in this order, unless `CLANG` names one.
const COMPILERS: [&str; 8] =
    ["clang", "clang-21", "clang-20", "clang-19", "clang-18", "clang-17", "clang-16", "clang-15"];

/// The instruction set of Linux 5.1; the program needs a newer kernel anyway.
const CPU: &str = "-mcpu=v3";

/// Compiles `bpf/SOURCE`, which includes these headers of the same folder, once for each object: its name, and the
/// definitions with which it is compiled.
pub(crate) fn program(source: &str, headers: &[&str], objects: &[(&str, &[&str])]) {
    // `bpf` of the crate: a link to the one of the workspace, or a copy in a packaged crate.
    let link = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo names the folder")).join("bpf");
    let folder = link.canonicalize().unwrap_or_else(|error| panic!("{}: {error}", link.display()));
    let root = folder.parent().expect("it has a name").to_owned();
    let source = root.join("bpf").join(source);
    let folder = PathBuf::from(env::var_os("OUT_DIR").expect("cargo names the output folder"));
    println!("cargo::rerun-if-changed={}", source.display());
    println!("cargo::rerun-if-changed={}", root.join("bpf/compile.rs").display());
    for header in headers {
        println!("cargo::rerun-if-changed={}", root.join("bpf").join(header).display());
    }
    println!("cargo::rerun-if-env-changed=CLANG");
    let compiler = compiler();
    for (name, definitions) in objects {
        let status = compile(&compiler, &root, &source, &folder.join(name)).args(*definitions).status();
        let success = status.is_ok_and(|status| status.success());
        assert!(success, "{compiler} could not compile {}; its messages are above", source.display());
    }
}

fn compiler() -> String {
    if let Ok(named) = env::var("CLANG") {
        return named;
    }
    let found = COMPILERS.iter().find(|name| Command::new(name).arg("--version").output().is_ok());
    found
        .expect("clang is needed to compile the programs in bpf/; install it with: scripts/bootstrap build")
        .to_string()
}

fn compile(compiler: &str, root: &Path, source: &Path, object: &Path) -> Command {
    let little = env::var("CARGO_CFG_TARGET_ENDIAN").is_ok_and(|endian| endian == "little");
    let mut command = Command::new(compiler);
    // BTF, which describes the maps, is part of the debug information.
    command.args(["-target", if little { "bpfel" } else { "bpfeb" }, "-O2", "-g", CPU]);
    command.args(["-Wall", "-Wextra", "-Werror"]);
    // ring_producer.h takes the memory order of stores from it.
    if env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|arch| arch == "x86_64") {
        command.arg("-D__TARGET_ARCH_x86");
    }
    // The object must not depend on the build directory.
    command.arg(format!("-ffile-prefix-map={}=.", root.display()));
    // Debian has <asm/types.h> in a folder per architecture, which clang does not know for this target.
    let arch = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    command.arg(format!("-I/usr/include/{arch}-linux-gnu"));
    command.arg("-c").arg(source).arg("-o").arg(object).current_dir(root);
    command
}
