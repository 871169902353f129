//! Examples of every command: at the end of its help, and in its manual page. A test parses each of them.

use clap::Command;
use sidestep_bench::path::{PATHS, Path};

/// Columns of help, of a terminal that has them.
const WIDTH: usize = 100;

/// Commands by their names, without `sidestep`, and command lines that a user would type.
const EXAMPLES: &[(&str, &str)] = &[
    (
        "",
        "sidestep demo                                        everything in a minute, as report.html
sidestep bench rr --transport tcp --size 64          every path, side by side
sidestep bench rr --ladder                           from untuned to polling, five set-ups
sidestep bench ring --pace hot,1us                   rings and pipes between two CPUs
sidestep bench serve --listen 192.0.2.2:7411         on one machine; then on the other:
sidestep bench rr --to 192.0.2.2 --json a.json
sidestep compare a.json b.json                       better, worse, or no measurable difference
sidestep doctor                                      what works on this host, and what is missing
sidestep fleet compare results                       which of many hosts differs
sidestep watch                                       latency all day, as metrics for Prometheus
sidestep tune check --cpus 2-3                       the settings of this host that cost latency
sidestep run -- redis-server                         an unmodified program, past the kernel
sidestep ring tail --flow 239.1.1.1:5000 --interface eth1   packets of a group, from a ring
sidestep fix exchange --listen 127.0.0.1:9876        a FIX exchange; then, beside it:
sidestep fix send --to 127.0.0.1:9876 --count 10
sidestep market exchange                             an exchange with a feed and orders",
    ),
    (
        "demo",
        "sidestep demo                         as root: a lab, two hosts on this machine
sidestep demo --out results           write results/report.html and results/result.json
sidestep demo --place loopback        without root",
    ),
    (
        "bench rr",
        "sidestep bench rr                                         every path over TCP, 64 bytes
sidestep bench rr --transport tcp,udp --duration 10       10 s each: p99.9 needs 100,000 samples
sidestep bench rr --paths kernel-pinned,kernel-spin,xdp --size 64,1024 --html report.html
sidestep bench rr --ladder                                from untuned to polling
sidestep bench rr --rate auto                             response time by load, up to the knee
sidestep bench rr --paths kernel-spin --causes            what the host did meanwhile
sidestep bench rr --transport udp --timestamps            the stages of a round trip
sidestep bench rr --to 192.0.2.2 --json before.json       `sidestep bench serve` runs there",
    ),
    (
        "bench sizes",
        "sidestep bench sizes --html sizes.html
sidestep bench sizes --mtu 9000 --sizes 64,1472,4096,8972 --transport udp
sidestep bench sizes --paths kernel-spin,xdp --duration 3",
    ),
    (
        "bench rates",
        "sidestep bench rates --html rates.html
sidestep bench rates --transport multicast --rates 10k,100k,500k --paths kernel-spin,xdp
sidestep bench rates --rates 50k:500k:50k --batch 16      bursts of 16",
    ),
    (
        "bench bulk",
        "sidestep bench bulk --paths kernel-pinned,kernel-spin,xdp
sidestep bench bulk --impair rate=200mbit,delay=2ms,loss=0.1% --duration 60",
    ),
    ("bench connect", "sidestep bench connect --paths kernel-pinned,kernel-spin,xdp"),
    (
        "bench ring",
        "sidestep bench ring --pace hot,1us
sidestep bench ring --source timer
sidestep bench ring --source xdp --samples 100000 --html events.html
sidestep bench ring --source xdp --paths bpf-ring,recv-block --interval 1ms
sidestep bench ring --source module",
    ),
    (
        "bench tick",
        "sidestep bench tick                                       books, FIX: kernel-spin, xdp, xdp-raw
sidestep bench tick --paths xdp --work reflex,decode,book    what the work of the trader costs
sidestep bench tick --paths xdp --order fix,ouch,raw
sidestep bench tick --paths xdp --lines 1,2 --gap-on-a 0,1 --duration 100s
sidestep bench tick --rate 25k --speed 1,2,4,8            the same feed, faster
sidestep bench tick --messages-per-packet 1 --trigger-every 20 --html tick.html
sidestep bench tick --to 192.0.2.2 --interface eth1       the trader: `bench serve` there",
    ),
    (
        "bench fix",
        "sidestep bench fix --sessions 1,10
sidestep bench fix --own veth,xdp --store none,page-cache,group-commit --html fix.html
sidestep bench fix --own none --acceptor other=127.0.0.1:9880       another engine
sidestep bench fix --own tcp,tls --to 192.0.2.2                     `bench serve --fix` runs there",
    ),
    (
        "bench serve",
        "sidestep bench serve                                      then elsewhere: bench rr --to HOST
sidestep bench serve --interface eth1 --start-control     past the kernel, too (root)
sidestep bench serve --fix --sessions 2",
    ),
    (
        "compare",
        "sidestep compare a.json b.json
sidestep compare a1.json,a2.json,a3.json b1.json,b2.json,b3.json
sidestep compare --rounds 10 --run './old/sidestep bench rr' './new/sidestep bench rr'",
    ),
    (
        "tune check",
        "sidestep tune check                                   worst first, with the reasons
sidestep tune check --cpus 2-3 --interface eth1       for a path on these CPUs
sidestep tune check --profile cloud --all
sidestep tune check --policy desk.toml --fail-on warn host1.json host2.json",
    ),
    (
        "tune explain",
        "sidestep tune explain cpu-governor\nsidestep tune explain                                 all of them",
    ),
    (
        "tune plan",
        "sidestep tune plan --cpus 2-3
sidestep tune plan --only busy-read,busy-poll
sidestep tune plan --cpus 2-3 --grub 99-sidestep.cfg  the boot parameters, as a drop-in for GRUB",
    ),
    (
        "tune apply",
        "sidestep tune apply --cpus 2-3                        then, to go back: sidestep tune revert
sidestep tune apply --only busy-read --keep-going",
    ),
    ("tune status", "sidestep tune status\nsidestep tune status --json -"),
    ("tune revert", "sidestep tune revert\nsidestep tune revert --all"),
    ("tune policy", "sidestep tune policy --cpus 2-3 --name desk > desk.toml"),
    ("tune snapshot", "sidestep tune snapshot --out host1.json"),
    (
        "tune drift",
        "sidestep tune drift good.json                         this host
sidestep tune drift good.json host1.json host2.json",
    ),
    (
        "tune verify",
        "sidestep tune verify                                  the steps of a program alone
sidestep tune verify --change-host --html steps.html  settings of the host, too; all are reverted
sidestep tune verify --change-host --only busy-read --duration 10",
    ),
    (
        "tune run",
        "sidestep tune run --cpu 3 --fifo 10 -- ./feed-handler
sidestep tune run --cpu 2-3 --isolate --latency-qos 0 -- ./engine",
    ),
    (
        "run",
        "sidestep run -- redis-server
sidestep run --why -- python3 -m http.server 8000     the path of each socket, and the reason
sidestep run --profile throughput --interface eth1 -- nginx
sidestep run --accelerate tcp::6379 -- redis-server   this port alone",
    ),
    (
        "control",
        "sidestep control                                      any interface, from its first program on
sidestep control --interface eth1 --allow-uid 1000
sidestep control --background --end-unused
sidestep control --release eth1                       detach from an interface that is not in use
sidestep control --cleanup                            after a control plane was killed",
    ),
    (
        "ps",
        "sidestep ps\nsidestep ps redis --json\nsidestep ps --release 4711                            hand over to the kernel",
    ),
    ("top", "sidestep top\nsidestep top --once\nsidestep top --json --interval 5 redis"),
    (
        "lab up",
        "sidestep lab up try
sidestep lab up try --queues 4 --mtu 9000
sidestep lab up wan --impair loss=1%,delay=5ms,jitter=1ms",
    ),
    (
        "report",
        "sidestep report result.json               what was found; --verbose for all tables
sidestep report result.json --html report.html
ssh host sidestep bench rr --json - | sidestep report - --html report.html",
    ),
    (
        "doctor",
        "sidestep doctor                           what this user can do; as root, what root can
sidestep doctor --interface eth1
sidestep doctor --json doctor.json",
    ),
    (
        "fleet compare",
        "sidestep fleet compare results            files of `bench` or `demo` of many hosts
sidestep fleet compare results --baseline host-07
sidestep fleet compare results --baseline good.json --json fleet.json",
    ),
    (
        "watch",
        "sidestep watch                            metrics at http://127.0.0.1:9465/metrics
sidestep watch --to 192.0.2.2 --every 30s  against `bench serve` on another host
sidestep watch --file /var/lib/prometheus/node-exporter/sidestep.prom
sidestep watch --once                     look once, print the metrics, end
sidestep watch --paths kernel-spin --transport tcp,udp --cpus 2,3 --tune-every never",
    ),
    ("lab down", "sidestep lab down try\nsidestep lab down --force try"),
    (
        "lab exec",
        "sidestep lab exec a -- ping -c 3 198.18.0.2
sidestep lab exec --lab try b -- tcpdump -i lab0",
    ),
    ("lab status", "sidestep lab status\nsidestep lab status --json"),
    ("ring stat", "sidestep ring stat /dev/shm/orders\nsidestep ring stat /dev/shm/orders --json -"),
    (
        "ring tail",
        "sidestep ring tail /dev/shm/orders --from oldest
sidestep ring tail --flow 239.1.1.1:5000 --interface eth1             a group, as others do
sidestep ring tail --flow 239.1.1.1:5000 --interface eth1 --drop --raw  for this program alone
sidestep ring tail --flow 0.0.0.0:7000 --interface eth1               a free port
sidestep ring tail --flow tcp:192.0.2.1:443 --interface eth1          as root: a listener
sidestep ring tail --flow tcp:192.0.2.1:443 --peer 192.0.2.9:51000 --interface eth1",
    ),
    (
        "fix exchange",
        "sidestep fix exchange --listen 127.0.0.1:9876
sidestep fix exchange --cfg acceptor.cfg --spin --cpu 1 --admin fix.sock --metrics 127.0.0.1:9464",
    ),
    (
        "fix send",
        "sidestep fix send --to 127.0.0.1:9876 --count 10
sidestep fix send --to 127.0.0.1:9876 --file orders.txt
sidestep fix send --cfg initiator.cfg --reset",
    ),
    (
        "fix decode",
        "sidestep fix decode messages.log
sidestep fix decode fix-store --json
sidestep fix decode --dictionary FIX44.xml capture.txt",
    ),
    ("fix sessions", "sidestep fix sessions --admin fix.sock"),
    ("fix reset", "sidestep fix reset --admin fix.sock 'FIX.4.4:EXCHANGE->CLIENT'"),
    (
        "market exchange",
        "sidestep market exchange                          on loopback: feed, snapshots, orders by OUCH
sidestep market exchange --interface eth1 --rate 500k --profile open --fix 0.0.0.0:9876
sidestep market exchange --symbols 10 --rate 100 --loss-a 1% --duration 60 --json -
sidestep market exchange --profile replay:day.itch --from 09:30 --speed 4",
    ),
    (
        "market watch",
        "sidestep market watch --line eth1:239.192.0.1:26400 --line eth2:239.192.0.2:26400
sidestep market watch --line lo:239.192.0.1:26400 --glimpse 127.0.0.1:26402
sidestep market watch --line lo:239.192.0.1:26400 --rerequest 127.0.0.1:26401 --json -
sidestep market watch --line eth1:239.192.0.1:26400@192.0.2.7 --once --symbol AAPL
sidestep market watch --line eth1:239.192.0.1:26400 --publish /dev/shm/feed",
    ),
    (
        "market decode",
        "sidestep market decode day.pcapng --symbol AAPL --type AFEC
sidestep market decode day.pcap --group 239.192.0.1:26400 --summary
sidestep market decode - --json                     standard input, from zcat FILE.gz
sidestep market decode day.pcapng --binaryfile day.itch
sidestep market decode day.pcap --protocol mdp --port 14310",
    ),
    (
        "market record",
        "sidestep market record day.pcapng --line eth1:239.192.0.1:26400 --line eth2:239.192.0.2:26400
sidestep market record day.pcapng --line eth1:239.192.0.1:26400 --spin --cpu 3 --duration 8h",
    ),
    (
        "market replay",
        "sidestep market replay day.pcapng                   counts, and the hash of the event log
sidestep market replay day.pcapng --log events.txt --speed 1
sidestep market replay day.pcapng --speed 8 --to lab0:239.192.0.1:26400
sidestep market replay day.pcapng --parquet day.parquet",
    ),
    (
        "market generate",
        "sidestep market generate venue.xml src/venue
sidestep market generate venue.xml src/venue --runtime sidestep_market::sbe",
    ),
    (
        "completions",
        "sidestep completions bash > /etc/bash_completion.d/sidestep
sidestep completions zsh > /usr/local/share/zsh/site-functions/_sidestep
sidestep completions fish > /etc/fish/completions/sidestep.fish",
    ),
    ("man", "sidestep man\nsidestep man /usr/local/share/man/man1"),
];

