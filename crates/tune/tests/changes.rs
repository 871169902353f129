//! Settings are changed and reverted: all of them, or none, and never those that another program has changed since.

mod support;

use sidestep_tune::apply::{Outcome, apply};
use sidestep_tune::audit::Audit;
use sidestep_tune::cpus::CpuSet;
use sidestep_tune::event::Event;
use sidestep_tune::host::{Absence, Host, Identity, Tree};
use sidestep_tune::location::Location;
use sidestep_tune::plan::{Choice, Plan};
use sidestep_tune::profile::Profile;
use sidestep_tune::revert::{revert, states};
use sidestep_tune::revert_state::RevertState;
use sidestep_tune::scope::{Request, Scope};
use sidestep_tune::snapshot::Store;
use std::fs;
use std::io;
use std::path::Path;
use support::{HOSTS, bytes, unpack};
use tempfile::TempDir;

struct Stage {
    folder: TempDir,
    state: TempDir,
    host: Tree,
    store: Store,
}

impl Stage {
    fn new() -> Self {
        let (folder, state) = (unpack(HOSTS[0].1), tempfile::tempdir().unwrap());
        let (host, store) = (Tree::at(folder.path()), Store::at(state.path()));
        Self { folder, state, host, store }
    }

    fn plan(&self, choice: &Choice) -> Plan {
        let request = Request { hot: CpuSet::list("2-3"), ..Request::default() };
        let scope = Scope::of(&self.host, &request).unwrap();
        Plan::of(&scope, &Audit::of(&scope, &Profile::built_in("latency").unwrap()), choice).unwrap()
    }

    fn apply(&self, plan: &Plan, keep_going: bool) -> Outcome {
        apply(&self.host, &self.store, plan, keep_going, &mut |_| ()).unwrap()
    }

    fn file(&self, path: &str) -> String {
        fs::read_to_string(self.folder.path().join(path)).unwrap()
    }

    fn lock_file(&self, path: &str) {
        let path = self.folder.path().join(path);
        let mut permissions = fs::metadata(&path).unwrap().permissions();
        permissions.set_readonly(true);
        fs::set_permissions(path, permissions).unwrap();
    }

    fn undo(&self) -> Vec<RevertState> {
        let snapshot = self.store.list().unwrap().pop().unwrap();
        revert(&self.host, &self.store, &snapshot, &mut |_| ()).unwrap().into_iter().map(|(_, state)| state).collect()
    }
}

fn only(ids: &[&str]) -> Choice {
    Choice { only: ids.iter().map(|id| (*id).to_owned()).collect(), ..Choice::default() }
}

fn without_draft(folder: &Path) -> std::collections::BTreeMap<std::path::PathBuf, Vec<u8>> {
    bytes(folder).into_iter().filter(|(path, _)| !path.ends_with(".draft")).collect()
}

#[test]
fn what_was_applied_passes_the_check_and_goes_back_to_the_byte() {
    let stage = Stage::new();
    let before = without_draft(stage.folder.path());
    let plan = stage.plan(&Choice::default());
    assert!(plan.changes.len() > 60, "{}", plan.changes.len());
    let outcome = stage.apply(&plan, false);
    assert_eq!((outcome.applied, outcome.failed.len()), (plan.changes.len(), 0));
    assert!(stage.plan(&Choice::default()).changes.is_empty(), "nothing is left to change");
    assert_eq!(stage.file("sys/kernel/mm/transparent_hugepage/enabled"), "always [madvise] never\n");
    assert_eq!(stage.file("proc/irq/default_smp_affinity"), "f3\n");
    assert_ne!(without_draft(stage.folder.path()), before);
    assert!(stage.undo().iter().all(|state| *state == RevertState::Back));
    assert_eq!(without_draft(stage.folder.path()), before);
    assert!(stage.store.list().unwrap().is_empty());
}

