//! Programs of Debian between the two hosts of a lab: bare, and with the server, the client or both under the library, which must say
//! the same.

#[path = "run_programs/catalogue.rs"]
mod catalogue;
mod support;
#[path = "run_programs/table.rs"]
mod table;

use catalogue::{FILES, PROGRAMS, Program};
use sidestep_lab::Side;
use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use support::unmodified::Hosts;
use support::{finish, is_root, my_turn, send_signal};
use table::{Row, Sockets};

/// Which ends run under the library.
#[derive(Debug, Clone, Copy, Default)]
struct Accelerated {
    server: bool,
    client: bool,
}

impl Accelerated {
    /// The ways that are compared with the bare one, by their names in the table.
    const WAYS: [(&str, Self); 3] = [
        ("server", Self { server: true, client: false }),
        ("client", Self { server: false, client: true }),
        ("both", Self { server: true, client: true }),
    ];
}

/// A server that runs, with all that it has started.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        send_signal(self.0.id(), "TERM");
        let _ = self.0.wait();
    }
}

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    match program.contains('/') {
        true => repository().join(program).exists(),
        false => std::env::split_paths(&path).any(|folder| folder.join(program).exists()),
    }
}

/// Returns whether a socket listens at a port, as the kernel's tables have it. A connection that tries would be one of the kernel's, for
/// which a listener stays with the kernel.
fn has_listener(port: u16) -> bool {
    let listening = format!(":{port:04X} ");
    let is_listening = |line: &str| line.contains(&listening) && line.contains(" 0A ");
    let tables = ["tcp", "tcp6"].map(|name| fs::read_to_string(format!("/proc/thread-self/net/{name}")));
    // A kernel without IPv6 has no second table.
    tables.iter().flatten().any(|table| table.lines().any(is_listening))
}

/// Waits until the library of a server reports nothing new: a master that has listened forks workers, which take the listeners one after
/// the other, and a connection that comes in between is the kernel's.
fn wait_for_silence(log: &Path) {
    let length = || fs::metadata(log).map_or(0, |about| about.len());
    sidestep_testkit::wait_until("the reports of a server to end", || {
        let before = length();
        std::thread::sleep(SILENCE);
        before == length()
    });
}

/// The time without a report after which a server counts as ready.
const SILENCE: Duration = Duration::from_millis(200);

/// The name of who may bypass the kernel besides root: PostgreSQL refuses to run as root.
const USER: &str = "postgres";

/// Two hosts and their folder with what the programs read.
fn hosts() -> Hosts {
    let hosts = Hosts::accelerated_for(&[Side::A, Side::B], Some(USER));
    let folder = hosts.folder.path();
    fs::set_permissions(folder, Permissions::from_mode(0o755)).expect("it is ours");
    for (name, text) in FILES {
        let text = text.replace("DIR", folder.to_str().expect("text"));
        fs::write(folder.join(name), text).expect("a file");
    }
    let lines: String = (0..1_400_000).map(|number| format!("{number}\n")).collect();
    fs::write(folder.join("file"), lines).expect("a file");
    hosts
}

