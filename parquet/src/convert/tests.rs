use super::*;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::RowAccessor;
use sidestep_market::capture::{BinaryFileWriter, LinkType, Writer};
use std::fs::File;
use std::path::Path;
use std::process::Command;

/// An add of this order at 63.02, and its deletion.
fn messages(order: u64) -> [Vec<u8>; 2] {
    let head = |kind: u8| [&[kind, 0, 7, 0, 0, 0, 0, 0, 0, 0, 9][..], &order.to_be_bytes()].concat();
    let add = [&head(b'A')[..], b"S", &225_u32.to_be_bytes(), b"CVLT    ", &630_200_u32.to_be_bytes()].concat();
    [add, head(b'D')]
}

fn packet(first: u64, messages: &[Vec<u8>]) -> Vec<u8> {
    let mut packet = [&b"SESSION  1"[..], &first.to_be_bytes(), &(messages.len() as u16).to_be_bytes()].concat();
    for message in messages {
        packet.extend((message.len() as u16).to_be_bytes());
        packet.extend(message);
    }
    packet
}

fn capture(packets: u64) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), "test").unwrap();
    let line = writer.interface("A", LinkType::RAW).unwrap();
    for number in 0..packets {
        let source = "10.0.0.1:1".parse().unwrap();
        for (group, wait) in [("233.0.0.1:26477", 0), ("233.0.0.2:26477", 30)] {
            let payload = packet(1 + 2 * number, &messages(1000 + number));
            writer.datagram(line, 1_000_000 * number + wait, source, group.parse().unwrap(), &payload).unwrap();
        }
    }
    writer.packet(line, 5, &[0x40; 30]).unwrap();
    writer.finish().unwrap()
}

/// Columns seq, ts_event, ts_recv, line, locate, action, side, order_id, price, size of each row.
type Row1 = (u64, i64, Option<i64>, u8, u16, u8, u8, u64, Option<i64>, u64);

fn rows(path: &Path) -> Vec<Row1> {
    let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    let rows = reader.get_row_iter(None).unwrap();
    rows.map(|row| {
        let row = row.unwrap();
        let (locate, action) = (row.get_ushort(4).unwrap(), row.get_ubyte(5).unwrap());
        let (order, size) = (row.get_ulong(8).unwrap(), row.get_ulong(10).unwrap());
        (
            row.get_ulong(0).unwrap(),
            row.get_long(1).unwrap(),
            row.get_long(2).ok(),
            row.get_ubyte(3).unwrap(),
            locate,
            action,
            row.get_ubyte(6).unwrap(),
            order,
            row.get_long(9).ok(),
            size,
        )
    })
    .collect()
}

#[test]
fn the_rows_are_the_events_of_every_line_and_the_scale_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table.parquet");
    let report = convert(&capture(3)[..], File::create(&path).unwrap(), Some("2026-11-29")).unwrap();
    assert_eq!(report, Report { rows: 12, messages: 12, other_packets: 1, ..Report::default() });
    let rows = rows(&path);
    assert_eq!(rows[0], (1, 9, Some(0), 0, 7, 1, b'S', 1000, Some(630_200), 225));
    assert_eq!(rows[1], (2, 9, Some(0), 0, 7, 4, 0, 1000, None, 0));
    assert_eq!(rows[11], (6, 9, Some(2_000_030), 1, 7, 4, 0, 1002, None, 0));
    let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
    let facts = reader.metadata().file_metadata().key_value_metadata().unwrap().clone();
    let fact = |key: &str| facts.iter().find(|fact| fact.key == key).and_then(|fact| fact.value.clone()).unwrap();
    assert_eq!((&*fact("price_scale"), &*fact("date")), ("4", "2026-11-29"));
    assert_eq!(fact("lines"), "0 233.0.0.1:26477, 1 233.0.0.2:26477");
}

#[test]
fn a_binary_file_has_numbers_and_no_times_of_receipt_and_its_cut_end_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table.parquet");
    let mut writer = BinaryFileWriter::new(Vec::new());
    messages(5).iter().for_each(|message| writer.message(message).unwrap());
    writer.message(b"D too short").unwrap();
    writer.message(b"~later").unwrap();
    let mut file = writer.finish().unwrap();
    file.truncate(file.len() - 3);
    let report = convert(&file[..], File::create(&path).unwrap(), None).unwrap();
    assert_eq!(report, Report { rows: 2, messages: 3, malformed: 1, is_truncated: true, ..Report::default() });
    assert_eq!(rows(&path)[1], (2, 9, None, 0, 7, 4, 0, 5, None, 0));
}

#[test]
fn what_is_no_capture_is_refused() {
    assert!(matches!(convert(&b"MZ..."[..], Vec::new(), None), Err(Failure::Capture(CaptureError::Malformed { .. }))));
    assert_eq!(convert(&b""[..], Vec::new(), None).unwrap(), Report::default());
}

/// pyarrow, where it is installed: another reader of the format.
#[test]
fn pyarrow_reads_the_same_rows() {
    let python = std::env::var("SIDESTEP_PYTHON").unwrap_or_else(|_| "python3".into());
    let has = Command::new(&python).args(["-c", "import pyarrow.parquet"]).output();
    if !has.is_ok_and(|output| output.status.success()) {
        return eprintln!("{python} has no pyarrow");
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table.parquet");
    // More rows than a group has.
    convert(&capture(260_000)[..], File::create(&path).unwrap(), None).unwrap();
    let script = "import sys, pyarrow.parquet as p\n\
        f = p.ParquetFile(sys.argv[1]); t = f.read()\n\
        print(f.num_row_groups, t.num_rows, t.schema.field('price').type, t.schema.field('locate').type)\n\
        print(t.slice(1_000_000, 1).to_pylist())\n\
        print(f.metadata.metadata[b'price_scale'], f.metadata.row_group(0).column(0).encodings[-1], f.metadata.row_group(0).column(0).compression)";
    let output = Command::new(&python).args(["-c", script]).arg(&path).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "2 1040000 int64 uint16", "{}", String::from_utf8_lossy(&output.stderr));
    let row = "[{'seq': 500001, 'ts_event': 9, 'ts_recv': 250000000000, 'line': 0, 'locate': 7, 'action': 1, 'side': 83, 'flags': 1, \
        'order_id': 251000, 'price': 630200, 'size': 225}]";
    assert_eq!(lines[1], row);
    assert_eq!(lines[2], "b'4' DELTA_BINARY_PACKED ZSTD");
}
