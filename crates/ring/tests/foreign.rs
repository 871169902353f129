//! Rings that the kernel fills: accepted and refused memory, and a writer that lies.
//!
//! A publisher of this process stands for the kernel, in a memfd whose header has no pids.

use sidestep_ring::broadcast::{Publisher, Start};
use sidestep_ring::layout::{
    ABI_AND_KIND_AT, CELLS_AT, FAULT_AT, HEADER_BYTES, HORIZON_AT, LAYOUT_HASH_AT, MAGIC_AT, MARK_AT,
    ORDER_AND_HEADER_AT, PID_NAMESPACE_AT, WAKING_AT, WRITER_ROLE_AT, WRITTEN_AT,
};
use sidestep_ring::{
    Access, Cell, Kind, Loss, Options, Peer, ReadError, Segment, WaitError, Waking, kernel_header, kernel_ring_bytes,
};
use sidestep_sys::idle::IdleStrategy;
use sidestep_sys::memory::{allocate, memfd, seal_size};
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// The cells of the rings here, and their bytes.
const CELLS: u64 = 64;
const BYTES: usize = HEADER_BYTES + 64 * CELLS as usize;

fn refusal<T>(attempt: Result<T, sidestep_sys::Problem>) -> String {
    attempt.map(|_| ()).expect_err("refused").to_string()
}

/// A ring with a publisher whose header says that the kernel writes it.
fn ring() -> (Publisher, File) {
    let cells = CELLS as usize * Cell::Line.bytes();
    let options = Options { kind: Kind::Broadcast, cell: Cell::Line, bytes: cells, waking: Waking::Never };
    let made = Segment::memfd(&options).unwrap();
    let file = File::from(made.fd().try_clone_to_owned().unwrap());
    let publisher = made.publisher().unwrap();
    file.write_all_at(&[0; 8], PID_NAMESPACE_AT as u64).unwrap();
    (publisher, file)
}

fn descriptor(file: &File) -> OwnedFd {
    file.try_clone().unwrap().into()
}

fn word(file: &File, at: usize) -> u64 {
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, at as u64).unwrap();
    u64::from_ne_bytes(bytes)
}

fn store(file: &File, at: usize, word: u64) {
    file.write_all_at(&word.to_ne_bytes(), at as u64).unwrap();
}

/// A sealed memfd of this many bytes.
fn sealed(bytes: usize) -> File {
    let file = memfd("sidestep-test", false).unwrap();
    allocate(file.as_fd(), bytes).unwrap();
    seal_size(file.as_fd()).unwrap();
    File::from(file)
}

#[test]
fn a_ring_without_pids_is_read_by_any_number_of_readers_with_exact_loss() {
    let (mut publisher, file) = ring();
    let ring = Segment::foreign(descriptor(&file), 0, BYTES).unwrap();
    assert_eq!((ring.kind(), ring.waking(), ring.backing().locked.is_ok()), (Kind::Broadcast, Waking::Never, true));
    let mut reader = ring.subscriber(Start::Latest).unwrap();
    let mut buffer = [0; 2048];
    assert_eq!(reader.try_read(&mut buffer), Err(ReadError::Empty));
    assert!(!reader.is_ready());
    publisher.publish(b"tick").unwrap();
    assert!(reader.is_ready());
    assert_eq!(reader.try_read(&mut buffer), Ok(4));
    let mut slow = reader.clone();
    for _ in 0..200 {
        publisher.publish(&[7; 100]).unwrap();
    }
    let Err(ReadError::Lost(Loss { messages, bytes })) = slow.try_read(&mut buffer) else { panic!("lost") };
    assert_eq!(bytes, 100 * messages);
    let rest = (0..).take_while(|_| slow.try_read(&mut buffer) == Ok(100)).count() as u64;
    assert_eq!((messages + rest, slow.sequence()), (200, 201));
    // Its writer has a pid in the header, and is not taken for a process.
    assert_ne!(word(&file, WRITER_ROLE_AT), 0);
    assert_eq!(slow.peer(), Peer::Absent);
    let stat = ring.stat();
    assert_eq!((stat.written.messages, stat.writer.process, stat.writer.is_alive), (201, None, false));
    publisher.close();
    assert_eq!(slow.try_read(&mut buffer), Err(ReadError::Closed));
    assert_eq!(slow.wait(IdleStrategy::SPIN, None), Err(WaitError::Closed));
}

