//! The places of a measurement (two namespaces of a lab, loopback, two machines), and the start of the peer there.

use crate::bypass::{Consent, Keeper, Told};
use crate::mtu::{self, Mtus};
use crate::path::Path;
use crate::peer::{Allowed, Control, Origin, run};
use sidestep_lab::{Host, Lab, Side};
use sidestep_report::schema::Host as HostFacts;
use sidestep_sys::{Problem, interface};
use socket2::{Domain, Socket, Type};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time that a peer has to end after its control connection is closed. One with a control plane of its
/// own takes it down first.
const PEER_END: Duration = Duration::from_secs(10);

/// The reason why the kernel cannot send frame by frame.
pub(crate) const NO_FRAMES_PAIR: &str = "it needs a second pair of interfaces that neither segment nor merge, which is made \
                                         in the lab only (--place lab, as root)";

/// The place of the two ends.
pub enum Place {
    /// Two network namespaces of this machine.
    Lab(Box<Lab>),
    /// One network namespace, over its loopback interface.
    Loopback,
    /// The peer serves on another machine (`sidestep bench serve`); what this end may do past the kernel.
    Remote(SocketAddr, Consent),
}

/// The program of a peer on this machine.
#[derive(Clone, Debug)]
pub enum PeerProgram {
    /// A process: this program, called as `PROGRAM bench peer`.
    Process(PathBuf),
    /// A thread of this process, for tests.
    Thread,
}

/// The two ends, connected by their control connection.
pub struct Ends {
    /// The connection to the peer.
    pub control: Control,
    /// Address of the measuring end.
    pub client: IpAddr,
    /// Address of the peer.
    pub server: IpAddr,
    /// Set if both are on this machine.
    pub same_host: bool,
    /// `lab`, `loopback`, `remote`.
    pub place: &'static str,
    /// The measuring end's interface.
    pub interface: String,
    /// What the measuring end may do past the kernel.
    pub(crate) consent: Consent,
    /// What the peer may do past the kernel.
    pub(crate) peer_past_kernel: Told,
    /// Set if both ends run under one kernel, whatever their network namespaces: their CPUs are the same.
    pub(crate) same_machine: bool,
    /// CPU of the peer's pinned paths, if it is not the measuring end's to choose.
    pub(crate) peer_cpu: Option<u32>,
    /// The same ends by the second pair of the lab, over which the kernel sends and receives frame by frame.
    pub(crate) by_frames: Option<Way>,
    /// The impairment of the lab's wire, if it has one.
    pub(crate) wire: Option<String>,
    /// MTUs of both ends.
    pub(crate) mtus: Mtus,
    /// Facts about the peer's host.
    pub(crate) peer_host: HostFacts,
    /// The peer's version.
    pub(crate) peer_version: String,
    /// This program, where both ends can start it.
    pub(crate) program: Option<PathBuf>,
    // Last: dropped after `control`, whose end ends the peer.
    peer: Option<Peer>,
}

/// A way between the ends: an interface, and the addresses by it.
#[derive(Clone, Debug)]
pub(crate) struct Way {
    /// Address of the measuring end.
    pub(crate) client: IpAddr,
    /// Address of the peer.
    pub(crate) server: IpAddr,
    /// The measuring end's interface.
    pub(crate) interface: String,
}

impl Ends {
    /// Greets the peer, and keeps its answer.
    fn meet(
        mut control: Control,
        (client, server): (IpAddr, IpAddr),
        place: &'static str,
        (interface, consent): (String, Consent),
        peer: Option<Peer>,
    ) -> Result<Self, Problem> {
        let told = control.greet()?;
        let mtus = Mtus { here: mtu::of_way(client, server), peer: told.mtu, is_ipv6: client.is_ipv6() };
        Ok(Self {
            control,
            client,
            server,
            same_host: peer.is_some() || client == server,
            place,
            interface,
            consent,
            peer_past_kernel: told.past_kernel,
            same_machine: told.same_machine,
            peer_cpu: told.cpu,
            by_frames: None,
            wire: None,
            mtus,
            peer_host: told.host,
            peer_version: told.version,
            program: None,
            peer,
        })
    }

