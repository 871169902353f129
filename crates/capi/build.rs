//! Gives the shared library its SONAME: its number is the one of the calls (`SIDESTEP_RING_API_VERSION`), and a program
//! that was linked against another number does not start.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libsidestep_c.so.1");
    println!("cargo::rerun-if-changed=build.rs");
}