#[test]
fn what_is_dangerous_is_left_alone_unless_it_is_named() {
    let stage = Stage::new();
    let has = |plan: &Plan, id: &str| plan.changes.iter().any(|change| change.check == id);
    let plan = stage.plan(&Choice::default());
    for id in ["iso-fair-server", "iso-machine-check"] {
        assert!(!has(&plan, id), "{id}");
        assert!(has(&stage.plan(&Choice { allow: vec![id.into()], ..Choice::default() }), id), "{id}");
    }
    assert!(plan.withheld.contains(&"mem-swap"));
    assert!(!plan.boot_line().contains("mitigations"));
    let named = stage.plan(&Choice { allow: vec!["cpu-mitigations".into()], ..Choice::default() });
    assert!(named.boot_line().contains("mitigations=off"), "{}", named.boot_line());
    assert!(plan.boot_line().contains("skew_tick=1") && plan.boot_line().contains("rcu_nocbs=2-3"));
    assert!(named.grub_drop_in().contains("GRUB_CMDLINE_LINUX_DEFAULT=\"$GRUB_CMDLINE_LINUX_DEFAULT "));
}

#[test]
fn a_choice_is_kept() {
    let stage = Stage::new();
    let ids = |choice: &Choice| stage.plan(choice).changes.into_iter().map(|one| one.check).collect::<Vec<_>>();
    assert_eq!(ids(&only(&["mem-swappiness", "busy-read"])), ["mem-swappiness", "busy-read"]);
    let skip = Choice { skip: vec!["busy-read".into()], ..Choice::default() };
    assert!(!ids(&skip).contains(&"busy-read".to_owned()));
    let request = Request { hot: CpuSet::list("2-3"), ..Request::default() };
    let scope = Scope::of(&stage.host, &request).unwrap();
    let audit = Audit::of(&scope, &Profile::built_in("latency").unwrap());
    assert!(Plan::of(&scope, &audit, &only(&["no-such"])).unwrap_err().to_string().contains("no-such"));
}

#[test]
fn when_one_fails_everything_goes_back() {
    let stage = Stage::new();
    stage.lock_file("proc/sys/net/core/busy_read");
    let before = without_draft(stage.folder.path());
    let plan = stage.plan(&only(&["mem-swappiness", "iso-workqueue", "busy-read", "tcp-autocorking"]));
    let mut seen = Vec::new();
    let outcome = apply(&stage.host, &stage.store, &plan, false, &mut |event| {
        if let Event::Applied(change) | Event::Failed(change, _) = event {
            seen.push(change.check.clone());
        }
    })
    .unwrap();
    assert_eq!(seen, ["iso-workqueue", "mem-swappiness", "busy-read"], "what comes after is not touched");
    assert!(!outcome.is_partial() && outcome.snapshot.is_none());
    assert_eq!(outcome.failed[0].0.check, "busy-read");
    assert_eq!(without_draft(stage.folder.path()), before);
    assert!(stage.store.list().unwrap().is_empty());
}

#[test]
fn who_keeps_going_gets_the_rest() {
    let stage = Stage::new();
    stage.lock_file("proc/sys/net/core/busy_read");
    let before = without_draft(stage.folder.path());
    let plan = stage.plan(&only(&["mem-swappiness", "busy-read", "tcp-autocorking"]));
    let outcome = stage.apply(&plan, true);
    assert!(outcome.is_partial());
    assert_eq!((outcome.applied, outcome.failed.len()), (2, 1));
    assert_eq!(stage.file("proc/sys/net/ipv4/tcp_autocorking"), "0\n");
    stage.undo();
    assert_eq!(without_draft(stage.folder.path()), before);
}

#[test]
fn on_a_read_only_system_nothing_happens() {
    let stage = Stage::new();
    for path in bytes(stage.folder.path()).keys() {
        stage.lock_file(path.to_str().unwrap());
    }
    let before = bytes(stage.folder.path());
    let outcome = stage.apply(&stage.plan(&Choice::default()), true);
    assert_eq!((outcome.applied, outcome.snapshot), (0, None));
    assert!(!outcome.failed.is_empty() && outcome.stuck.is_empty());
    assert_eq!(bytes(stage.folder.path()), before);
}

