//! `ring.h` against the Rust side: every number, every structure, every prototype, every exported name.

mod support;

use sidestep_c::codes;
use sidestep_c::views::{CFlow, CHolder, CInfo, CPeer, CStat};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::mem::offset_of;
use std::path::Path;
use std::process::Command;
use support::{differences, header, include, library_folder};

const HEADER: &str = "ring.h";

macro_rules! structure {
    ($all:ident, $rust:ty, $c:literal, $($field:ident),+) => {
        $all.insert(format!("sizeof({})", $c), size_of::<$rust>() as u64);
        $($all.insert(format!("offsetof({}, {})", $c, stringify!($field)), offset_of!($rust, $field) as u64);)+
    };
}

fn expected() -> BTreeMap<String, u64> {
    let signed = [
        ("EFAILED", codes::EFAILED),
        ("EUSAGE", codes::EUSAGE),
        ("EFULL", codes::EFULL),
        ("EEMPTY", codes::EEMPTY),
        ("ETOOLONG", codes::ETOOLONG),
        ("ECLOSED", codes::ECLOSED),
        ("EFAULTY", codes::EFAULTY),
        ("ETOOSHORT", codes::ETOOSHORT),
        ("ELOST", codes::ELOST),
        ("ETIMEDOUT", codes::ETIMEDOUT),
        ("EPEERGONE", codes::EPEERGONE),
        ("EBUG", codes::EBUG),
        ("SPSC", codes::SPSC),
        ("BROADCAST", codes::BROADCAST),
        ("WAKE_NEVER", codes::WAKE_NEVER),
        ("WAKE_BARRIER", codes::WAKE_BARRIER),
        ("WAKE_FENCE", codes::WAKE_FENCE),
        ("READ_ONLY", codes::READ_ONLY),
        ("READ_WRITE", codes::READ_WRITE),
        ("SPIN", codes::SPIN),
        ("YIELD", codes::YIELD),
        ("PARK", codes::PARK),
        ("FROM_UNREAD", codes::FROM_UNREAD),
        ("FROM_LATEST", codes::FROM_LATEST),
        ("FROM_OLDEST", codes::FROM_OLDEST),
        ("FOREVER", -1),
    ];
    let unsigned = [
        ("RING_API_VERSION", codes::API_VERSION),
        ("PEER_ABSENT", codes::PEER_ABSENT),
        ("PEER_PRESENT", codes::PEER_PRESENT),
        ("PEER_CLOSED", codes::PEER_CLOSED),
        ("PEER_GONE", codes::PEER_GONE),
    ];
    let signed = signed.map(|(name, value)| (format!("SIDESTEP_{name}"), i64::from(value).cast_unsigned()));
    let unsigned = unsigned.map(|(name, value)| (format!("SIDESTEP_{name}"), u64::from(value)));
    let mut all: BTreeMap<String, u64> = signed.into_iter().chain(unsigned).collect();
    structure!(all, CFlow, "sidestep_ring_flow", messages, bytes, cells);
    structure!(all, CHolder, "sidestep_ring_holder", start_ticks, beat_age_ns, pid, is_alive, sleeps, is_closed);
    structure!(all, CStat, "sidestep_ring_stat", kind, fault, capacity_bytes, message_bytes_max, written, read);
    structure!(all, CStat, "sidestep_ring_stat", published_cells, dropped, abandoned, lost, writer, reader);
    structure!(all, CInfo, "sidestep_ring_info", sequence, message_bytes_max, abandoned, lost_messages, lost_bytes);
    structure!(all, CInfo, "sidestep_ring_info", replaced_pid, reserved);
    structure!(all, CPeer, "sidestep_ring_peer", state, pid);
    all
}

#[test]
fn numbers_and_structures_are_those_of_rust() {
    let none: Vec<String> = Vec::new();
    assert_eq!(differences(&include(), HEADER, expected(), |_, _| true), none);
}

#[test]
fn prototypes_are_those_of_rust() {
    let (c, rust) = (c_prototypes(&header(&include(), HEADER)), rust_prototypes());
    assert!(c.len() > 40, "{c:#?}");
    let only = |one: &BTreeSet<String>, other: &BTreeSet<String>| one.difference(other).cloned().collect::<Vec<_>>();
    assert_eq!((only(&c, &rust), only(&rust, &c)), (Vec::new(), Vec::new()), "only in C, only in Rust");
}