#[test]
fn no_side_can_be_taken_and_nothing_is_stored() {
    let (publisher, file) = ring();
    let ring = Segment::foreign(descriptor(&file), 0, BYTES).unwrap();
    assert!(refusal(ring.publisher()).contains("read-only"));
    assert!(refusal(ring.producer()).contains("broadcast"));
    let mut reader = ring.subscriber(Start::Latest).unwrap();
    let soon = Some(Instant::now() + Duration::from_millis(20));
    assert_eq!(reader.wait(IdleStrategy::PARK, soon), Err(WaitError::TimedOut));
    // A wrong record ends this reader alone.
    store(&file, HEADER_BYTES, 1 << 31 | 3 << 29);
    assert!(matches!(reader.try_read(&mut [0; 64]), Err(ReadError::Faulty(_))));
    assert_eq!(word(&file, FAULT_AT), 0);
    drop(publisher);
}

#[test]
fn there_is_no_doorbell_until_one_is_set() {
    let (_publisher, file) = ring();
    let mut reader = Segment::foreign(descriptor(&file), 0, BYTES).unwrap().subscriber(Start::Latest).unwrap();
    assert!(reader.doorbell().is_none() && !reader.request_doorbell());
}

#[test]
fn ordinary_attachment_refuses_it_and_this_one_refuses_rings_of_processes() {
    let (_publisher, file) = ring();
    let why = refusal(Segment::from_fd(descriptor(&file), Access::ReadOnly));
    assert!(why.contains("pid namespace 0"), "{why}");
    for (at, value, words) in [
        (PID_NAMESPACE_AT, 4_026_531_836, "its pid namespace is 4026531836"),
        (WAKING_AT, Waking::Barrier as u64, "its wake-up method 1 (Barrier)"),
        (WAKING_AT, Waking::Fence as u64, "its wake-up method 2 (Fence)"),
        (WAKING_AT, 3, "unknown number 3"),
        (MAGIC_AT, 0, "does not begin with SIDESTEP"),
        (ABI_AND_KIND_AT, 1 | 1 << 32, "spsc ring"),
        (ABI_AND_KIND_AT, 1 | 3 << 32, "an array of records, not a ring"),
        (ABI_AND_KIND_AT, 1 | 4 << 32, "kind is 4"),
        (ABI_AND_KIND_AT, 2 | 2 << 32, "ABI version is 2"),
        (ORDER_AND_HEADER_AT, 0x0403_0201 | 4096 << 32, "byte order"),
        (ORDER_AND_HEADER_AT, 0x0102_0304 | 8192 << 32, "header has 8192"),
        (LAYOUT_HASH_AT, 1, "layout hash"),
        (CELLS_AT, 63, "63 cells"),
        (CELLS_AT, 2, "2 cells"),
        (CELLS_AT, 1 << 27, "134217728 cells"),
        (CELLS_AT, CELLS * 2, "the ring needs 12288"),
        (CELLS_AT, 1 << 26, "the ring needs 4294971392"),
    ] {
        let honest = word(&file, at);
        store(&file, at, value);
        let why = refusal(Segment::foreign(descriptor(&file), 0, BYTES));
        assert!(why.contains(words), "{at:#x}: {why}");
        store(&file, at, honest);
    }
    assert!(Segment::foreign(descriptor(&file), 0, BYTES).is_ok(), "nothing of that stays");
}

