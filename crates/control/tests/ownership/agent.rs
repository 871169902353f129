//! A process of some user that executes commands: sockets, and requests to control.

use rustix::net::sockopt::{set_ip_freebind, set_socket_reuseaddr, set_socket_reuseport};
use rustix::net::{AddressFamily, SocketFlags, SocketType, accept, bind, connect, getsockname, listen, socket_with};
use sidestep_control_api::client::{Client, Error, Notice, Stack};
use sidestep_control_api::message::{Code, Entry, FeedVerdict, HandOver, OpenStack, Protocol, Queues, Verdict};
use sidestep_sys::memory::memfd;
use sidestep_sys::tcp_repair::disconnect;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// The address of the test.
pub(crate) const VARIABLE: &str = "SIDESTEP_TEST_AGENT";

#[derive(Default)]
struct Agent {
    sockets: BTreeMap<String, OwnedFd>,
    client: Option<Client>,
    stacks: Vec<Stack>,
    feed: u32,
}

/// Reads lines and answers each with one, until the test hangs up.
pub(crate) fn serve() {
    let path = std::env::var_os(VARIABLE).expect("the test sets it");
    let stream = UnixStream::connect(path).expect("the test listens");
    let mut told = BufReader::new(stream.try_clone().expect("it can"));
    let (mut agent, mut line) = (Agent::default(), String::new());
    while told.read_line(&mut line).expect("it can be read") != 0 {
        let words: Vec<&str> = line.split_whitespace().collect();
        let answer = agent.obey(&words).unwrap_or_else(|error| format!("{:?}", error.kind()));
        writeln!(&stream, "{answer}").expect("the test reads");
        line.clear();
    }
}

impl Agent {
    fn obey(&mut self, words: &[&str]) -> io::Result<String> {
        let at = |text: &str| text.parse::<SocketAddr>().expect("an address");
        match words {
            ["tcp" | "udp", name, local, options @ ..] => {
                let socket = open(words[0], at(local), options)?;
                let bound = SocketAddr::try_from(getsockname(&socket)?)?;
                self.sockets.insert((*name).to_owned(), socket);
                return Ok(bound.to_string());
            }
            // A descriptor as a service of inetd has it.
            ["inherit", name] => _ = self.sockets.insert((*name).to_owned(), io::stdin().as_fd().try_clone_to_owned()?),
            ["listen", name] => listen(self.socket(name), 8)?,
            ["unlisten", name] => rustix::net::shutdown(self.socket(name), rustix::net::Shutdown::Both)?,
            ["connect", name, to] => match connect(self.socket(name), &at(to)) {
                Err(rustix::io::Errno::INPROGRESS) => {}
                connected => connected?,
            },
            ["disconnect", name] => disconnect(self.socket(name).as_fd())?,
            ["bind", name, to] => bind(self.socket(name), &at(to))?,
            ["freebind", name] => set_ip_freebind(self.socket(name), true)?,
            ["local", name] => return Ok(SocketAddr::try_from(getsockname(self.socket(name))?)?.to_string()),
            ["accept", name] => _ = accept(self.socket(name))?,
            ["close", name] => _ = self.sockets.remove(*name),
            ["receive", name] => {
                let mut buffer = [0; 64];
                let count = rustix::net::recv(self.socket(name), &mut buffer, rustix::net::RecvFlags::empty())?.0;
                return Ok(String::from_utf8_lossy(&buffer[..count]).into_owned());
            }
            ["greet"] => return Ok(said(self.client().map(drop))),
            ["open", interface] => return Ok(self.open_stack(interface, Queues::Any)),
            ["open", interface, "every"] => return Ok(self.open_stack(interface, Queues::Every)),
            ["steer", name, "port", protocol, local] => {
                let entry = Entry::Listener { protocol: number(protocol), local: at(local), vlan: None };
                return Ok(self.steer(name, entry));
            }
            ["steer", name, "flow", protocol, local, remote] => {
                let (local, remote) = (at(local), at(remote));
                return Ok(self.steer(name, Entry::Flow { protocol: number(protocol), local, remote, vlan: None }));
            }
            ["join", name, group, on] => {
                let (group, on) = (group.parse().expect("an address"), on.parse().expect("an address"));
                rustix::net::sockopt::set_ip_add_membership(self.socket(name), &group, &on)?;
            }
            ["feed", "notices"] => return Ok(self.last_verdict()),
            ["feed", interface] => {
                let opened = self.client().and_then(|client| client.open_feed(interface, ""));
                return Ok(said(opened.map(|feed| self.feed = feed.facts.feed)));
            }
            ["copy", name, kind, local, verdict] => {
                let entry = match *kind {
                    "group" => Entry::Multicast { group: at(local), source: None, vlan: None },
                    _ => Entry::Listener { protocol: Protocol::Udp, local: at(local), vlan: None },
                };
                let verdict = if *verdict == "drop" { Verdict::Drop } else { Verdict::Pass };
                return Ok(self.copy(name, entry, verdict));
            }
            ["hand", name, local, remote, bytes] => {
                let length = bytes.parse().expect("a number");
                return self.hand_over(name, record(at(local), at(remote), length));
            }
            _ => panic!("{words:?}"),
        }
        Ok("ok".into())
    }