#[test]
fn the_library_exports_what_the_header_declares_and_nothing_else() {
    let library = library_folder().join("libsidestep_c.so");
    let output = Command::new("nm").args(["-D", "--defined-only"]).arg(&library).output().expect("nm can be run");
    let listed = String::from_utf8_lossy(&output.stdout).into_owned();
    let exported: BTreeSet<String> =
        listed.lines().filter_map(|line| line.split_whitespace().nth(2)).map(str::to_owned).collect();
    let prototypes = c_prototypes(&header(&include(), HEADER));
    let declared: BTreeSet<String> = prototypes.iter().map(|prototype| name_of(prototype)).collect();
    assert_eq!(exported, declared);
    let soname = format!("libsidestep_c.so.{}", codes::API_VERSION);
    let dynamic = Command::new("readelf").arg("-d").arg(&library).output().expect("readelf can be run");
    assert!(String::from_utf8_lossy(&dynamic.stdout).contains(&format!("[{soname}]")), "SONAME is {soname}");
}

fn name_of(prototype: &str) -> String {
    let before = prototype.split('(').next().expect("a prototype has arguments");
    before.rsplit([' ', '*']).next().expect("it has a name").to_owned()
}

/// The declarations of functions, with single blanks.
fn c_prototypes(header: &str) -> BTreeSet<String> {
    let code: String = header.lines().filter(|line| !line.starts_with('#')).flat_map(|line| [line, " "]).collect();
    let code = code.replace("extern \"C\" {", ";");
    let statements = code.split(';').map(|part| part.split_whitespace().collect::<Vec<_>>().join(" "));
    statements.filter(|part| part.contains("(") && part.ends_with(')')).collect()
}

/// What the C declarations of the exported functions must be.
fn rust_prototypes() -> BTreeSet<String> {
    let sources = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("src")).expect("there is source");
    let mut found = BTreeSet::new();
    for source in sources {
        let text = fs::read_to_string(source.expect("an entry").path()).expect("UTF-8");
        for function in text.split("#[unsafe(no_mangle)]").skip(1) {
            let head = function.split('{').next().expect("a body follows");
            found.insert(to_c(&head.split_whitespace().collect::<Vec<_>>().join(" ")));
        }
    }
    found
}

/// `pub unsafe extern "C" fn name(argument: Type, ...) -> Type` as C.
fn to_c(rust: &str) -> String {
    let (_, rest) = rust.split_once(" fn ").expect("a function");
    let (name, rest) = rest.split_once('(').expect("its arguments");
    let (arguments, result) = rest.rsplit_once(')').expect("their end");
    let arguments: Vec<String> = arguments
        .split(',')
        .filter_map(|argument| argument.split_once(':'))
        .map(|(name, kind)| declare(kind.trim(), name.trim()))
        .collect();
    let arguments = if arguments.is_empty() { "void".to_owned() } else { arguments.join(", ") };
    let result = result.trim().strip_prefix("-> ").unwrap_or("()");
    format!("{}({arguments})", declare(result, name))
}

/// The C declaration of a name with a Rust type.
fn declare(kind: &str, name: &str) -> String {
    if let Some(target) = kind.strip_prefix("*mut ") {
        return declare(target, &format!("*{name}"));
    }
    if let Some(target) = kind.strip_prefix("*const ") {
        return format!("const {}", declare(target, &format!("*{name}")));
    }
    let c = match kind {
        "()" | "c_void" => "void",
        "c_int" => "int",
        "c_char" => "char",
        "usize" => "size_t",
        "u32" => "uint32_t",
        "u64" => "uint64_t",
        "i64" => "int64_t",
        "Segment" => "sidestep_segment",
        "Producer" => "sidestep_producer",
        "Consumer" => "sidestep_consumer",
        "Publisher" => "sidestep_publisher",
        "Subscriber" => "sidestep_subscriber",
        "CStat" => "sidestep_ring_stat",
        "CInfo" => "sidestep_ring_info",
        "CPeer" => "sidestep_ring_peer",
        other => panic!("{other} has no C type in the header"),
    };
    format!("{c} {name}")
}
