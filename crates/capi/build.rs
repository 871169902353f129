//! Sets the SONAME of the shared library to its API version (`SIDESTEP_RING_API_VERSION`): a program that was linked
//! against another version does not start.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libsidestep_c.so.1");
    println!("cargo::rerun-if-changed=build.rs");
}
