//! Shares of users who have many uids, in their own user namespaces.

use crate::place::{GROUP, MALLORY, Place, User, WATCHDOG, wait};
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Uids that belong to Mallory (subuid(5)).
const FIRST: u32 = 300_000;
const NUMBERS: u32 = 100;

/// A process of Mallory in its own user namespace, with uids; `None`, with a message, if that is not possible.
fn namespace(place: &Place) -> Option<User> {
    let mut command = Command::new("unshare");
    command.args(["--user", "true"]).uid(MALLORY).gid(MALLORY);
    if !command.stderr(Stdio::null()).status().is_ok_and(|status| status.success()) {
        eprintln!("skipped: users may not make user namespaces here");
        return None;
    }
    let mut command = Command::new("unshare");
    command.arg("--user").arg(place.program()).uid(MALLORY).gid(MALLORY);
    let user = place.start(&mut command);
    // As newuidmap(1) does for users to whom the administrator has given uids; the group is Mallory's own before and
    // after.
    let map = |file: &str, lines: String| fs::write(format!("/proc/{}/{file}", user.pid()), lines).expect("root can");
    map("uid_map", format!("0 {FIRST} {NUMBERS}\n"));
    map("gid_map", format!("0 {FIRST} {NUMBERS}\n{GROUP} {GROUP} 1\n"));
    Some(user)
}

/// A process with one of those uids.
fn number(place: &Place, namespace: &User, uid: u32) -> User {
    let mut command = Command::new("nsenter");
    command.arg("--user").args(["--target", &namespace.pid().to_string(), "--setuid", &uid.to_string()]);
    command.args(["--setgid", &GROUP.to_string()]).arg(place.program());
    place.start(&mut command)
}

/// 64 clients are one user's share of 256, 16 are reserved for root.
#[test]
fn the_numbers_of_a_user_namespace_share_its_owners_places_and_queues() {
    let Some(place) = Place::with_queues(4) else { return };
    let Some(namespace) = namespace(&place) else { return };
    let begin = Instant::now();
    let mut users = Vec::new();
    let mut refused = 0;
    for uid in 0..NUMBERS {
        let mut user = number(&place, &namespace, uid);
        let said = user.ask("greet");
        refused += u32::from(said == "Limit");
        assert!(said == "ok" || said == "Limit", "{said}");
        users.push(user);
        assert!(begin.elapsed() < 5 * WATCHDOG);
    }
    assert_eq!(refused, NUMBERS - 64, "they are one user's");
    let uids: Vec<u32> = place.root().unwrap().clients().unwrap().iter().map(|line| line.uid).collect();
    assert!(uids.contains(&FIRST) && uids.contains(&(FIRST + 63)), "they came with numbers of their own: {uids:?}");
    // A user gets two of a device's four queues, whatever uids it has.
    let opened: Vec<String> = users[..4].iter_mut().map(|user| user.ask("open lab0")).collect();
    assert_eq!(opened, ["ok", "ok", "Limit", "Limit"]);
    // Mallory itself is that user, too.
    assert_eq!(place.user(MALLORY).ask("greet"), "Limit");
    drop(users);
    let mut mallory = wait("a place", || {
        let mut mallory = place.user(MALLORY);
        (mallory.ask("greet") == "ok").then_some(mallory)
    });
    assert_eq!(wait("the queues", || Some(mallory.ask("open lab0 every")).filter(|said| said != "Limit")), "ok");
    let lines = place.root().unwrap().clients().unwrap();
    let queues: usize = lines.iter().flat_map(|line| &line.stacks).map(|stack| stack.queues.len()).sum();
    assert_eq!(queues, 2, "as many as it may have, of those that there are");
}