    fn socket(&self, name: &str) -> &OwnedFd {
        self.sockets.get(name).expect("it was opened")
    }

    fn client(&mut self) -> Result<&mut Client, Error> {
        if self.client.is_none() {
            self.client = Some(Client::connect("agent")?);
        }
        Ok(self.client.as_mut().expect("just made"))
    }

    fn open_stack(&mut self, interface: &str, queues: Queues) -> String {
        let wish = OpenStack { queues, frames: 512, ring_entries: 64, ..OpenStack::on(interface) };
        let opened = self.client().and_then(|client| client.open_stack(wish));
        said(opened.map(|stack| self.stacks.push(stack)))
    }

    fn steer(&mut self, name: &str, entry: Entry) -> String {
        let stack = self.stacks.last().expect("one is open").facts.id;
        let twin = self.socket(name).try_clone().expect("it can");
        said(self.client().and_then(|client| client.steer(stack, entry, twin.as_fd())))
    }

    /// The verdict in force; without a socket if the name is "-".
    fn copy(&mut self, name: &str, entry: Entry, verdict: Verdict) -> String {
        let twin = (name != "-").then(|| self.socket(name).try_clone().expect("it can"));
        let feed = self.feed;
        let twin = twin.as_ref().map(AsFd::as_fd);
        match self.client().and_then(|client| client.steer_feed(feed, entry, verdict, twin)) {
            Ok((verdict, _)) => verdict.to_string(),
            Err(error) => said(Err(error)),
        }
    }

    /// What the newest unread notice says of the verdict.
    fn last_verdict(&mut self) -> String {
        let mut last = "nothing".to_owned();
        while let Ok(Some(notice)) = self.client().and_then(Client::notice) {
            if let Notice::FeedVerdict(FeedVerdict { verdict, .. }) = notice {
                last = verdict.map_or_else(|| "removed".to_owned(), |verdict| verdict.to_string());
            }
        }
        last
    }

    fn hand_over(&mut self, name: &str, record: HandOver) -> io::Result<String> {
        let mut bytes = File::from(memfd("agent", false)?);
        bytes.write_all(&vec![7; record.received as usize])?;
        let stack = self.stacks.last().expect("one is open").facts.id;
        let socket = self.socket(name).try_clone()?;
        Ok(said(self.client().and_then(|client| client.hand_over(stack, record, socket.as_fd(), bytes.as_fd()))))
    }
}

/// A connection with so many bytes that were received and not read.
fn record(local: SocketAddr, remote: SocketAddr, received: u32) -> HandOver {
    HandOver {
        local,
        remote,
        vlan: None,
        send_start: 1,
        has_acknowledged: false,
        unacknowledged: 0,
        unsent: 0,
        receive_end: 1,
        received,
        own_fin: false,
        is_fin_sent: false,
        peer_fin: false,
        segment_bytes: 1460,
        sack: true,
        send_shift: 7,
        receive_shift: 7,
        timestamps: Some((1, 1)),
        send_window: 1 << 16,
        send_window_max: 1 << 16,
        send_update: 1,
        receive_window: 1 << 16,
    }
}

fn number(protocol: &str) -> Protocol {
    if protocol == "tcp" { Protocol::Tcp } else { Protocol::Udp }
}

/// The outcome, as the name of the reason.
fn said(done: Result<(), Error>) -> String {
    done.map_or_else(|error| name(error.code()), |()| "ok".into())
}

pub(crate) fn name(code: Code) -> String {
    format!("{code:?}")
}

fn open(protocol: &str, local: SocketAddr, options: &[&str]) -> io::Result<OwnedFd> {
    let family = if local.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let kind = if protocol == "tcp" { SocketType::STREAM } else { SocketType::DGRAM };
    let socket = socket_with(family, kind, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?;
    set_socket_reuseaddr(&socket, options.contains(&"shared"))?;
    set_socket_reuseport(&socket, options.contains(&"grouped"))?;
    if !options.contains(&"unbound") {
        bind(&socket, &local)?;
    }
    Ok(socket)
}
