//! The headers against the Rust side: every number, every structure, every prototype, every exported name.

mod support;

use sidestep_c::codes;
use sidestep_c::fix;
use sidestep_c::flow::{self, CFlowCounts, CFlowOptions, CFlowWay, CPacket};
use sidestep_c::market::{self, CFeedOptions, CFeedStatus, CLevel, CUpdate};
use sidestep_c::socket::{address::CAddress, engine::CEngineFacts, options, path, receive::CDatagram};
use sidestep_c::socket::{send::CMessage, send::CReservation, udp::CCounts, udp::CUndelivered};
use sidestep_c::views::{CFlow, CHolder, CInfo, CPeer, CStat};
use sidestep_socket::Reason;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::mem::offset_of;
use std::path::Path;
use std::process::Command;
use support::{C99, CXX11, compile, differences, header, include, library_folder};

/// The headers that declare calls.
const HEADERS: [&str; 6] = ["error.h", "ring.h", "socket.h", "ring_flow.h", "fix.h", "market.h"];

macro_rules! structure {
    ($all:ident, $rust:ty, $c:literal, $($field:ident),+) => {
        $all.insert(format!("sizeof({})", $c), size_of::<$rust>() as u64);
        $($all.insert(format!("offsetof({}, {})", $c, stringify!($field)), offset_of!($rust, $field) as u64);)+
    };
}

