//! `ring_layout.h` against `sidestep_ring::layout`, and a ring read by C with that header alone.

mod support;

use sidestep_ring::broadcast::Start;
use sidestep_ring::{Cell, Fault, Kind, Options, Segment, Waking, layout};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use support::{C11, C99, CXX11, compile, differences, include, printed};

const HEADER: &str = "ring_layout.h";

fn expected() -> BTreeMap<String, u64> {
    let constants = [
        ("MAGIC", layout::MAGIC),
        ("ABI_VERSION", layout::ABI_VERSION.into()),
        ("BYTE_ORDER_MARK", layout::BYTE_ORDER_MARK.into()),
        ("LAYOUT_HASH", layout::LAYOUT_HASH),
        ("SMALL_LAYOUT_HASH", layout::SMALL_LAYOUT_HASH),
        ("CELL_BYTES", layout::CELL_BYTES as u64),
        ("SMALL_CELL_BYTES", layout::SMALL_CELL_BYTES as u64),
        ("WORD_BYTES", layout::WORD_BYTES as u64),
        ("ONE_LINE_BYTES", layout::ONE_LINE_BYTES as u64),
        ("HEADER_BYTES", layout::HEADER_BYTES as u64),
        ("CELLS_MIN", layout::CELLS_MIN),
        ("CELLS_MAX", layout::CELLS_MAX),
        ("LENGTH_BITS", layout::LENGTH_BITS.into()),
        ("KIND_BITS", layout::KIND_BITS.into()),
        ("COMMITTED", layout::COMMITTED),
        ("KIND_MESSAGE", layout::KIND_MESSAGE),
        ("KIND_PADDING", layout::KIND_PADDING),
        ("KIND_CLOSE", layout::KIND_CLOSE),
        ("PID_BITS", layout::PID_BITS.into()),
        ("FAULT_RECORD_KIND", Fault::RecordKind as u64),
        ("FAULT_RECORD_LENGTH", Fault::RecordLength as u64),
        ("FAULT_PADDING", Fault::Padding as u64),
        ("FAULT_READER_POSITION", Fault::ReaderPosition as u64),
        ("FAULT_WRITER_POSITION", Fault::WriterPosition as u64),
    ];
    let offsets = [
        ("header, magic", layout::MAGIC_AT),
        ("header, abi_version", layout::ABI_AND_KIND_AT),
        ("header, kind", layout::ABI_AND_KIND_AT + 4),
        ("header, byte_order", layout::ORDER_AND_HEADER_AT),
        ("header, header_bytes", layout::ORDER_AND_HEADER_AT + 4),
        ("header, layout_hash", layout::LAYOUT_HASH_AT),
        ("header, cells", layout::CELLS_AT),
        ("header, waking", layout::WAKING_AT),
        ("header, pid_namespace", layout::PID_NAMESPACE_AT),
        ("header, writer", layout::WRITER_ROLE_AT),
        ("header, reader", layout::READER_ROLE_AT),
        ("header, written", layout::WRITTEN_AT),
        ("header, intent", layout::INTENT_AT),
        ("header, dropped", layout::DROPPED_AT),
        ("header, horizon", layout::HORIZON_AT),
        ("header, abandoned", layout::ABANDONED_AT),
        ("header, mark", layout::MARK_AT),
        ("header, read", layout::READ_AT),
        ("header, lost", layout::LOST_AT),
        ("header, published", layout::PUBLISHED_AT),
        ("header, reader_closed", layout::READER_CLOSED_AT),
        ("header, reader_sleeps", layout::READER_SLEEPS_AT),
        ("header, writer_sleeps", layout::WRITER_SLEEPS_AT),
        ("header, fault", layout::FAULT_AT),
        ("role, owner", 0),
        ("role, beat", layout::BEAT),
        // `checkpoint` in the ring: no constants, but `a_ring_is_read_with_the_header_alone` would see garbage.
        ("checkpoint, sequence", 0),
        ("checkpoint, position", 8),
        ("checkpoint, bytes", 16),
    ];
    let constants = constants.map(|(name, value)| (format!("SIDESTEP_RING_{name}"), value));
    let offsets = offsets.map(|(field, at)| (format!("offsetof(sidestep_ring_{field})"), at as u64));
    constants.into_iter().chain(offsets).collect()
}