impl Program {
    /// Names what is not installed.
    fn lacks(&self) -> Option<&'static str> {
        self.needs.iter().copied().find(|name| !is_installed(name))
    }

    /// An empty file for what the library reports of one end, for whichever user the program becomes.
    fn new_log(&self, hosts: &Hosts, side: Side) -> PathBuf {
        let log = hosts.folder.path().join(format!("{}-{side:?}.why", self.port));
        fs::write(&log, "").expect("a file");
        fs::set_permissions(&log, Permissions::from_mode(0o666)).expect("it is ours");
        log
    }

    fn shell(&self, hosts: &Hosts, side: Side, line: &str, log: Option<&Path>) -> Command {
        let server = hosts.lab.host(Side::B);
        let classes = repository().join("peers/fix/quickfixj/target");
        let mut command = hosts.command(side, "bash");
        command
            .args(["-euo", "pipefail", "-c", line])
            .env("ME", hosts.lab.host(side).ipv4.to_string())
            .env("HERE", server.ipv4.to_string())
            .env("DIR", hosts.folder.path());
        command.env("HERE6", server.ipv6.expect("this kernel has IPv6").to_string());
        command.env("TIMES", std::env::var("SIDESTEP_TIMES").unwrap_or_else(|_| "1".into()));
        command.env("JAVA", format!("{0}/classes:{0}/lib/*", classes.display()));
        if let Some(log) = log {
            hosts.accelerate(side, &mut command, log);
        }
        command
    }

    fn start(&self, hosts: &Hosts, log: Option<&Path>) -> Server {
        let is_listening = || hosts.lab.host(Side::B).within(|| Ok(has_listener(self.port))).expect("root can enter");
        // Control has the listening socket of the one before until it has noticed its end.
        sidestep_testkit::wait_until("the end of the server before", || !is_listening());
        let mut command = self.shell(hosts, Side::B, self.server, log);
        let output = fs::File::create(hosts.folder.path().join(format!("{}.server", self.port))).expect("a file");
        command.stdout(Stdio::from(output.try_clone().expect("a descriptor"))).stderr(Stdio::from(output));
        let server = Server(command.spawn().expect("bash is there"));
        sidestep_testkit::wait_until(self.name, is_listening);
        log.into_iter().for_each(wait_for_silence);
        server
    }

    /// Runs server and client; returns what the client said, and what became of the sockets of either end, or why the client has failed.
    fn run(&self, hosts: &Hosts, accelerated: Accelerated) -> Result<(String, Row), String> {
        let begin = Instant::now();
        let server_log = accelerated.server.then(|| self.new_log(hosts, Side::B));
        let client_log = accelerated.client.then(|| self.new_log(hosts, Side::A));
        let server = self.start(hosts, server_log.as_deref());
        let mut client = self.shell(hosts, Side::A, self.client, client_log.as_deref());
        let child = client.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("bash is there");
        let done = finish(child);
        if done.code != 0 {
            let about = fs::read_to_string(hosts.folder.path().join(format!("{}.server", self.port)));
            let (code, stdout, stderr) = (done.code, done.stdout, done.stderr);
            return Err(format!("exit code {code}\n{stdout}{stderr}\nthe server: {}", about.unwrap_or_default()));
        }
        drop(server);
        println!("{}, {accelerated:?}: {:.1} s", self.name, begin.elapsed().as_secs_f64());
        let sockets = |log: Option<PathBuf>| {
            log.map_or_else(Sockets::default, |log| Sockets::of_log(&fs::read_to_string(log).expect("a log")))
        };
        Ok((done.stdout, Row { server: sockets(server_log), client: sockets(client_log), same: Vec::new() }))
    }

    /// Runs it bare and in each way under the library; returns its row of the table, or what differs.
    fn check(&self, hosts: &Hosts) -> Result<Row, String> {
        let (bare, _) = self.run(hosts, Accelerated::default()).map_err(|why| format!("without the library: {why}"))?;
        if bare.is_empty() {
            return Err("without the library: it has said nothing".into());
        }
        let mut row = Row::default();
        for (name, way) in Accelerated::WAYS {
            let (said, sockets) = self.run(hosts, way).map_err(|why| format!("{name} under the library: {why}"))?;
            if said != bare {
                return Err(format!("{name} under the library:\n{said}\nwithout:\n{bare}"));
            }
            row.same.push(name);
            if !way.client {
                row.server = sockets.server;
            } else if !way.server {
                row.client = sockets.client;
            }
        }
        Ok(row)
    }

    /// The same, once more where less than the document says went past the kernel: SYNs are held for a second at most, and a server
    /// that has not begun to wait by then, on a busy machine, has connections of the kernel.
    fn check_twice(&self, hosts: &Hosts) -> Result<Row, String> {
        let row = self.check(hosts)?;
        let worse = table::worse(self.name, &row);
        if worse.is_empty() {
            return Ok(row);
        }
        eprintln!("once more: {}", worse.join("; "));
        self.check(hosts)
    }
}

/// The programs that are installed, or the one that SIDESTEP_PROGRAM names by the beginning of its name. Says which are not.
fn programs() -> impl Iterator<Item = &'static Program> {
    let wanted = std::env::var("SIDESTEP_PROGRAM").unwrap_or_default();
    PROGRAMS.iter().filter(move |program| program.name.starts_with(&wanted)).filter(|program| {
        let lacking = program.lacks();
        let source =
            |path: &str| if path.starts_with("peers/") { "make peers-fix" } else { "scripts/bootstrap programs" };
        lacking.iter().for_each(|path| eprintln!("skipped: {}: no {path} ({})", program.name, source(path)));
        lacking.is_none()
    })
}

#[test]
fn programs_say_the_same_under_the_library() {
    let _turn = my_turn();
    if !is_root() {
        return;
    }
    let hosts = hosts();
    let (mut rows, mut wrong) = (BTreeMap::new(), Vec::new());
    for program in programs() {
        match program.check_twice(&hosts) {
            Ok(row) => _ = rows.insert(program.name, row),
            Err(why) => wrong.push(format!("{}: {why}", program.name)),
        }
    }
    wrong.extend(table::check(&rows));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
