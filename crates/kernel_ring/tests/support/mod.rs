//! A producer in the kernel: an XDP program that is compiled by the test and run by BPF_PROG_TEST_RUN, without a device.

#![allow(dead_code)] // Every test file uses its own part.

use libbpf_rs::{MapCore, MapHandle, Object, ObjectBuilder, ProgramInput};
use sidestep_kernel_ring::{RingMap, element_bytes};
use sidestep_ring::Segment;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::Command;

/// The numbers of `producer.bpf.c`.
pub(crate) const CELLS: u64 = 64;
pub(crate) const RING: u32 = 2;
pub(crate) const MESSAGE_BYTES: usize = 48;

/// Returns true, and says so, if this test has to be left out.
pub(crate) fn is_skipped() -> bool {
    let skipped = !sidestep_sys::process::is_root();
    if skipped {
        eprintln!("skipped: needs root");
    }
    skipped
}

pub(crate) struct Producer {
    object: Object,
    pub(crate) rings: RingMap,
}

impl Producer {
    pub(crate) fn load() -> Self {
        let rings = RingMap::create("sidestep_test", 3, CELLS).unwrap();
        let mut open = ObjectBuilder::default().open_memory(&compiled()).unwrap();
        let mut map = open.maps_mut().find(|map| map.name() == "rings").unwrap();
        map.reuse_fd(rings.fd()).unwrap();
        Self { object: open.load().unwrap(), rings }
    }

    /// Publishes this number, in the kernel.
    pub(crate) fn publish(&mut self, number: u64) {
        let program = self.object.progs_mut().find(|program| program.name() == "publish").unwrap();
        let frame = number.to_ne_bytes().repeat(MESSAGE_BYTES / 8);
        let input = ProgramInput { data_in: Some(&frame), ..Default::default() };
        let passed = program.test_run(input).unwrap().return_value;
        assert_eq!(passed, 2, "XDP_PASS");
    }

    /// A descriptor of this map of the program.
    pub(crate) fn map(&self, name: &str) -> OwnedFd {
        let map = self.object.maps().find(|map| map.name() == name).unwrap();
        MapHandle::try_from(&map).unwrap().as_fd().try_clone_to_owned().unwrap()
    }

    pub(crate) fn attach(&self) -> Segment {
        let file = self.rings.fd().try_clone_to_owned().unwrap();
        Segment::foreign(file, self.rings.offset(RING), element_bytes(CELLS)).unwrap()
    }
}

/// The number in a message; panics if it is torn.
pub(crate) fn number(message: &[u8]) -> u64 {
    let number = u64::from_ne_bytes(message[..8].try_into().unwrap());
    assert_eq!(message, number.to_ne_bytes().repeat(MESSAGE_BYTES / 8), "torn");
    number
}

fn compiled() -> Vec<u8> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/producer.bpf.c");
    let folder = tempfile::tempdir().unwrap();
    let object = folder.path().join("producer.bpf.o");
    let compiler = std::env::var("CLANG").unwrap_or_else(|_| "clang".into());
    let mut command = Command::new(&compiler);
    command.args(["-target", "bpfel", "-O2", "-g", "-mcpu=v3", "-Wall", "-Wextra", "-Werror"]);
    command.arg(format!("-I/usr/include/{}-linux-gnu", std::env::consts::ARCH));
    if cfg!(target_arch = "x86_64") {
        command.arg("-D__TARGET_ARCH_x86");
    }
    let status = command.arg("-c").arg(&source).arg("-o").arg(&object).status();
    assert!(status.is_ok_and(|status| status.success()), "{compiler} could not compile {}", source.display());
    std::fs::read(object).unwrap()
}