fn compared(include: &Path) -> Vec<String> {
    differences(include, HEADER, expected(), |_, field| !field.starts_with("apart_"))
}

#[test]
fn the_header_has_the_numbers_of_the_ring() {
    let none: Vec<String> = Vec::new();
    assert_eq!(compared(&include()), none);
}

#[test]
fn a_difference_is_found() {
    let original = fs::read_to_string(include().join("sidestep").join(HEADER)).unwrap();
    for (from, to, words) in [
        ("MAGIC UINT64_C(0x50", "MAGIC UINT64_C(0x51", "SIDESTEP_RING_MAGIC is"),
        ("LENGTH_BITS 29", "LENGTH_BITS 28", "SIDESTEP_RING_LENGTH_BITS is 28 in C and 29 in Rust"),
        ("    uint64_t beat;\n", "", "sidestep_ring_holds_reader"),
        ("uint8_t apart_4[112]", "uint8_t apart_4[104]", "mark"),
        ("uint64_t waking;", "uint64_t wakers;", "offsetof(sidestep_ring_header, waking) is not in the header"),
        ("#define SIDESTEP_RING_PID_BITS 22", "#define SIDESTEP_RING_PID_BITS 22\n#define SIDESTEP_RING_NEW 1", "NEW"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("sidestep")).unwrap();
        let changed = original.replacen(from, to, 1);
        assert_ne!(changed, original, "{from} is in the header");
        fs::write(folder.path().join("sidestep").join(HEADER), changed).unwrap();
        let found = compared(folder.path()).join("\n");
        assert!(found.contains(words), "{from} -> {to}: {found}");
    }
}

#[test]
fn the_headers_are_strict_c_and_cxx() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("all.c");
    fs::write(&source, "#include <sidestep/ring_layout.h>\n#include <sidestep/ring.h>\nint main(void) { return 0; }\n")
        .unwrap();
    for how in [&C99[..], &C11, &CXX11] {
        let compiled = compile(how, &source, &["-I".as_ref(), include().as_os_str()], &folder.path().join("all"));
        compiled.unwrap_or_else(|words| panic!("{how:?}: {words}"));
    }
}

#[test]
fn a_ring_is_read_with_the_header_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (source, program) =
        (Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/follow.c"), folder.path().join("follow"));
    compile(&C99, &source, &["-I".as_ref(), include().as_os_str()], &program).unwrap();
    let ring = folder.path().join("ring");
    let options = Options { kind: Kind::Broadcast, cell: Cell::Line, bytes: 4096, waking: Waking::Never };
    let segment = Segment::create(&ring, &options).unwrap();
    let mut publisher = segment.publisher().unwrap();
    for number in 0..100_usize {
        publisher.publish(&vec![number as u8; number * 7 % 300]).unwrap();
    }
    publisher.close();
    let mut subscriber = segment.subscriber(Start::Oldest).unwrap();
    let (mut expected, mut buffer) = (String::new(), [0; 1024]);
    while let Ok(length) = subscriber.try_read(&mut buffer) {
        let sum: u64 = buffer[..length].iter().map(|byte| u64::from(*byte)).sum();
        expected += &format!("{} {length} {sum}\n", subscriber.sequence() - 1);
    }
    assert!(expected.lines().count() > 5 && expected.lines().count() < 50, "{expected}");
    assert_eq!(printed(&program, &[ring.as_os_str()]), expected + "closed\n");
    // This program knows cells of a line only: it refuses small ones by the layout hash.
    let small = folder.path().join("small");
    drop(Segment::create(&small, &Options { cell: Cell::Quarter, ..options }).unwrap());
    assert_eq!(Command::new(&program).arg(&small).status().unwrap().code(), Some(3));
}
