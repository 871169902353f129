//! The running kernel, in a network namespace of our own: what is written is what is read, and goes back.

use sidestep_lab::{Lab, Options, Side};
use sidestep_sys::netns;
use sidestep_sys::process::is_root;
use sidestep_tune::apply::apply;
use sidestep_tune::host::{Absence, Host, Live};
use sidestep_tune::location::Location;
use sidestep_tune::plan::{Change, Plan};
use sidestep_tune::reading::Form;
use sidestep_tune::revert::revert;
use sidestep_tune::revert_state::RevertState;
use sidestep_tune::snapshot::Store;
use sidestep_tune::trial::Trial;

fn location(name: &str) -> Location {
    Location::parse(name).unwrap()
}

/// From what it is to the other of two values.
fn flip(host: &dyn Host, name: &str, values: [&str; 2]) -> Change {
    let before = host.read(&location(name)).unwrap_or_else(|absence| panic!("{name}: {absence:?}"));
    let after = if before == values[0] { values[1] } else { values[0] };
    Change {
        check: "test".into(),
        subject: String::new(),
        location: location(name),
        form: Form::Text,
        before,
        after: after.into(),
    }
}

#[test]
fn settings_of_a_namespace_are_changed_and_put_back() {
    if !is_root() {
        return eprintln!("skipped: needs root");
    }
    let lab = Lab::up(&Options { queues: 2, ..Options::default() }).unwrap();
    let a = lab.host(Side::A);
    let state = tempfile::tempdir().unwrap();
    let store = Store::at(state.path());
    netns::within(&a.namespace_path, || {
        let host = Live::new();
        let link = &a.interface;
        let changes = vec![
            flip(&host, "proc:sys/net/ipv4/tcp_autocorking", ["0", "1"]),
            flip(&host, "proc:sys/net/ipv4/igmp_max_memberships", ["20", "1024"]),
            flip(&host, &format!("ethtool:{link}/features/rx-gro"), ["on", "off"]),
            flip(&host, &format!("ethtool:{link}/features/tx-tcp-segmentation"), ["on", "off"]),
        ];
        let values = |changes: &[Change]| -> Vec<String> {
            changes.iter().map(|change| host.read(&change.location).unwrap()).collect()
        };
        let too_many = host.write(&location(&format!("ethtool:{link}/channels/rx")), "1000").unwrap_err().to_string();
        assert!(too_many.contains("exceeds maximum"), "{too_many}");
        let before = values(&changes);
        let plan = Plan { profile: "test".into(), changes, ..Plan::default() };
        let outcome = apply(&host, &store, &plan, false, &mut |_| ())?;
        assert_eq!(outcome.applied, 4, "{outcome:?}");
        assert_eq!(values(&plan.changes), plan.changes.iter().map(|change| change.after.clone()).collect::<Vec<_>>());
        let snapshot = store.list()?.pop().unwrap();
        assert_eq!(snapshot.identity, host.identity());
        let states = revert(&host, &store, &snapshot, &mut |_| ())?;
        assert!(states.iter().all(|(_, state)| *state == RevertState::Back), "{states:?}");
        assert_eq!(values(&plan.changes), before);
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_snapshot_of_another_namespace_is_not_touched() {
    if !is_root() {
        return eprintln!("skipped: needs root");
    }
    let lab = Lab::up(&Options::default()).unwrap();
    let state = tempfile::tempdir().unwrap();
    let store = Store::at(state.path());
    let name = "proc:sys/net/ipv4/tcp_autocorking";
    netns::within(&lab.host(Side::A).namespace_path, || {
        let host = Live::new();
        let plan = Plan { changes: vec![flip(&host, name, ["0", "1"])], ..Plan::default() };
        apply(&host, &store, &plan, false, &mut |_| ()).map(|_| ())
    })
    .unwrap();
    let refused = netns::within(&lab.host(Side::B).namespace_path, || {
        let snapshot = store.list()?.pop().unwrap();
        revert(&Live::new(), &store, &snapshot, &mut |_| ()).map(|_| ())
    });
    assert!(refused.unwrap_err().to_string().contains("network namespace"));
    assert_eq!(store.list().unwrap().len(), 1, "it is still there for who comes from the right one");
}

#[test]
fn what_a_driver_does_not_have_is_missing() {
    let host = Live::new();
    for name in
        ["ethtool:lo/coalesce/rx-usecs", "ethtool:lo/rings/rx", "ethtool:none0/features/rx-gro", "napi:lo/1/irq"]
    {
        assert_eq!(host.read(&location(name)), Err(Absence::Missing), "{name}");
    }
    assert!(host.read(&location("ethtool:lo/features/rx-gro")).is_ok());
    assert!(host.write(&location("etc:hostname"), "x").is_err(), "no setting of the kernel");
    assert!(host.write(&location("ethtool:lo/timestamps/phc-index"), "1").is_err());
}

#[test]
fn a_trial_does_not_take_back_what_somebody_else_has_set_meanwhile() {
    if !is_root() {
        return eprintln!("skipped: needs root");
    }
    let lab = Lab::up(&Options { queues: 3, ..Options::default() }).unwrap();
    let a = lab.host(Side::A);
    let state = tempfile::tempdir().unwrap();
    let store = Store::at(state.path());
    netns::within(&a.namespace_path, || {
        let queues = format!("ethtool:{}/channels/rx", a.interface);
        let plan = Plan { changes: vec![flip(&Live::new(), &queues, ["3", "1"])], ..Plan::default() };
        let mut trial = Trial::all_of(&plan, &store).pop().unwrap();
        trial.turn(true)?;
        assert_eq!(Live::new().read(&location(&queues)).unwrap(), "1");
        Live::new().write(&location(&queues), "2").unwrap();
        let problem = trial.turn(false).unwrap_err().to_string();
        assert!(problem.contains("another program"), "{problem}");
        assert_eq!(Live::new().read(&location(&queues)).unwrap(), "2");
        Ok(())
    })
    .unwrap();
}