/// The definition of a command, with examples at the end of the help of each of its commands, and paths where they may be chosen.
pub(crate) fn added(definition: Command) -> Command {
    EXAMPLES.iter().fold(definition, |all, (command, examples)| {
        let names: Vec<&str> = command.split_whitespace().collect();
        at(all, &names, &mut |one| extended(one, command, examples))
    })
}

/// Changes the command of this name, if there is one.
fn at(command: Command, names: &[&str], change: &mut dyn FnMut(Command) -> Command) -> Command {
    match names {
        [] => change(command),
        [first, rest @ ..] => command.mut_subcommand(first, |one| at(one, rest, change)),
    }
}

/// A command with its examples before what its help ends with.
fn extended(command: Command, name: &str, examples: &str) -> Command {
    let notes = command.get_after_help().map(|notes| format!("\n\n{notes}")).unwrap_or_default();
    let indented: Vec<String> = examples.lines().map(|line| format!("  {line}")).collect();
    let paths = if name == "bench rr" { paths() } else { String::new() };
    command.after_help(format!("Examples:\n{}{paths}{notes}", indented.join("\n")))
}

/// The paths, each with its description.
fn paths() -> String {
    let entry = |path: &Path| format!("\n  {:<20}{}", path.name, hanging(path.description));
    format!("\n\nPaths:{}", PATHS.iter().map(entry).collect::<String>())
}

