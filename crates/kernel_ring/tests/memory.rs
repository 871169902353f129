//! Rings in BPF memory: nobody but programs can write them, and readers read them as any other ring.

mod support;

use libbpf_rs::{MapCore, MapFlags, MapHandle};
use sidestep_kernel_ring::{RingMap, element_bytes};
use sidestep_ring::broadcast::Start;
use sidestep_ring::{Kind, Peer, ReadError, Segment};
use sidestep_sys::memory::{Access, Mapping};
use std::ffi::CString;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use support::{CELLS, MESSAGE_BYTES, Producer, RING, is_skipped, number};

#[test]
fn no_process_can_write_the_memory() {
    if is_skipped() {
        return;
    }
    let rings = RingMap::create("sidestep_test", 2, CELLS).unwrap();
    let bytes = element_bytes(CELLS);
    let refused = Mapping::shared(rings.fd(), bytes, Access::ReadWrite).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(libc::EPERM));
    let mapping = Mapping::shared(rings.fd(), bytes, Access::ReadOnly).unwrap();
    // SAFETY: the range is that of a live mapping, and the call is refused.
    let result = unsafe { libc::mprotect(mapping.base().as_ptr().cast(), bytes, libc::PROT_READ | libc::PROT_WRITE) };
    assert_eq!((result, std::io::Error::last_os_error().raw_os_error()), (-1, Some(libc::EACCES)));
    let facts = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", rings.fd().as_raw_fd())).unwrap();
    let id = facts.lines().find_map(|line| line.strip_prefix("map_id:")).unwrap().trim();
    let copy = MapHandle::from_map_id(id.parse().unwrap()).unwrap();
    let refused = copy.update(&0_u32.to_ne_bytes(), &vec![0; bytes], MapFlags::ANY).unwrap_err();
    assert_eq!(refused.kind(), libbpf_rs::ErrorKind::PermissionDenied, "{refused}");
    assert!(Mapping::shared_at(rings.fd(), 2 * bytes as u64, 4096, Access::ReadOnly).is_err(), "behind the end");
}

#[test]
fn each_element_is_a_ring_of_its_own() {
    if is_skipped() {
        return;
    }
    let rings = RingMap::create("sidestep_test", 3, CELLS).unwrap();
    let attach = |offset: u64, bytes| Segment::foreign(rings.fd().try_clone_to_owned().unwrap(), offset, bytes);
    for ring in 0..3 {
        let ring = attach(rings.offset(ring), element_bytes(CELLS)).unwrap();
        assert_eq!((ring.kind(), ring.stat().written.messages), (Kind::Broadcast, 0));
        assert!(ring.backing().locked.is_ok());
    }
    let refused = attach(rings.offset(3), element_bytes(CELLS)).err().unwrap().to_string();
    assert!(refused.contains("inside the map"), "{refused}");
    let refused = attach(4096, element_bytes(CELLS)).err().unwrap().to_string();
    assert!(refused.contains("does not begin with SIDESTEP"), "{refused}");
}

#[test]
fn what_a_program_publishes_is_read_with_exact_loss() {
    if is_skipped() {
        return;
    }
    let mut producer = Producer::load();
    let ring = producer.attach();
    let mut readers = [Start::Oldest, Start::Latest].map(|start| ring.subscriber(start).unwrap());
    let mut buffer = [0; 1024];
    for sent in 0..40 {
        producer.publish(sent);
        for reader in &mut readers {
            assert_eq!(reader.try_read(&mut buffer), Ok(MESSAGE_BYTES));
            assert_eq!(number(&buffer[..MESSAGE_BYTES]), sent);
        }
    }
    // Laps: what a reader gets and what it has lost is all that was sent.
    (40..1000).for_each(|sent| producer.publish(sent));
    let mut reader = readers[0].clone();
    let Err(ReadError::Lost(loss)) = reader.try_read(&mut buffer) else { panic!("a lap is lost") };
    for expected in 40 + loss.messages..1000 {
        assert_eq!(reader.try_read(&mut buffer), Ok(MESSAGE_BYTES));
        assert_eq!(number(&buffer[..MESSAGE_BYTES]), expected);
    }
    assert_eq!(reader.try_read(&mut buffer), Err(ReadError::Empty));
    assert_eq!((loss.bytes, reader.peer()), (loss.messages * MESSAGE_BYTES as u64, Peer::Absent));
    let stat = ring.stat();
    assert_eq!((stat.written.messages, stat.writer.process, stat.fault), (1000, None, None));
    // The other rings have nothing.
    assert_ne!(RING, 0);
    let first = Segment::foreign(producer.rings.fd().try_clone_to_owned().unwrap(), 0, element_bytes(CELLS)).unwrap();
    assert_eq!(first.stat().written.messages, 0);
}

/// Mounts a BPF file system for this thread alone; it goes with the thread.
fn mount_bpffs(folder: &Path) {
    let folder = CString::new(folder.as_os_str().as_bytes()).unwrap();
    let nothing = std::ptr::null();
    // SAFETY: all strings are C strings that outlive the calls; the mounts are of this thread's own namespace.
    let results = unsafe {
        [
            libc::unshare(libc::CLONE_NEWNS),
            libc::mount(nothing, c"/".as_ptr(), nothing, libc::MS_REC | libc::MS_PRIVATE, nothing.cast()),
            libc::mount(c"bpf".as_ptr(), folder.as_ptr(), c"bpf".as_ptr(), 0, nothing.cast()),
        ]
    };
    assert_eq!(results, [0; 3], "{}", std::io::Error::last_os_error());
}

#[test]
fn a_pinned_map_is_opened_by_its_path_and_a_ring_by_its_number() {
    if is_skipped() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    mount_bpffs(folder.path());
    let path = folder.path().join("rings");
    let mut producer = Producer::load();
    sidestep_sys::bpf::pin(producer.rings.fd(), &path).unwrap();
    let rings = (0..=3).map(|ring| Segment::view(&path, ring)).collect::<Vec<_>>();
    producer.publish(7);
    let written: Vec<_> = rings.iter().flatten().map(|ring| ring.stat().written.messages).collect();
    assert_eq!(written, [0, 0, 1]);
    let refused = rings[3].as_ref().err().unwrap().to_string();
    assert!(refused.contains("the map has 3 rings"), "{refused}");
}

#[test]
fn rings_that_no_element_can_hold_are_refused() {
    for cells in [0, 32, 65, 1 << 26, u64::MAX] {
        assert!(RingMap::create("sidestep_test", 1, cells).is_err(), "{cells}");
    }
}