    /// Returns the way that the messages of `path` take.
    pub(crate) fn way(&self, path: &Path) -> Result<Way, Problem> {
        if path.frame_by_frame {
            return self.by_frames.clone().ok_or_else(|| {
                Problem::usage(format!("cannot use path {}", path.name), NO_FRAMES_PAIR).next("leave it out of --paths")
            });
        }
        Ok(Way { client: self.client, server: self.server, interface: self.interface.clone() })
    }

    /// The process of the peer, if it is on this machine and this end has started it.
    pub(crate) fn peer_process(&self) -> Option<u32> {
        self.peer.as_ref().map(|peer| match peer {
            Peer::Process(child) => child.id(),
            Peer::Thread(_) => std::process::id(),
        })
    }

    /// Returns whether both ends are in one network namespace.
    pub(crate) fn is_one_namespace(&self) -> bool {
        self.client == self.server
    }
}

impl Place {
    /// Moves the calling thread to the measuring host and connects it to a peer there, which pins to `cpu` when asked.
    pub fn open(&self, ipv6: bool, program: &PeerProgram, cpu: u32) -> Result<Ends, Problem> {
        match self {
            Self::Lab(lab) => lab_ends(lab, ipv6, program, cpu),
            Self::Loopback => {
                interface::check_loopback()?;
                let address = if ipv6 { Ipv6Addr::LOCALHOST.into() } else { Ipv4Addr::LOCALHOST.into() };
                local_ends("loopback", "lo".into(), (address, address), program, cpu, None)
            }
            Self::Remote(address, consent) => remote_ends(*address, consent),
        }
    }
}

fn lab_ends(lab: &Lab, ipv6: bool, program: &PeerProgram, cpu: u32) -> Result<Ends, Problem> {
    let (client, server) = (lab.host(Side::A), lab.host(Side::B));
    client.enter()?;
    let (here, there) = addresses(client, server, ipv6)?;
    let by_frames = match (lab.by_frames(Side::A), lab.by_frames(Side::B)) {
        (Some(client), Some(server)) => Some((client.interface.clone(), addresses(&client, &server, ipv6)?)),
        _ => None,
    };
    let peers = by_frames.as_ref().map(|(_, (client, server))| (*server, *client));
    let ends = local_ends("lab", client.interface.clone(), (here, there), program, cpu, Some((lab, peers)))?;
    let by_frames = by_frames.map(|(interface, (client, server))| Way { client, server, interface });
    Ok(Ends { by_frames, ..ends })
}

/// Returns the addresses of two hosts that reach each other.
fn addresses(client: &Host, server: &Host, ipv6: bool) -> Result<(IpAddr, IpAddr), Problem> {
    match (ipv6, client.ipv6, server.ipv6) {
        (false, ..) => Ok((client.ipv4.into(), server.ipv4.into())),
        (true, Some(client), Some(server)) => Ok((client.into(), server.into())),
        (true, ..) => Err(Problem::failed("cannot use IPv6 in the lab", "this kernel has none").next("leave -6 out")),
    }
}

