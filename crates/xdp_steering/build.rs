//! Compiles `bpf/steer.bpf.c` for the BPF virtual machine, with frames of several buffers (Linux 5.18) and without. The
//! objects are embedded in the library.

#[path = "bpf/compile.rs"]
mod compile;

fn main() {
    let headers = [
        "feeds.h",
        "frame.h",
        "maps.h",
        "maps_form.h",
        "ring.h",
        "steer.h",
        "../include/sidestep/ring_layout.h",
        "../include/sidestep/ring_producer.h",
    ];
    compile::program("steer.bpf.c", &headers, &[("steer.bpf.o", &["-DXDP_FRAGS"]), ("steer-5.15.bpf.o", &[])]);
}