fn named<N: Into<i64>>(numbers: impl IntoIterator<Item = (&'static str, N)>) -> BTreeMap<String, u64> {
    let name = |(name, number): (&str, N)| (format!("SIDESTEP_{name}"), number.into().cast_unsigned());
    numbers.into_iter().map(name).collect()
}

fn error_h() -> BTreeMap<String, u64> {
    named([
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
    ])
}

fn ring_h() -> BTreeMap<String, u64> {
    let signed = [
        ("SPSC", codes::SPSC),
        ("BROADCAST", codes::BROADCAST),
        ("SMALL_CELLS", codes::SMALL_CELLS),
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
    let mut all: BTreeMap<String, u64> = named(signed).into_iter().chain(named(unsigned)).collect();
    structure!(all, CFlow, "sidestep_ring_flow", messages, bytes, cells);
    structure!(all, CHolder, "sidestep_ring_holder", start_ticks, beat_age_ns, pid, is_alive, sleeps, is_closed);
    structure!(all, CStat, "sidestep_ring_stat", kind, fault, capacity_bytes, message_bytes_max, written, read);
    structure!(all, CStat, "sidestep_ring_stat", published_cells, dropped, abandoned, lost, writer, reader);
    structure!(all, CStat, "sidestep_ring_stat", cell_bytes);
    structure!(all, CInfo, "sidestep_ring_info", sequence, message_bytes_max, abandoned, lost_messages, lost_bytes);
    structure!(all, CInfo, "sidestep_ring_info", replaced_pid, reserved);
    structure!(all, CPeer, "sidestep_ring_peer", state, pid);
    all
}

fn socket_h() -> BTreeMap<String, u64> {
    let mut all = named([
        ("ACCELERATED", path::ACCELERATED),
        ("MODE_ZERO_COPY", path::MODE_ZERO_COPY),
        ("MODE_COPY", path::MODE_COPY),
        ("MODE_GENERIC", path::MODE_GENERIC),
        ("KICK_CALLER", options::KICK_CALLER),
        ("KICK_THREAD_SPIN", options::KICK_THREAD_SPIN),
        ("KICK_THREAD_PARK", options::KICK_THREAD_PARK),
        ("KICK_SQPOLL", options::KICK_SQPOLL),
        ("CHECKSUMS_AUTO", options::CHECKSUMS_AUTO),
        ("CHECKSUMS_VERIFY", options::CHECKSUMS_VERIFY),
        ("CHECKSUMS_TRUST", options::CHECKSUMS_TRUST),
        ("OUT_ENGINE", options::OUT_ENGINE),
        ("OUT_ROUTES", options::OUT_ROUTES),
    ]);
    let reason = |reason: &Reason| {
        (format!("SIDESTEP_REASON_{}", reason.name().to_uppercase()), u64::from(path::reason_number(*reason)))
    };
    all.extend(named([("QUEUE_ANY", options::QUEUE_ANY), ("QUEUE_EVERY", options::QUEUE_EVERY)]));
    all.extend(Reason::ALL.iter().map(reason));
    socket_structures(&mut all);
    all
}

fn ring_flow_h() -> BTreeMap<String, u64> {
    let mut all = named([
        ("VERDICT_PASS", flow::VERDICT_PASS),
        ("VERDICT_DROP", flow::VERDICT_DROP),
        ("FLOW_RING", flow::FLOW_RING),
        ("FLOW_KERNEL", flow::FLOW_KERNEL),
        ("FLOW_NOTHING", flow::FLOW_NOTHING),
        ("NO_QUEUE", flow::NO_QUEUE),
    ]);
    structure!(all, CFlowOptions, "sidestep_flow_options", interface_name, feed, control, name, doorbell);
    structure!(all, CFlowOptions, "sidestep_flow_options", checksums, receive_buffer, accelerate);
    structure!(all, CFlowWay, "sidestep_flow_way", way, reason, verdict, mode);
    structure!(all, CPacket, "sidestep_packet", payload, length, ip, ip_length, received_ns, lost_before, source);
    structure!(all, CPacket, "sidestep_packet", destination, queue, vlan, protocol, reserved);
    structure!(all, CFlowCounts, "sidestep_flow_counts", packets, by_kernel, lost, lost_bytes, bad_checksums);
    structure!(all, CFlowCounts, "sidestep_flow_counts", malformed, fallbacks, queues, dropped);
    all
}

fn fix_h() -> BTreeMap<String, u64> {
    let mut all = named([
        ("FIX_MESSAGE", fix::FIX_MESSAGE),
        ("FIX_LOGON", fix::FIX_LOGON),
        ("FIX_LOGOUT", fix::FIX_LOGOUT),
        ("FIX_RESET", fix::FIX_RESET),
        ("FIX_PROBLEM", fix::FIX_PROBLEM),
        ("FIX_CANCEL", fix::FIX_CANCEL),
        ("FIX_ROOM", fix::FIX_ROOM),
    ]);
    structure!(all, fix::CFixEvent, "sidestep_fix_event", bytes, length, sequence, kind, session);
    structure!(all, fix::CFixState, "sidestep_fix_state", next_outbound, next_inbound, sent, received);
    structure!(all, fix::CFixState, "sidestep_fix_state", logged_on, connected);
    all
}

fn market_h() -> BTreeMap<String, u64> {
    let mut all = named([
        ("BUY", market::BUY),
        ("SELL", market::SELL),
        ("FEED_UNKNOWN", market::FEED_UNKNOWN),
        ("FEED_LIVE", market::FEED_LIVE),
        ("FEED_STALE", market::FEED_STALE),
        ("FEED_RECOVERING", market::FEED_RECOVERING),
        ("UPDATE_EVENT", market::UPDATE_EVENT),
        ("UPDATE_TOP", market::UPDATE_TOP),
        ("UPDATE_SYNCHRONISED", market::UPDATE_SYNCHRONISED),
        ("UPDATE_RESET", market::UPDATE_RESET),
    ]);
    structure!(all, CFeedOptions, "sidestep_feed_options", lines, rerequest, glimpse, publish, orders, instruments);
    structure!(all, CFeedOptions, "sidestep_feed_options", levels, accelerate);
    structure!(all, CFeedStatus, "sidestep_feed_status", next_sequence, messages, gaps, lost, state, reserved, session);
    structure!(all, CLevel, "sidestep_level", price, quantity, orders, reserved);
    structure!(
        all,
        CUpdate,
        "sidestep_update",
        sequence,
        time_ns,
        arrived_ns,
        reference,
        price,
        quantity,
        update,
        kind
    );
    structure!(all, CUpdate, "sidestep_update", locate, side, flags, state, bid, offer);
    all
}

fn socket_structures(all: &mut BTreeMap<String, u64>) {
    use options::{CEngineOptions, CUdpOptions};
    use path::CPath;
    all.insert("sizeof(sidestep_address)".into(), size_of::<CAddress>() as u64);
    structure!(all, CEngineOptions, "sidestep_engine_options", interface_name, control, name, queue, frames);
    structure!(all, CEngineOptions, "sidestep_engine_options", ring_entries, receive_frames, transmit_budget, mode);
    structure!(all, CEngineOptions, "sidestep_engine_options", kick, kick_cpu, sqpoll_idle_ms, control_agent_cpu);
    structure!(all, CEngineOptions, "sidestep_engine_options", busy_poll_us, busy_poll_budget, checksums, timestamps);
    structure!(all, CEngineOptions, "sidestep_engine_options", accelerate, reserved, queues);
    structure!(all, CEngineFacts, "sidestep_engine_facts", calls, reason, interface, queue, mode, frames, frame_bytes);
    structure!(all, CEngineFacts, "sidestep_engine_facts", queues);
    structure!(all, CUdpOptions, "sidestep_udp_options", reuse_address, reuse_port, only_v6, hop_limit);
    structure!(all, CUdpOptions, "sidestep_udp_options", multicast_hop_limit, type_of_service, multicast_out);
    structure!(all, CUdpOptions, "sidestep_udp_options", multicast_loop, may_fragment, receive_buffer);
    structure!(all, CUdpOptions, "sidestep_udp_options", keep_errors);
    structure!(all, CUndelivered, "sidestep_undelivered", destination, error, mtu);
    structure!(all, CPath, "sidestep_path", reason, mode);
    structure!(all, CDatagram, "sidestep_datagram", bytes, length, software_ns, hardware_ns, token, source);
    structure!(all, CDatagram, "sidestep_datagram", destination, interface, time_to_live, type_of_service, reserved);
    structure!(all, CReservation, "sidestep_reservation", bytes, length, token);
    structure!(all, CMessage, "sidestep_message", bytes, length, to, to_bytes);
    structure!(all, CCounts, "sidestep_udp_counts", received, received_by_kernel, sent, sent_by_kernel, dropped);
}

#[test]
fn numbers_and_structures_are_those_of_rust() {
    let none: Vec<String> = Vec::new();
    for (name, expected) in
        HEADERS.into_iter().zip([error_h(), ring_h(), socket_h(), ring_flow_h(), fix_h(), market_h()])
    {
        assert_eq!(differences(&include(), name, expected, |_, _| true), none, "{name}");
    }
}

#[test]
fn every_header_stands_alone_in_c_and_in_cxx() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (source, program, include) = (folder.path().join("alone.c"), folder.path().join("alone"), include());
    for name in HEADERS {
        let text = format!("#include <sidestep/{name}>\n#include <sidestep/{name}>\nint main(void) {{ return 0; }}\n");
        fs::write(&source, text).expect("a temporary file");
        for how in [&C99[..], &CXX11[..]] {
            assert_eq!(compile(how, &source, &["-I".as_ref(), include.as_os_str()], &program), Ok(()), "{name}");
        }
    }
}

#[test]
fn prototypes_are_those_of_rust() {
    let (c, rust) = (c_prototypes(), rust_prototypes());
    assert!(c.len() > 70, "{c:#?}");
    let only = |one: &BTreeSet<String>, other: &BTreeSet<String>| one.difference(other).cloned().collect::<Vec<_>>();
    assert_eq!((only(&c, &rust), only(&rust, &c)), (Vec::new(), Vec::new()), "only in C, only in Rust");
}

#[test]
fn the_library_exports_what_the_headers_declare_and_nothing_else() {
    let library = library_folder().join("libsidestep_c.so");
    let output = Command::new("nm").args(["-D", "--defined-only"]).arg(&library).output().expect("nm can be run");
    let listed = String::from_utf8_lossy(&output.stdout).into_owned();
    let exported: BTreeSet<String> =
        listed.lines().filter_map(|line| line.split_whitespace().nth(2)).map(str::to_owned).collect();
    let declared: BTreeSet<String> = c_prototypes().iter().map(|prototype| name_of(prototype)).collect();
    assert_eq!(exported, declared);
    let soname = format!("libsidestep_c.so.{}", codes::API_VERSION);
    let dynamic = Command::new("readelf").arg("-d").arg(&library).output().expect("readelf can be run");
    assert!(String::from_utf8_lossy(&dynamic.stdout).contains(&format!("[{soname}]")), "SONAME is {soname}");
}

fn name_of(prototype: &str) -> String {
    let before = prototype.split('(').next().expect("a prototype has arguments");
    before.rsplit([' ', '*']).next().expect("it has a name").to_owned()
}

/// All of them.
fn c_prototypes() -> BTreeSet<String> {
    HEADERS.iter().flat_map(|name| prototypes_in(&header(&include(), name))).collect()
}

/// The declarations of functions, with single blanks.
fn prototypes_in(header: &str) -> BTreeSet<String> {
    let code: String = header.lines().filter(|line| !line.starts_with('#')).flat_map(|line| [line, " "]).collect();
    let code = code.replace("extern \"C\" {", ";");
    let statements = code.split(';').map(|part| part.split_whitespace().collect::<Vec<_>>().join(" "));
    statements.filter(|part| part.contains("(") && part.ends_with(')')).collect()
}

/// The expected C declarations of the exported functions.
fn rust_prototypes() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(folder) = folders.pop() {
        for source in fs::read_dir(folder).expect("there is source") {
            let path = source.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.extend(prototypes_of(&fs::read_to_string(path).expect("UTF-8")));
            }
        }
    }
    found
}

