//! What processes try that should not be able to.

use super::device::*;
use super::rounds;
use sidestep_testkit::{vm, wait_until};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::ptr;

const READERS: usize = 64;
const MAGIC: u64 = 0x5045_5453_4544_4953;

pub(crate) fn parameters_out_of_bounds_are_refused() {
    for wrong in [
        "cells=63",
        "cells=32",
        "cells=0",
        "cells=131072",
        "cells=4294967295",
        "interval_us=9",
        "interval_us=0",
        "interval_us=1000001",
        "interval_us=4294967295",
        "cpu=-2",
        "cpu=64000",
        "source=tcp",
        "source=",
        "source=udp",
        "source=udp port=0",
        "source=udp port=65536",
        "cells=x",
    ] {
        let refused = vm::load_module(NAME, wrong).expect_err(wrong).raw_os_error();
        assert_eq!(refused, Some(libc::EINVAL), "{wrong}");
        assert!(!std::path::Path::new(DEVICE).exists(), "{wrong}");
    }
    for right in ["cells=64 interval_us=1000000", "cells=65536 cpu=1", "interval_us=10", "source=udp port=65535"] {
        let module = Module::load(right);
        let device = open();
        assert!(stats(&device).readers == 1 && info(&device).0 >= 64, "{right}");
        drop(device);
        module.unload();
    }
}

pub(crate) fn mappings_are_read_only() {
    let module = Module::load("cells=1024");
    let device = open();
    let writable = OpenOptions::new().read(true).write(true).open(DEVICE).expect("root may");
    let (cells, bytes) = info(&device);
    assert_eq!((cells, bytes), (1024, PAGE + 64 * 1024));
    let (read, write) = (libc::PROT_READ, libc::PROT_READ | libc::PROT_WRITE);
    for file in [&device, &writable] {
        for flags in [libc::MAP_SHARED, libc::MAP_PRIVATE] {
            for access in [write, libc::PROT_WRITE, read | libc::PROT_EXEC] {
                let refused = map(file, bytes, access, flags, 0).err();
                assert!([Some(libc::EPERM), Some(libc::EACCES)].contains(&refused), "{access} {flags}: {refused:?}");
            }
            let mut mapped = map(file, bytes, read, flags, 0).expect("readers may map it");
            assert_eq!(mapped.first_word(), MAGIC);
            assert_eq!(mapped.protect(write).err(), Some(libc::EACCES));
            assert_eq!(mapped.protect(read | libc::PROT_EXEC).err(), Some(libc::EACCES));
            assert!(mapped.extend(bytes + PAGE).is_err());
            // A debugger's way, which ignores protection.
            let memory = OpenOptions::new().write(true).open("/proc/self/mem").expect("it is ours");
            assert!(memory.write_all_at(&[1; 8], mapped.at.addr() as u64).is_err());
            assert_eq!(mapped.first_word(), MAGIC);
        }
    }
    let huge = i64::MAX & !(PAGE as i64 - 1);
    for (length, offset) in
        [(bytes + 1, 0), (PAGE, bytes as i64), (bytes, PAGE as i64), (PAGE, huge), (PAGE, 1 << 44), (1 << 40, 0)]
    {
        assert!(map(&device, length, read, libc::MAP_SHARED, offset).is_err(), "{length} from {offset}");
    }
    assert!(map(&device, PAGE, read, libc::MAP_SHARED, bytes as i64 - PAGE as i64).is_ok());
    drop((device, writable));
    module.unload();
}

pub(crate) fn bad_pointers_and_lengths_harm_nobody() {
    let module = Module::load("interval_us=1000");
    let device = open();
    let mut small = [0_u8; 64];
    let good: *mut libc::c_void = small.as_mut_ptr().cast();
    assert!(poll(&device, 10_000));
    assert_eq!(read_to(&device, good, 0), Ok(0));
    for length in [1, HEAD_BYTES, HEAD_BYTES + 23] {
        assert_eq!(read_to(&device, good, length), Err(libc::EMSGSIZE));
    }
    let bad = [ptr::null_mut(), ptr::without_provenance_mut(8), ptr::without_provenance_mut(usize::MAX - 4095)];
    for at in bad {
        for length in [64, 1 << 30, isize::MAX as usize] {
            assert_eq!(read_to(&device, at, length), Err(libc::EFAULT), "{at:?} {length}");
        }
        assert!(read_to(&device, at, usize::MAX).is_err());
        for number in [INFO, STATS, SEEN, SET_INTERVAL] {
            let refused = call(&device, number, at).expect_err("a bad pointer").raw_os_error();
            assert_eq!(refused, Some(libc::EFAULT), "{at:?}");
        }
    }
    // What was refused is still the next message.
    let message = read(&device).expect("there is one");
    assert_eq!((message.lost, message.word(8)), (0, message.sequence));
    // A buffer of which the second page is missing.
    let page = map(&device, PAGE, libc::PROT_READ, libc::MAP_SHARED, 0).expect("readers may map it");
    assert_eq!(read_to(&device, page.at, 64), Err(libc::EFAULT), "the ring itself cannot be read into");
    let next = read(&device).expect("there is one");
    assert_eq!((next.sequence, next.lost), (message.sequence + 1, 0));
    drop((page, device));
    module.unload();
}