fn local_ends(
    place: &'static str,
    interface: String,
    (client, server): (IpAddr, IpAddr),
    program: &PeerProgram,
    cpu: u32,
    lab: Option<(&Lab, Option<(IpAddr, IpAddr)>)>,
) -> Result<Ends, Problem> {
    let (ours, theirs) = Socket::pair(Domain::UNIX, Type::STREAM, None).map_err(failed)?;
    let origin = Origin {
        local: server,
        remote: client,
        same_host: true,
        consent: if lab.is_some() { Consent::Lab } else { Consent::Nothing },
        keeper: Keeper::default(),
        by_frames: lab.and_then(|(_, by_frames)| by_frames),
        cpu,
        allowed: Allowed::EVERYTHING,
    };
    let lab = lab.map(|(lab, _)| lab);
    let on = (interface, origin.consent.clone());
    let peer = match program {
        PeerProgram::Process(program) => spawn_process(program, theirs, &origin, lab)?,
        PeerProgram::Thread => spawn_thread(Control::over(theirs).map_err(failed)?, origin, lab)?,
    };
    let ends = Ends::meet(Control::over(ours).map_err(failed)?, (client, server), place, on, Some(peer))?;
    let program = match program {
        PeerProgram::Process(program) => Some(program.clone()),
        PeerProgram::Thread => None,
    };
    Ok(Ends { program, ..ends })
}

fn remote_ends(address: SocketAddr, consent: &Consent) -> Result<Ends, Problem> {
    let control = Control::connect(address)?;
    let (client, server) = control.addresses().ok_or_else(|| {
        Problem::failed(format!("lost the peer at {address}"), "it closed the connection")
            .next("see what the peer printed, and whether its host is up")
    })?;
    let interface = match consent {
        Consent::Interface { name, .. } => name.clone(),
        _ => interface::of_address(client).unwrap_or_default(),
    };
    Ends::meet(control, (client, server), "remote", (interface, consent.clone()), None)
}

fn failed(error: io::Error) -> Problem {
    let next = match error.kind() {
        ErrorKind::PermissionDenied | ErrorKind::NotFound => {
            "check that this program's file is there, and that this user may run it"
        }
        _ => "raise the limits of processes and open files: ulimit -u -n",
    };
    Problem::failed("cannot start the peer", error).next(next)
}

/// A peer on this machine. It ends with its control connection; dropping waits for it.
enum Peer {
    Process(Child),
    Thread(Option<JoinHandle<()>>),
}

fn spawn_process(program: &PathBuf, control: Socket, origin: &Origin, lab: Option<&Lab>) -> Result<Peer, Problem> {
    let mut command = Command::new(program);
    command
        .args(["bench", "peer", "--local", &origin.local.to_string(), "--remote", &origin.remote.to_string()])
        .args(["--cpu", &origin.cpu.to_string()])
        .args((origin.consent == Consent::Lab).then_some("--in-lab"))
        .args(origin.by_frames.iter().flat_map(|(local, remote)| ["--by-frames".into(), format!("{local},{remote}")]))
        .stdin(Stdio::from(OwnedFd::from(control)))
        .stdout(Stdio::null())
        .process_group(0); // Ctrl-C is for the measuring end alone: it ends the peer in order.
    let child = match lab {
        Some(lab) => lab.host(Side::B).spawn(&mut command)?,
        None => command.spawn().map_err(failed)?,
    };
    Ok(Peer::Process(child))
}

fn spawn_thread(control: Control, origin: Origin, lab: Option<&Lab>) -> Result<Peer, Problem> {
    let host = lab.map(|lab| lab.host(Side::B).clone());
    let thread = std::thread::spawn(move || {
        // An error here shows at the other end of the control connection.
        let entered = host.map_or(Ok(()), |host| host.enter());
        let _ = entered.and_then(|()| run(control, origin));
    });
    Ok(Peer::Thread(Some(thread)))
}

impl Drop for Peer {
    fn drop(&mut self) {
        match self {
            Self::Thread(thread) => {
                let _ = thread.take().map(JoinHandle::join);
            }
            Self::Process(child) => {
                let deadline = Instant::now() + PEER_END;
                while matches!(child.try_wait(), Ok(None)) && Instant::now() < deadline {
                    std::thread::sleep(Duration::from_millis(5));
                }
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_step_is_that_of_the_reason() {
        let next = |number| failed(io::Error::from_raw_os_error(number)).next_step().to_owned();
        assert!(next(13).contains("may run it"), "EACCES");
        assert!(next(11).contains("ulimit"), "EAGAIN");
    }
}