fn prototypes_of(source: &str) -> Vec<String> {
    let heads = source.split("#[unsafe(no_mangle)]").skip(1).map(|function| function.split('{').next());
    heads.map(|head| to_c(&head.expect("a body").split_whitespace().collect::<Vec<_>>().join(" "))).collect()
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
        "sockaddr" => "struct sockaddr",
        "socklen_t" => "socklen_t",
        "FixEngine" => "sidestep_fix_engine",
        "CFixEvent" => "sidestep_fix_event",
        "CFixState" => "sidestep_fix_state",
        "Udp" => "sidestep_udp",
        "Engine" => "sidestep_engine",
        "CAddress" => "sidestep_address",
        "CCounts" => "sidestep_udp_counts",
        "CDatagram" => "sidestep_datagram",
        "CEngineFacts" => "sidestep_engine_facts",
        "CEngineOptions" => "sidestep_engine_options",
        "CPath" => "sidestep_path",
        "CReservation" => "sidestep_reservation",
        "CMessage" => "sidestep_message",
        "CUdpOptions" => "sidestep_udp_options",
        "CUndelivered" => "sidestep_undelivered",
        "Flow" => "sidestep_flow",
        "CFlowOptions" => "sidestep_flow_options",
        "CFlowWay" => "sidestep_flow_way",
        "CFlowCounts" => "sidestep_flow_counts",
        "CPacket" => "sidestep_packet",
        "Feed" => "sidestep_feed",
        "CFeedOptions" => "sidestep_feed_options",
        "CFeedStatus" => "sidestep_feed_status",
        "CLevel" => "sidestep_level",
        "Quotes" => "sidestep_quotes",
        "CUpdate" => "sidestep_update",
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