#[test]
fn a_part_of_a_file_is_mapped_and_never_more_than_was_said() {
    let element = kernel_ring_bytes(CELLS) + 4 * HEADER_BYTES;
    let file = sealed(3 * element);
    for index in 0..3 {
        file.write_all_at(&kernel_header(CELLS).unwrap(), (index * element) as u64).unwrap();
    }
    store(&file, 2 * element + WRITTEN_AT, 9);
    let attach = |offset: usize, bytes: usize| Segment::foreign(descriptor(&file), offset as u64, bytes);
    // Slack behind the ring is not an error, and each offset gives its own ring.
    assert_eq!(attach(2 * element, element).unwrap().stat().written.messages, 9);
    assert_eq!(attach(element, element).unwrap().stat().written.messages, 0);
    assert!(attach(2 * element, kernel_ring_bytes(CELLS)).is_ok());
    for (offset, bytes, words) in [
        (0, kernel_ring_bytes(CELLS) - 1, "the ring needs 8192"),
        (0, 100, "less than a ring's header"),
        (8, element, "not a multiple"),
        (3 * element, element, "end behind"),
        (2 * element, element + 1, "end behind"),
        (element, usize::MAX, "address space"),
        (usize::MAX - 4095, element, "address space"),
        (HEADER_BYTES, element, "does not begin with SIDESTEP"),
    ] {
        let why = refusal(attach(offset, bytes));
        assert!(why.contains(words), "{offset} {bytes}: {why}");
    }
}

#[test]
fn memory_that_could_vanish_is_refused() {
    let loose = memfd("sidestep-test", false).unwrap();
    allocate(loose.as_fd(), BYTES).unwrap();
    File::from(loose.try_clone().unwrap()).write_all_at(&kernel_header(CELLS).unwrap(), 0).unwrap();
    assert!(refusal(Segment::foreign(loose, 0, BYTES)).contains("not sealed"));
    let device = File::open("/dev/zero").unwrap();
    assert!(refusal(Segment::foreign(device.into(), 0, BYTES)).contains("the device is not sidestep's"));
    let (pipe, _end) = std::io::pipe().unwrap();
    assert!(refusal(Segment::foreign(pipe.into(), 0, BYTES)).contains("not a file, a BPF map"));
    let folder = File::open("/").unwrap();
    assert!(refusal(Segment::foreign(folder.into(), 0, BYTES)).contains("not a file, a BPF map"));
}

#[test]
fn a_path_leads_to_the_ring_that_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ring");
    let options = Options { kind: Kind::Spsc, cell: Cell::Line, bytes: 4096, waking: Waking::Never };
    drop(Segment::create(&path, &options).unwrap());
    assert_eq!(Segment::view(&path, 0).unwrap().kind(), Kind::Spsc);
    assert!(refusal(Segment::view(&path, 1)).contains("only a BPF map has several rings"));
    assert!(refusal(Segment::view(&folder.path().join("none"), 0)).contains("No such file"));
    assert!(refusal(Segment::view(folder.path(), 0)).contains("not a regular file"));
    assert!(refusal(Segment::view(Path::new("/dev/null"), 0)).contains("the device is not sidestep's"));
}

/// Every word of the header is overwritten in turn while a reader reads, with words that are dangerous to believe.
#[test]
fn a_writer_that_lies_in_any_word_does_no_harm() {
    let lies = [0, 1, 2, CELLS - 1, CELLS, CELLS + 1, 1 << 31, 1 << 32, u64::MAX / 2, u64::MAX - 1, u64::MAX];
    let all = (0..HEADER_BYTES).step_by(8).take_while(|at| *at <= FAULT_AT + 8);
    for (at, lie) in all.flat_map(|at| lies.map(|lie| (at, lie))) {
        let (mut publisher, file) = ring();
        let ring = Segment::foreign(descriptor(&file), 0, BYTES).unwrap();
        let mut reader = ring.subscriber(Start::Oldest).unwrap();
        for _ in 0..3 {
            publisher.publish(&[1; 30]).unwrap();
        }
        store(&file, at, lie);
        let mut buffer = [0; 2048];
        // Nothing hangs: each of these calls returns, and the bounds are checked by the mapping's end.
        let _ = (0..20).map(|_| reader.try_read(&mut buffer)).filter(Result::is_ok).count();
        let _ = reader.wait(IdleStrategy::SPIN_THEN_PARK, Some(Instant::now()));
        let _ = (reader.peer(), ring.stat(), reader.is_ready());
        for start in [Start::Oldest, Start::Latest] {
            let _ = ring.subscriber(start).map(|mut late| late.try_read(&mut buffer));
        }
        let _ = Segment::foreign(descriptor(&file), 0, BYTES).map(|again| again.stat());
    }
    assert!([WRITTEN_AT, MARK_AT, HORIZON_AT].iter().all(|at| *at <= FAULT_AT), "these words were among them");
}
