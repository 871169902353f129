//! The file for node_exporter's textfile collector.

use super::daemon::{Watch, parse, rounds, wait};
use crate::support::{my_turn, run};
use std::fs;
use std::os::unix::fs::PermissionsExt;

#[test]
fn the_file_is_renewed_and_goes_with_the_watch() {
    let _turn = my_turn();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("sidestep.prom");
    let watch = Watch::start(&["--file", file.to_str().expect("UTF-8"), "--tune-every", "never"]);
    let read = || Some(parse(&fs::read_to_string(&file).ok()?));
    let first = wait("a round", || read().filter(|series| rounds(series) >= 1.0));
    wait("another round", || read().filter(|series| rounds(series) > rounds(&first)));
    assert_eq!(fs::metadata(&file).expect("there").permissions().mode() & 0o777, 0o644);
    assert!(!watch.lines().iter().any(|line| line.contains("http://")), "no listener was asked for");
    assert_eq!(watch.end("TERM"), 0);
    assert_eq!(fs::read_dir(folder.path()).expect("there").count(), 0, "neither a stale file nor a draft");
}

#[test]
fn a_folder_that_goes_away_is_told_and_the_watch_goes_on() {
    let _turn = my_turn();
    let folder = tempfile::tempdir().expect("a folder");
    let within = folder.path().join("textfiles");
    fs::create_dir(&within).expect("made");
    let file = within.join("sidestep.prom");
    let watch = Watch::start(&["--file", file.to_str().expect("UTF-8"), "--tune-every", "never"]);
    wait("a file", || file.exists().then_some(()));
    fs::rename(&within, folder.path().join("away")).expect("moved");
    let told = |what: &str| watch.lines().iter().filter(|line| line.contains(what)).count();
    wait("a word", || (told("cannot write") > 0).then_some(()));
    fs::rename(folder.path().join("away"), &within).expect("moved back");
    wait("the file again", || (told("is written again") > 0).then_some(()));
    assert_eq!(told("cannot write"), 1, "once, not in every round");
    assert_eq!(watch.end("TERM"), 0);
}

#[test]
fn a_look_for_cron_writes_the_file_and_prints_nothing() {
    let _turn = my_turn();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("sidestep.prom");
    let looked = run(&["watch", "--once", "--slice", "2ms", "--file", file.to_str().expect("UTF-8")]);
    assert_eq!((looked.code, looked.stdout.as_str()), (0, ""), "{}", looked.stderr);
    assert_eq!(rounds(&parse(&fs::read_to_string(&file).expect("written"))), 1.0);
}

#[test]
fn a_link_stays_and_what_is_open_already_is_refused() {
    let _turn = my_turn();
    let folder = tempfile::tempdir().expect("a folder");
    let (link, file) = (folder.path().join("link.prom"), folder.path().join("file.prom"));
    std::os::unix::fs::symlink(&file, &link).expect("a link");
    let looked = run(&["watch", "--once", "--slice", "2ms", "--file", link.to_str().expect("UTF-8")]);
    assert_eq!(looked.code, 0, "{}", looked.stderr);
    assert!(link.is_symlink() && fs::read_to_string(&file).expect("written").contains("sidestep_build_info"));
    for refused in ["/dev/fd/1", "/dev/full"] {
        let looked = run(&["watch", "--once", "--slice", "2ms", "--file", refused]);
        assert!(
            looked.code == 1 && looked.stderr.contains(refused) && looked.stderr.contains("next:"),
            "{}",
            looked.stderr
        );
    }
}
