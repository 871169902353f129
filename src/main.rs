//! The binary `sidestep`; everything is in the crates.

fn main() -> std::process::ExitCode {
    sidestep_cli::main()
}