/// A text in lines that end before [`WIDTH`], all but the first indented behind the names.
fn hanging(text: &str) -> String {
    const INDENT: usize = 22;
    let (mut filled, mut column) = (String::new(), INDENT);
    for word in text.split_whitespace() {
        if column + 1 + word.len() > WIDTH {
            filled.push('\n');
            filled.push_str(&" ".repeat(INDENT));
            column = INDENT;
        } else if column > INDENT {
            filled.push(' ');
            column += 1;
        }
        filled.push_str(word);
        column += word.len();
    }
    filled
}

#[cfg(test)]
mod tests {
    use crate::definition;
    use clap::Command;

    /// The command lines of a help text: what follows `sidestep ` in its examples, without the remark that two spaces part from it.
    fn command_lines(help: &str) -> Vec<String> {
        let lines = help.lines().filter(|line| line.starts_with("  sidestep"));
        let command = |line: &str| {
            line.trim().split("  ").next().unwrap_or_default().split(" > ").next().unwrap_or_default().to_owned()
        };
        lines.map(command).collect()
    }

    /// The words of a command line, as a shell has them.
    fn words(line: &str) -> Vec<String> {
        let (mut words, mut word, mut quoted) = (Vec::new(), String::new(), false);
        for letter in line.chars() {
            match letter {
                '\'' => quoted = !quoted,
                ' ' if !quoted => words.push(std::mem::take(&mut word)),
                _ => word.push(letter),
            }
        }
        words.push(word);
        words.retain(|word| !word.is_empty());
        words
    }

