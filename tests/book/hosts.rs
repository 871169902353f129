//! Runs the commands of a page on one of two hosts that are network namespaces, joined by `eth1`: this one is 192.0.2.1, the other
//! one 192.0.2.2.

use crate::page::{Block, Way};
use crate::shell;
use crate::support::{finish_within, unmodified};
use sidestep_lab::{Host, Lab, Options, Removal, Side};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The longest time for a block, seconds: on a busy machine a measurement takes several times as long as it should.
const BLOCK_S: u64 = 300;

/// Runs the blocks of a page in turn, in one folder, as a reader would.
pub(crate) fn run(page: &str, blocks: &[&Block]) {
    let labs = labs(blocks);
    let present = Lab::list().expect("labs can be listed");
    let taken = present.iter().find(|lab| labs.contains(&lab.name));
    assert!(taken.is_none(), "{page}: there is a lab {labs:?} on this machine already: take it down");
    let lab = Lab::up(&Options::default()).expect("root can make a lab");
    let (here, there) = (lab.host(Side::A), lab.host(Side::B));
    name_interfaces(here, there);
    let folder = tempfile::tempdir().expect("a folder");
    install(&folder.path().join("bin"));
    let script = script(folder.path(), &there.namespace, blocks);
    let longest = Duration::from_secs(BLOCK_S * blocks.len() as u64 + 30);
    let mut command = here.command("bash").expect("root can enter");
    command.args(["-u", "-c", &script]).current_dir(folder.path().join("work")).process_group(0);
    command
        .env("PATH", format!("{}:{}", folder.path().join("bin").display(), std::env::var("PATH").unwrap_or_default()));
    command.env("SIDESTEP_LIBRARY", unmodified::library()).env("SIDESTEP_STATE_DIR", folder.path().join("state"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let finished = finish_within(longest, command.spawn().expect("bash is there"));
    // Where all went well these are gone.
    for left in Lab::list().unwrap_or_default().into_iter().filter(|lab| labs.contains(&lab.name)) {
        end(&left.hosts.iter().collect::<Vec<_>>());
        let _ = Lab::down_by_name(&left.name, Removal::Forced);
    }
    end(&[here, there]);
    eprint!("{}", finished.stdout);
    let said = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap_or_default();
    if finished.code != 0 {
        let number: usize = said("at").trim().parse().unwrap_or_default();
        let block = blocks[number];
        let others: String = (0..blocks.len())
            .filter(|other| matches!(blocks[*other].way, Way::OtherHost))
            .map(|other| said(&format!("{other}.out")))
            .collect();
        panic!(
            "{}: code {}\n{}\n{}\n{}\nthe other host: {others}",
            block.place,
            finished.code,
            block.text,
            said(&format!("{number}.out")),
            finished.stderr
        );
    }
    for (number, block) in blocks.iter().enumerate() {
        let Way::Run { shows, .. } = &block.way else { continue };
        let out = said(&format!("{number}.out"));
        assert!(out.contains(shows.as_str()), "{}: the commands did not say {shows:?}, but\n{out}", block.place);
    }
}

/// The labs that these blocks make.
fn labs(blocks: &[&Block]) -> Vec<String> {
    let commands = blocks.iter().flat_map(|block| shell::commands(&block.text));
    let made = commands.filter(|words| words.len() > 3 && words[..3] == ["sidestep", "lab", "up"]);
    made.map(|words| words[3].clone()).collect()
}

/// The names and addresses of the documentation in place of the lab's.
fn name_interfaces(here: &Host, there: &Host) {
    for (host, number) in [(here, 1), (there, 2)] {
        let line = format!(
            "ip link set lab0 down && ip link set lab0 name eth1 && ip addr add 192.0.2.{number}/24 dev eth1 && ip link set eth1 up"
        );
        let status = host.command("sh").expect("root can enter").args(["-c", &line]).status();
        assert!(status.is_ok_and(|status| status.success()), "{line}");
    }
}

/// The folder that the commands find sidestep in.
fn install(folder: &Path) {
    let binary = Path::new(env!("CARGO_BIN_EXE_sidestep"));
    fs::create_dir_all(folder).expect("a folder");
    fs::create_dir_all(folder.join("../work")).expect("a folder");
    symlink(binary, folder.join("sidestep")).expect("a link");
    let sudo = folder.join("sudo");
    fs::write(&sudo, "#!/bin/sh\nexec \"$@\"\n").expect("a file");
    fs::set_permissions(&sudo, fs::Permissions::from_mode(0o755)).expect("it is ours");
}

/// One script for all blocks: each a shell of its own, which ends at the first command that fails.
fn script(folder: &Path, other: &str, blocks: &[&Block]) -> String {
    let mut script = String::new();
    for (number, block) in blocks.iter().enumerate() {
        let file = folder.join(format!("{number}.sh"));
        fs::write(&file, &block.text).expect("a file");
        let (file, out, at) = (file.display(), folder.join(format!("{number}.out")), folder.join("at"));
        let (out, at) = (out.display(), at.display());
        let part = match &block.way {
            Way::OtherHost => format!("ip netns exec {other} bash -eu {file} </dev/null >{out} 2>&1 &\nsleep 0.5\n"),
            Way::Run { may_end_with, .. } => {
                let good: String = may_end_with.iter().map(|code| format!(" | {code}")).collect();
                format!(
                    "echo {number} >{at}; begin=$EPOCHREALTIME; code=0\n\
                     timeout --kill-after=5 {BLOCK_S} bash -eu {file} </dev/null >{out} 2>&1 || code=$?\n\
                     echo \"{}: $(((${{EPOCHREALTIME/./}} - ${{begin/./}}) / 1000)) ms\"\n\
                     case $code in 0{good}) ;; *) exit $code ;; esac\n",
                    block.place
                )
            }
            Way::NotRun(_) => continue,
        };
        script.push_str(&part);
    }
    script
}

/// Ends every process in these namespaces: all of them were started by the page.
fn end(hosts: &[&Host]) {
    let inodes: Vec<u64> =
        hosts.iter().filter_map(|host| Some(fs::metadata(&host.namespace_path).ok()?.ino())).collect();
    for signal in ["TERM", "KILL"] {
        for attempt in 0..40 {
            let pids = processes(&inodes);
            if pids.is_empty() {
                return;
            }
            if attempt == 0 {
                pids.into_iter().for_each(|pid| send_signal_if_there(pid, signal));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// It may have ended meanwhile.
fn send_signal_if_there(pid: u32, signal: &str) {
    let _ = Command::new("kill").args([format!("-{signal}"), pid.to_string()]).stderr(Stdio::null()).status();
}

fn processes(inodes: &[u64]) -> Vec<u32> {
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_inside = |pid: &u32| {
        // Following the link gives the namespace's own inode.
        fs::metadata(format!("/proc/{pid}/ns/net")).is_ok_and(|namespace| inodes.contains(&namespace.ino()))
    };
    pids.filter(is_inside).collect()
}
