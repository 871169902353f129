//! Ordinary programs do not notice the library: the same output, the same errors, the same exit code.

mod support;

use std::collections::BTreeSet;
use std::process::Command;
use support::{is_installed, library, shell};

/// Command lines whose output is the same each time, with the program that has to be there.
const PROGRAMS: &[(&str, &str)] = &[
    ("ls", "ls -l /usr/bin | head -100; ls /nowhere"),
    ("bash", "seq 1 20000 | sort -rn | tee >(wc -l >&2) | tail -3; sleep 0.05 & wait $!; kill -TERM $$"),
    (
        "bash",
        "set -m; (sleep 0.05; exit 7) & fg; echo $?; exec 5<>/dev/null; exec 5>&-; cat <(echo one) <(echo two); exit 3",
    ),
    (
        "python3",
        "python3 -c 'import subprocess, sys; r = subprocess.run([\"sh\", \"-c\", \"cat; exit 5\"], input=b\"x\" * 200000, stdout=subprocess.PIPE); print(len(r.stdout), r.returncode)'",
    ),
    (
        "python3",
        r#"python3 - <<'END'
import os, select, signal, socket, threading, time
a, b = socket.socketpair()
set = select.epoll()
set.register(a, select.EPOLLIN)
print(set.poll(0)); b.send(b'one'); print(len(set.poll(1)), a.recv(10))
listener = socket.create_server(('127.0.0.1', 0))
def serve():
    peer, _ = listener.accept()
    with peer:
        while data := peer.recv(65536): peer.sendall(data)
threading.Thread(target=serve).start()
with socket.create_connection(listener.getsockname()) as client:
    client.settimeout(5)
    client.sendall(b'y' * 1000); print(len(client.recv(1000, socket.MSG_WAITALL)))
    twin = os.dup(client.fileno()); os.close(twin); print(twin > 0, select.select([client], [client], [], 1)[1] == [client])
print(os.waitstatus_to_exitcode(os.waitpid(os.spawnlp(os.P_NOWAIT, 'sh', 'sh', '-c', 'exit 9'), 0)[1]))
if (child := os.fork()) == 0: os._exit(11)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
signal.signal(signal.SIGALRM, lambda *_: print('alarm')); signal.setitimer(signal.ITIMER_REAL, 0.02); time.sleep(0.3)
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.bind(('127.0.0.1', 0)); u.sendto(b'z', u.getsockname()); print(u.recvfrom(5)[0])
try: socket.socket().connect(('127.0.0.1', 1))
except OSError as error: print(error)
END"#,
    ),
    ("curl", "curl -s file:///etc/passwd; curl -s http://127.0.0.1:1/; echo $?"),
    ("java", "java -version"),
    (
        "node",
        r#"node -e "const n = require('net'); const s = n.createServer(c => c.pipe(c)).listen(0, '127.0.0.1', () => { const c = n.connect(s.address().port, '127.0.0.1', () => c.write('hi')); c.on('data', d => { console.log(String(d)); c.end(); s.close(); }); })""#,
    ),
    ("perl", "perl -e 'print `echo nested`; exec \"sh\", \"-c\", \"echo replaced; exit 4\"'"),
];

#[test]
fn ordinary_programs_run_as_without_it() {
    for (program, line) in PROGRAMS {
        if !is_installed(program) {
            println!("skipped: {program} is not installed");
            continue;
        }
        let [bare, preloaded] = [false, true].map(|is_preloaded| shell(line, is_preloaded));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert_eq!(text(&bare.stdout), text(&preloaded.stdout), "{line}");
        assert_eq!(text(&bare.stderr), text(&preloaded.stderr), "{line}");
        assert_eq!(bare.status, preloaded.status, "{line}");
        assert_ne!(bare.status.code(), Some(support::TIMED_OUT), "{line}");
        assert!(!bare.stdout.is_empty() || !bare.stderr.is_empty(), "{line}: nothing to compare");
    }
}

#[test]
fn every_name_of_the_table_is_exported_and_nothing_else() {
    let table = include_str!("../src/table.rs");
    let rows = table.lines().filter_map(|line| line.strip_prefix("        fn ")?.split('(').next());
    let names: BTreeSet<String> = rows.filter(|name| !name.contains('$')).map(str::to_owned).collect();
    assert!(names.len() > 60, "{names:?}");
    let output = Command::new("nm").args(["--dynamic", "--defined-only"]).arg(library()).output();
    let listed = String::from_utf8(output.expect("nm can be run").stdout).unwrap();
    let exported = listed.lines().filter_map(|line| line.split_whitespace().nth(2));
    let exported: BTreeSet<String> = exported.map(|name| name.split('@').next().unwrap_or(name).to_owned()).collect();
    assert_eq!(exported, names);
}

/// What users of such libraries call, and what each of its rivals intercepts.
#[test]
fn the_table_has_what_programs_call_on_sockets() {
    let table = include_str!("../src/table.rs");
    for name in WANTED.split_whitespace() {
        assert!(table.contains(&format!(" fn {name}(")), "{name} is not intercepted");
    }
}

const WANTED: &str = "socket socketpair bind listen accept accept4 connect shutdown getsockname getpeername getsockopt setsockopt
    read write readv writev preadv2 pwritev2 send sendto sendmsg sendmmsg recv recvfrom recvmsg recvmmsg
    __read_chk __recv_chk __recvfrom_chk close close_range closefrom dup dup2 dup3 fcntl fcntl64 ioctl
    poll ppoll __poll_chk __ppoll_chk select pselect epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2
    sendfile sendfile64 splice fork posix_spawn posix_spawnp pidfd_spawn pidfd_spawnp daemon execve execv execvp execvpe _exit sigaction signal";
