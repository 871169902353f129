//! The virtual machines themselves: the kernels, their modules, a device, a lab inside.

use sidestep_lab::Side;
use sidestep_lab::{Lab, Options};
use sidestep_testkit::{vm, vm_tests};
use std::net::UdpSocket;
use std::path::Path;
use std::process::Command;

static PLAN: vm::Plan = vm::Plan {
    modules: &["veth", "8021q", "bonding", "e1000e"],
    programs: &[],
    devices: &["e1000e"],
    ..vm::Plan::BARE
};

vm_tests!(PLAN: the_kernel_is_a_stock_one, modules_are_there, a_device_has_its_driver, a_bond_has_its_members, a_lab_is_made);

fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split(' ')).status().expect("ip is in the machine");
    assert!(status.success(), "ip {arguments}");
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn the_kernel_is_a_stock_one() {
    assert!(vm::is_inside() && sidestep_sys::process::is_root());
    let version = read("/proc/version");
    assert!(version.contains("Debian"), "{version}");
    let module = std::thread::current().name().unwrap_or_default().split("::").next().unwrap_or_default().to_owned();
    let series = module.replace("linux_", "").replace('_', ".");
    assert!(version.starts_with(&format!("Linux version {series}.")), "{version} in {module}");
}

fn modules_are_there() {
    // 8021q needs garp, mrp, stp and llc; the others need only built-in modules.
    for module in ["veth", "8021q", "garp", "llc", "bonding", "e1000e"] {
        assert!(Path::new("/sys/module").join(module).exists(), "{module}");
    }
}

fn a_device_has_its_driver() {
    let links = std::fs::read_dir("/sys/class/net").expect("there are interfaces");
    let drivers: Vec<_> = links
        .filter_map(|link| std::fs::read_link(link.expect("it is readable").path().join("device/driver")).ok())
        .collect();
    assert!(drivers.iter().any(|driver| driver.ends_with("e1000e")), "{drivers:?}");
}

fn a_bond_has_its_members() {
    ip("link add bond7 type bond mode active-backup miimon 100");
    for number in [1, 2] {
        ip(&format!("link add v{number} type veth peer name w{number}"));
        ip(&format!("link set v{number} master bond7"));
    }
    assert_eq!(read("/sys/class/net/bond7/bonding/slaves").trim(), "v1 v2");
    ip("link del bond7");
    ip("link del v1");
    ip("link del v2");
}

fn a_lab_is_made() {
    let lab = Lab::up(&Options::default()).expect("a lab");
    let bind = |side: Side| {
        let host = lab.host(side);
        host.within(|| Ok(UdpSocket::bind((host.ipv4, 7000)).expect("a free port"))).expect("on the host")
    };
    let (a, b) = (bind(Side::A), bind(Side::B));
    b.set_read_timeout(Some(std::time::Duration::from_secs(20))).expect("a time");
    a.send_to(b"through", (lab.host(Side::B).ipv4, 7000)).expect("sent");
    let mut buffer = [0; 16];
    let length = b.recv(&mut buffer).expect("it comes");
    assert_eq!(&buffer[..length], b"through");
}