    /// Calls `check` with every command that is shown, and its name.
    fn every(command: &Command, name: &str, check: &mut dyn FnMut(&Command, &str)) {
        check(command, name);
        for one in command.get_subcommands().filter(|one| !one.is_hide_set()) {
            every(one, format!("{name} {}", one.get_name()).trim(), check);
        }
    }

    #[test]
    fn every_command_has_examples_and_they_parse() {
        let mut seen = 0;
        every(&definition(), "", &mut |command, name| {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            if command.has_subcommands() && !name.is_empty() {
                return;
            }
            assert!(help.contains("Examples:\n  sidestep"), "sidestep {name} has no examples");
            let long = help.lines().find(|line| line.chars().count() > super::WIDTH);
            assert_eq!(long, None, "sidestep {name}: would be wrapped in mid-sentence");
            for line in command_lines(&help) {
                let parsed = definition().try_get_matches_from(words(&line));
                assert!(parsed.is_ok(), "{line}: {}", parsed.expect_err("checked"));
                assert!(line.contains(name), "{line} is an example of `sidestep {name}`");
                seen += 1;
            }
        });
        assert!(seen > super::EXAMPLES.len(), "{seen}");
    }

    #[test]
    fn every_entry_is_of_a_command() {
        let mut names = Vec::new();
        every(&definition(), "", &mut |_, name| names.push(name.to_owned()));
        for (name, _) in super::EXAMPLES {
            assert!(names.iter().any(|known| known == name), "there is no `sidestep {name}`");
        }
    }

    #[test]
    fn paths_are_listed_where_they_are_chosen() {
        let rr = definition().find_subcommand("bench").and_then(|bench| bench.find_subcommand("rr")).cloned();
        let help = rr.and_then(|rr| rr.get_after_help().map(ToString::to_string)).unwrap_or_default();
        assert!(sidestep_bench::path::PATHS.iter().all(|path| help.contains(path.name)), "{help}");
    }
}