pub(crate) fn unknown_calls_are_refused() {
    let module = Module::load("");
    let device = open();
    let mut buffer = [0_u64; 512];
    let good: *mut libc::c_void = buffer.as_mut_ptr().cast();
    let known = [INFO, STATS, SEEN, SET_INTERVAL];
    for direction in 0..4_u64 {
        for number in 0..256_u64 {
            for size in [0, 1, 7, 8, 9, 24, 48, 4096, 16383_u64] {
                let call_number = direction << 30 | size << 16 | 0x73 << 8 | number;
                if !known.contains(&call_number) {
                    let refused = call(&device, call_number, good).expect_err("unknown").raw_os_error();
                    assert_eq!(refused, Some(libc::ENOTTY), "{call_number:#x}");
                }
            }
        }
    }
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..rounds(20_000, 1_000_000) {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        buffer[0] = seed.rotate_left(17);
        let number = known[(seed >> 60) as usize % 4];
        // A good pointer with any content, or one into the kernel's half, with which nothing can be written here.
        let at = if seed >> 59 & 1 == 0 { good } else { ptr::without_provenance_mut(seed as usize | 1 << 63) };
        let done = call(&device, number, at);
        assert!(at == good || done.is_err(), "{number:#x} with {at:?}");
    }
    assert_eq!(info(&device).0, 16384);
    assert!(stats(&device).interval_ns >= 10_000);
    drop(device);
    module.unload();
}

pub(crate) fn many_readers_and_forks_are_served() {
    let module = Module::load("interval_us=500");
    let device = open();
    let (_, bytes) = info(&device);
    let mapped = map(&device, bytes, libc::PROT_READ, libc::MAP_SHARED, 0).expect("readers may map it");
    let body = |index: usize| {
        let own = open();
        let mut expected = None;
        for _ in 0..if index % 4 == 3 { u64::MAX } else { 20 } {
            let Ok(message) = read(&own) else { return 2 };
            let is_next = expected.is_none_or(|sequence| sequence == message.sequence - message.lost);
            if !is_next || message.word(8) != message.sequence {
                return 3;
            }
            expected = Some(message.sequence + 1);
        }
        // The mapping of the parent, too, and its descriptor.
        if mapped.first_word() == MAGIC && info(&device).1 == bytes { 0 } else { 4 }
    };
    let children: Vec<_> = (0..READERS).map(|index| Child::fork(|| body(index))).collect();
    wait_until("all read", || stats(&device).readers > READERS as u64 / 4);
    for (index, child) in children.into_iter().enumerate() {
        if index % 4 == 3 {
            child.kill();
            assert_eq!(child.wait(), None, "killed while it reads");
        } else {
            assert_eq!(child.wait(), Some(0), "reader {index}");
        }
    }
    wait_until("they are gone", || stats(&device).readers == 1);
    nobody_shuts_root_out(&device);
    drop((mapped, device));
    module.unload();
}

/// A user who may open the device takes every place that there is for users.
fn nobody_shuts_root_out(device: &File) {
    fs::set_permissions(DEVICE, Permissions::from_mode(0o644)).expect("root may");
    let many = libc::rlimit { rlim_cur: 8192, rlim_max: 8192 };
    // SAFETY: it reads one value, which lives until the call returns.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const many) }, 0);
    let (ended, end) = std::io::pipe().expect("there are descriptors");
    let body = || {
        become_nobody();
        let mut held = Vec::with_capacity(8192);
        let refused = loop {
            match File::open(DEVICE) {
                Ok(one) => held.push(one),
                Err(error) => break error.raw_os_error(),
            }
        };
        // Until the parent closes its end.
        let mut ended = &ended;
        if refused != Some(libc::EMFILE) || ended.read(&mut [0]).is_err() { 1 } else { 0 }
    };
    let child = Child::fork(|| {
        // SAFETY: the descriptor is this process's copy, which it does not use again.
        unsafe { libc::close(end.as_raw_fd()) };
        body()
    });
    wait_until("nobody has all places", || stats(device).readers == 4096 - 64);
    read(&open()).expect("root has places of its own");
    drop(end);
    assert_eq!(child.wait(), Some(0));
}
