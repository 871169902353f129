//! What we write is read by Wireshark's programs, and what they write by us; only where they are installed.

use sidestep_market::capture::{Capture, LinkType, Writer, datagram};
use sidestep_market::itch::Message;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

/// The output of a program; nothing if it is not installed.
fn output(program: &str, arguments: &[&str], file: &Path) -> Option<String> {
    let output = Command::new(program).args(arguments).arg(file).output().ok()?;
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

fn packets() -> Vec<(u64, SocketAddr, SocketAddr, Vec<u8>)> {
    let address = |text: &str| text.parse::<SocketAddr>().unwrap();
    let v4 = (address("10.1.2.3:4000"), address("233.54.12.111:26477"));
    let v6 = (address("[fe80::1]:4001"), address("[ff3e::7]:26478"));
    let numbers = 0..50_u64;
    numbers
        .map(|number| {
            let (source, destination) = if number % 3 == 0 { v6 } else { v4 };
            let payload = (0..number * 20).map(|byte| byte as u8).collect();
            (1_796_000_000_123_456_789 + number, source, destination, payload)
        })
        .collect()
}

fn write(path: &Path) {
    let mut writer = Writer::new(File::create(path).unwrap(), "sidestep oracle").unwrap();
    let lines = ["line A", "line B"].map(|name| writer.interface(name, LinkType::RAW).unwrap());
    for (number, (time, source, destination, payload)) in packets().into_iter().enumerate() {
        writer.datagram(lines[number % 2], time, source, destination, &payload).unwrap();
    }
    writer.finish().unwrap();
}

fn check(path: &Path, unit: u64) {
    let mut capture = Capture::new(File::open(path).unwrap()).unwrap();
    for (time, source, destination, payload) in packets() {
        let packet = capture.try_next().unwrap().unwrap();
        assert_eq!(packet.time_ns, Some(time / unit * unit));
        let found = datagram(&packet).unwrap();
        assert_eq!((found.source, found.destination, found.payload), (source, destination, &payload[..]));
    }
    assert!(capture.try_next().unwrap().is_none());
}

#[test]
fn wireshark_reads_what_we_write() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ours.pcapng");
    write(&path);
    check(&path, 1);
    let fields = [
        "frame.time_epoch",
        "frame.interface_name",
        "udp.srcport",
        "udp.dstport",
        "udp.length",
        "udp.checksum.status",
        "_ws.malformed",
    ];
    let mut arguments = vec!["-o", "udp.check_checksum:TRUE", "-T", "fields", "-E", "separator=,"];
    fields.iter().for_each(|field| arguments.extend(["-e", field]));
    arguments.push("-r");
    let Some(text) = output("tshark", &arguments, &path) else { return eprintln!("tshark is not installed") };
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 50);
    for (number, ((time, source, destination, payload), line)) in packets().iter().zip(lines).enumerate() {
        let interface = ["line A", "line B"][number % 2];
        let (s, ns) = (time / 1_000_000_000, time % 1_000_000_000);
        let (from, to, length) = (source.port(), destination.port(), payload.len() + 8);
        // 1: the checksum is right.
        assert_eq!(line, format!("{s}.{ns:09},{interface},{from},{to},{length},1,"));
    }
    let facts = output("capinfos", &["-M"], &path).expect("it comes with tshark");
    let facts: Vec<String> = facts.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    for fact in ["Number of packets: 50", "File timestamp precision: nanoseconds", "Number of interfaces in file: 2"] {
        assert!(facts.iter().any(|line| line.starts_with(fact)), "{fact}: {facts:?}");
    }
}

#[test]
fn we_read_what_wireshark_writes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ours.pcapng");
    write(&path);
    for (format, unit) in [("pcapng", 1), ("nsecpcap", 1), ("pcap", 1000)] {
        let theirs = folder.path().join(format);
        let Ok(status) = Command::new("editcap").args(["-F", format]).arg(&path).arg(&theirs).status() else {
            return eprintln!("editcap is not installed");
        };
        assert!(status.success());
        check(&theirs, unit);
    }
}

/// Real captures are not ours to keep: name a folder of them. Every ITCH message behind MoldUDP64 is one that has its length, and
/// every packet of every capture is read without an error.
#[test]
#[ignore = "needs a folder of captures: SIDESTEP_CAPTURES"]
fn every_message_of_real_captures_is_read() {
    let folder = std::env::var_os("SIDESTEP_CAPTURES").expect("SIDESTEP_CAPTURES names a folder of captures");
    let (mut folders, mut files, mut packets, mut messages) = (vec![folder.into()], 0, 0, 0);
    while let Some(folder) = folders.pop() {
        let folder: std::path::PathBuf = folder;
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let Ok(mut capture) = Capture::new(File::open(&path).unwrap()) else { continue };
            files += 1;
            let is_itch = path.to_string_lossy().contains("Itch.v5.0");
            while let Some(packet) = capture.try_next().unwrap_or_else(|error| panic!("{}: {error}", path.display())) {
                packets += 1;
                if let Ok(found) = datagram(&packet) {
                    messages += if is_itch { itch(found.payload, &path) } else { 0 };
                }
            }
        }
    }
    println!("{files} captures, {packets} packets, {messages} messages of ITCH");
    assert!(packets > 0);
}

/// Walks over the blocks of a MoldUDP64 packet; a walk of its own, so that it checks the other one.
fn itch(payload: &[u8], path: &Path) -> usize {
    let Some((header, mut blocks)) = payload.split_at_checked(20) else { return 0 };
    let count = u16::from_be_bytes([header[18], header[19]]);
    let mut read = 0;
    while let Some((length, rest)) =
        blocks.split_first_chunk::<2>().filter(|_| count != 0xffff && read < usize::from(count))
    {
        let message = &rest[..usize::from(u16::from_be_bytes(*length))];
        let found = Message::parse(message);
        let is_known =
            found.is_ok_and(|found| !matches!(found, Message::Unknown(_)) && found.bytes().len() == message.len());
        assert!(is_known, "{}: {found:?}", path.display());
        blocks = &rest[message.len()..];
        read += 1;
    }
    assert_eq!(read, if count == 0xffff { 0 } else { usize::from(count) }, "{}", path.display());
    read
}
