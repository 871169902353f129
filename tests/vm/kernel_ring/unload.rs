//! The end of the module, beside readers that live, die and come.

use super::device::{Child, DEVICE, Module, NAME, info, map, open, read};
use super::rounds;
use sidestep_testkit::vm;
use std::fs::File;
use std::io::{PipeReader, Read, Write, pipe};
use std::thread;
use std::time::Duration;

fn is_refused() -> bool {
    // EAGAIN: it is in use.
    vm::unload_module(NAME).is_err_and(|error| error.raw_os_error() == Some(libc::EAGAIN))
}

/// A process that maps the ring, closes the descriptor, and sleeps.
fn with_mapping() -> (Child, PipeReader) {
    let (told, tell) = pipe().expect("a pipe");
    let child = Child::fork(move || {
        let device = open();
        let mapped = map(&device, info(&device).1, libc::PROT_READ, libc::MAP_SHARED, 0).expect("it may");
        drop(device);
        let _ = (&tell).write_all(&[1]);
        loop {
            std::hint::black_box(mapped.first_word());
            thread::park();
        }
    });
    (child, told)
}

pub(crate) fn it_stays_while_it_is_mapped() {
    let module = Module::load("cells=64 interval_us=200");
    let device = open();
    assert!(is_refused(), "a descriptor holds it");
    drop(device);
    for _ in 0..rounds(200, 10_000) {
        let (child, mut told) = with_mapping();
        let mut byte = [0];
        told.read_exact(&mut byte).expect("the child maps it");
        assert!(is_refused(), "a mapping holds it");
        child.kill();
        assert_eq!(child.wait(), None);
    }
    module.unload();
}

/// Readers open, map, read and leave while it comes and goes: they are refused, or served.
pub(crate) fn it_is_loaded_and_unloaded_beside_readers() {
    let body = || {
        loop {
            let Ok(device) = File::open(DEVICE) else {
                thread::yield_now();
                continue;
            };
            let (_, bytes) = info(&device);
            let mapped = map(&device, bytes, libc::PROT_READ, libc::MAP_SHARED, 0).expect("it may");
            let message = read(&device).expect("ticks come");
            assert!(message.word(8) == message.sequence && mapped.first_word() != 0);
            drop((device, mapped));
            // The module can go only while no reader is there.
            thread::sleep(Duration::from_millis(10));
        }
    };
    let readers: Vec<_> = (0..2).map(|_| Child::fork(body)).collect();
    let mut refused = 0;
    for round in 0..rounds(50, 2_000) {
        let module = Module::load(if round % 2 == 0 { "cells=64 interval_us=100" } else { "interval_us=50 cpu=1" });
        while vm::unload_module(NAME).is_err() {
            refused += 1;
            thread::sleep(Duration::from_millis(1));
        }
        std::mem::forget(module);
    }
    println!("unloading was refused {refused} times");
    for reader in readers {
        reader.kill();
        assert_eq!(reader.wait(), None, "it ended by itself");
    }
}