#[test]
fn what_somebody_else_has_changed_since_stays() {
    let stage = Stage::new();
    let plan = stage.plan(&only(&["mem-swappiness", "busy-read", "tcp-autocorking"]));
    stage.apply(&plan, false);
    fs::write(stage.folder.path().join("proc/sys/vm/swappiness"), "5\n").unwrap();
    fs::remove_file(stage.folder.path().join("proc/sys/net/core/busy_read")).unwrap();
    let snapshot = stage.store.list().unwrap().pop().unwrap();
    let told: Vec<RevertState> = states(&stage.host, &snapshot).unwrap().into_iter().map(|(_, state)| state).collect();
    assert_eq!(told, [RevertState::Foreign("5".into()), RevertState::Gone, RevertState::Ours]);
    assert_eq!(stage.undo(), [RevertState::Back, RevertState::Gone, RevertState::Foreign("5".into())]);
    assert_eq!(stage.file("proc/sys/vm/swappiness"), "5\n");
    assert_eq!(stage.file("proc/sys/net/ipv4/tcp_autocorking"), "1\n");
}

#[test]
fn after_a_reboot_nothing_is_written() {
    let stage = Stage::new();
    stage.apply(&stage.plan(&only(&["mem-swappiness"])), false);
    fs::write(stage.folder.path().join("proc/sys/kernel/random/boot_id"), "another\n").unwrap();
    assert_eq!(stage.undo(), [RevertState::Rebooted]);
    assert_eq!(stage.file("proc/sys/vm/swappiness"), "10\n", "if it is ours still, sysctl.d has set it");
    assert!(stage.store.list().unwrap().is_empty());
}

#[test]
fn two_layers_come_off_in_turn() {
    let stage = Stage::new();
    let before = without_draft(stage.folder.path());
    stage.apply(&stage.plan(&only(&["mem-swappiness", "busy-read"])), false);
    let request = Request { hot: CpuSet::list("2-3"), ..Request::default() };
    let scope = Scope::of(&stage.host, &request).unwrap();
    let strict = Profile::parse("name = 'strict'\n[fail]\nmem-swappiness = '0'\n", "x").unwrap();
    let plan = Plan::of(&scope, &Audit::of(&scope, &strict), &Choice::default()).unwrap();
    stage.apply(&plan, false);
    assert_eq!(stage.store.list().unwrap().len(), 2);
    stage.undo();
    assert_eq!(stage.file("proc/sys/vm/swappiness"), "10\n");
    stage.undo();
    assert_eq!(without_draft(stage.folder.path()), before);
}

#[test]
fn a_plan_that_is_no_longer_true_is_refused() {
    let stage = Stage::new();
    let plan = stage.plan(&only(&["mem-swappiness"]));
    stage.host.write(&Location::parse("proc:sys/vm/swappiness").unwrap(), "7").unwrap();
    let refused = apply(&stage.host, &stage.store, &plan, false, &mut |_| ()).unwrap_err().to_string();
    assert!(refused.contains("/proc/sys/vm/swappiness") && refused.contains("tune plan"), "{refused}");
    assert!(stage.store.list().unwrap().is_empty());
    assert!(stage.state.path().join("lock").exists());
}

/// The host of a stage, but for what a test wants otherwise: a setting that the kernel refuses to change, another network namespace.
struct Other<'a> {
    host: &'a Tree,
    immovable: &'static str,
    errno: i32,
    network: &'static str,
}

const EIO: i32 = 5;
const EOPNOTSUPP: i32 = 95;

impl Host for Other<'_> {
    fn read(&self, location: &Location) -> Result<String, Absence> {
        self.host.read(location)
    }

    fn list(&self, location: &Location) -> Vec<String> {
        self.host.list(location)
    }

    fn pids(&self) -> Vec<u32> {
        self.host.pids()
    }

    fn resolve(&self, location: &Location) -> Option<Location> {
        self.host.resolve(location)
    }

    fn write(&self, location: &Location, value: &str) -> io::Result<()> {
        match location.path() == self.immovable {
            true => Err(io::Error::from_raw_os_error(self.errno)),
            false => self.host.write(location, value),
        }
    }

    fn identity(&self) -> Identity {
        Identity { network: self.network.into(), ..self.host.identity() }
    }
}

