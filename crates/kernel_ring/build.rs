//! Compiles `bpf/ring_source.bpf.c` for the BPF virtual machine. The object is embedded in the library.

#[path = "bpf/compile.rs"]
mod compile;

fn main() {
    let headers = [
        "maps_form.h",
        "ring.h",
        "ring_source.h",
        "../include/sidestep/ring_layout.h",
        "../include/sidestep/ring_producer.h",
    ];
    compile::program("ring_source.bpf.c", &headers, &[("ring_source.bpf.o", &[])]);
}