#[test]
fn an_interrupt_that_the_kernel_keeps_is_told_and_the_others_move() {
    let stage = Stage::new();
    let interrupts = stage.file("proc/interrupts").replace("8:          0", "8:          1");
    fs::write(stage.folder.path().join("proc/interrupts"), interrupts).unwrap();
    let plan = stage.plan(&only(&["irq-others"]));
    let locations: Vec<&str> = plan.changes.iter().map(|change| change.location.path()).collect();
    assert_eq!(locations, ["irq/8/smp_affinity_list", "irq/50/smp_affinity_list"], "never the timer's, 0");
    let host = Other { host: &stage.host, immovable: "irq/50/smp_affinity_list", errno: EIO, network: "tree" };
    let outcome = apply(&host, &stage.store, &plan, false, &mut |_| ()).unwrap();
    assert_eq!((outcome.applied, outcome.immovable.len()), (1, 1));
    assert!(outcome.failed.is_empty() && !outcome.is_partial());
    assert_eq!(stage.file("proc/irq/50/smp_affinity_list"), "2\n");
    let states = stage.undo();
    assert!(states.iter().all(|state| *state == RevertState::Back), "{states:?}");
    assert!(stage.store.list().unwrap().is_empty());
}

#[test]
fn an_interrupt_alone_that_the_kernel_keeps_leaves_nothing_to_put_back() {
    let stage = Stage::new();
    let plan = stage.plan(&only(&["irq-others"]));
    let host = Other { host: &stage.host, immovable: "irq/50/smp_affinity_list", errno: EIO, network: "tree" };
    let outcome = apply(&host, &stage.store, &plan, false, &mut |_| ()).unwrap();
    assert_eq!((outcome.applied, outcome.immovable.len(), outcome.snapshot), (0, 1, None));
    assert!(stage.store.list().unwrap().is_empty());
}

#[test]
fn a_setting_that_the_driver_does_not_offer_leaves_the_others_applied() {
    let stage = Stage::new();
    let plan = stage.plan(&only(&["nic-lro", "nic-rx-usecs"]));
    assert_eq!(plan.changes.len(), 2);
    let host = Other { host: &stage.host, immovable: "eth0/features/rx-lro", errno: EOPNOTSUPP, network: "tree" };
    let outcome = apply(&host, &stage.store, &plan, false, &mut |_| ()).unwrap();
    assert_eq!((outcome.applied, outcome.immovable.len(), outcome.failed.len()), (1, 1, 0));
    assert!(stage.undo().iter().all(|state| *state == RevertState::Back));
}

/// intel_pstate bounds the lowest performance by the highest, and the highest by the lowest from below.
#[test]
fn the_highest_performance_is_raised_first_and_lowered_last() {
    let stage = Stage::new();
    let plan = stage.plan(&only(&["cpu-min-perf", "cpu-max-perf"]));
    let order: Vec<&str> = plan.changes.iter().map(|change| change.check.as_str()).collect();
    assert_eq!(order, ["cpu-max-perf", "cpu-min-perf"]);
}

#[test]
fn from_another_network_namespace_what_is_the_whole_hosts_comes_back() {
    let stage = Stage::new();
    stage.apply(&stage.plan(&only(&["mem-swappiness", "tcp-autocorking"])), false);
    let snapshot = stage.store.list().unwrap().pop().unwrap();
    let there = Other { host: &stage.host, immovable: "", errno: EIO, network: "another" };
    let told = revert(&there, &stage.store, &snapshot, &mut |_| ()).unwrap();
    let of =
        |path: &str| told.iter().find(|(change, _)| change.location.path().ends_with(path)).map(|(_, state)| state);
    assert_eq!(of("swappiness"), Some(&RevertState::Back));
    assert_eq!(of("tcp_autocorking"), Some(&RevertState::Elsewhere("tree".into())));
    assert_eq!(stage.file("proc/sys/net/ipv4/tcp_autocorking"), "0\n", "that is the other namespace's");
    assert_eq!(stage.undo(), [RevertState::Back, RevertState::Back], "and at home the rest follows");
    assert!(stage.store.list().unwrap().is_empty());
}

#[test]
fn where_all_of_it_is_of_another_network_namespace_it_is_refused_with_the_way_on() {
    let stage = Stage::new();
    stage.apply(&stage.plan(&only(&["tcp-autocorking"])), false);
    let snapshot = stage.store.list().unwrap().pop().unwrap();
    let there = Other { host: &stage.host, immovable: "", errno: EIO, network: "another" };
    let problem = revert(&there, &stage.store, &snapshot, &mut |_| ()).unwrap_err().to_string();
    assert!(problem.contains("network namespace tree") && problem.contains("--forget"), "{problem}");
    assert_eq!(stage.store.list().unwrap().len(), 1);
}
