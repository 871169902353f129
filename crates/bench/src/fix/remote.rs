//! Acceptors of ours on another host, where `sidestep bench serve --fix` starts them.

use super::passage;
use super::process::{Kind, is_tls};
use crate::bypass::{Consent, ControlPlane, Device, Keeper, Load, connect_past_kernel, engine};
use crate::link::StreamLink;
use crate::peer::protocol::{Acceptor as Wish, Ready, Reply, Request};
use crate::peer::{Control, Greeting};
use sidestep_socket::stream::{Endpoint, Options};
use sidestep_sys::printable::printable;
use sidestep_sys::{Problem, cpu};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The longest note of the peer, bytes.
const NOTE_BYTES_MAX: usize = 600;

/// The other host.
pub(super) struct Remote {
    held: Mutex<Held>,
    pub(super) client: IpAddr,
    pub(super) server: IpAddr,
    pub(super) told: Greeting,
    consent: Consent,
    /// The CPUs that the threads of engines may use.
    cpus: Vec<u32>,
    // After the connection to the control plane.
    keeper: Keeper,
}

struct Held {
    control: Control,
    plane: Option<ControlPlane>,
    /// What was asked for, by number, and its port.
    started: Vec<(Wish, u16)>,
    notes: Vec<String>,
}

/// The ends that go past the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ends {
    client: bool,
    acceptor: bool,
}

/// Returns the ends past the kernel, by the name of the transport.
fn ends(transport: &str) -> Option<Ends> {
    let (client, acceptor) = match transport.strip_suffix("-tls").unwrap_or(transport) {
        "tcp" | "tls" => (false, false),
        "xdp-client" => (true, false),
        "xdp-one-end" => (false, true),
        "xdp" => (true, true),
        _ => return None,
    };
    Some(Ends { client, acceptor })
}

impl Remote {
    /// Connects to the peer at `address`.
    pub(super) fn connect(address: SocketAddr, consent: &Consent) -> Result<Self, Problem> {
        let mut control = Control::connect(address)?;
        let gone = || Problem::failed(format!("lost the peer at {address}"), "it closed the connection");
        let (client, server) = control.addresses().ok_or_else(gone)?;
        let told = control.greet()?;
        let held = Held { control, plane: None, started: Vec::new(), notes: Vec::new() };
        let (held, cpus, keeper) = (Mutex::new(held), cpu::allowed(), Keeper::default());
        Ok(Self { held, client, server, told, consent: consent.clone(), cpus, keeper })
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the client's interface.
    pub(super) fn interface(&self) -> String {
        match &self.consent {
            Consent::Interface { name, .. } => name.clone(),
            _ => sidestep_sys::interface::of_address(self.client).unwrap_or_default(),
        }
    }

    /// Takes what a reader of the results must know.
    pub(super) fn take_notes(&self) -> Vec<String> {
        std::mem::take(&mut self.held().notes)
    }

    /// Has an acceptor started over a transport, or takes the one that serves for it already.
    pub(super) fn start(
        self: &Arc<Self>,
        transport: &str,
        kind: Kind<'_>,
        cpu: Option<u32>,
    ) -> Result<FarWay, Problem> {
        let Some(ends) = ends(transport) else {
            let what = format!("cannot start our own acceptor over {transport:?} on another host");
            return Err(Problem::usage(what, "it is unknown there")
                .next("choose from: tcp, tls, xdp, xdp-one-end, xdp-client, each of these three with -tls"));
        };
        let (bare, store, spin) = match kind {
            Kind::Exchange { store, spin } => (false, store.to_owned(), spin),
            Kind::Bare => (true, "none".to_owned(), true),
        };
        let wish = Wish { past_kernel: ends.acceptor, tls: is_tls(transport), bare, store, spin, cpu };
        let mut held = self.held();
        if ends.client && held.plane.is_none() {
            held.plane = Some(ControlPlane::need(&self.consent, &self.keeper, &self.cpus)?);
        }
        let number = match held.started.iter().position(|(known, _)| *known == wish) {
            Some(number) => number,
            None => held.ask_for(&wish)?,
        };
        let (number, port) = (number as u32, held.started[number].1);
        drop(held);
        let address = SocketAddr::new(self.server, port);
        Ok(FarWay { remote: self.clone(), number, address, ends, is_tls: is_tls(transport) })
    }
}

impl Held {
    fn ask_for(&mut self, wish: &Wish) -> Result<usize, Problem> {
        if wish.past_kernel && self.started.iter().any(|(known, _)| known.past_kernel) {
            let why = "one acceptor past the kernel has the queues of the interface";
            return Err(Problem::usage("cannot start two acceptors past the kernel", why)
                .next("give one --store, no --bare, and transports with -tls or without"));
        }
        let Reply::Ready(Ready { port, note, .. }) = self.control.ask(&Request::Acceptor(wish.clone()))? else {
            return Err(Problem::failed("lost the peer", "it did not start an acceptor").next("restart the peer"));
        };
        // The peer's words are another host's.
        self.notes.extend(note.map(|note| format!("the acceptor: {}", printable(&note, NOTE_BYTES_MAX))));
        self.started.push((wish.clone(), port));
        Ok(self.started.len() - 1)
    }
}

/// The way to an acceptor on another host.
#[derive(Clone)]
pub struct FarWay {
    remote: Arc<Remote>,
    number: u32,
    address: SocketAddr,
    ends: Ends,
    pub(super) is_tls: bool,
}

impl FarWay {
    /// The acceptor's address.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sessions at a time that the client can have over it: one engine has the queue of its interface.
    pub(super) fn sessions_max(&self) -> u32 {
        if self.ends.client { 1 } else { u32::MAX }
    }

    /// Connects, with the client's end where it belongs.
    pub(super) fn connect(&self, options: &Options) -> Result<StreamLink, Problem> {
        if !self.ends.client {
            return StreamLink::connect(&Endpoint::from(self.address), options);
        }
        let Remote { consent, client, cpus, .. } = &*self.remote;
        let connect = || {
            // The threads of an engine shall not be where the client spins.
            cpu::restrict(cpus)?;
            let device = Device::toward(consent, *client, self.address.ip())?;
            let link = connect_past_kernel(engine(&device, Load::RoundTrips)?, self.address)?;
            let mut held = self.remote.held();
            if !held.notes.iter().any(|note| note.starts_with("the client:")) {
                let plane = held.plane.as_ref().map_or_else(String::new, ControlPlane::note);
                let note = format!("the client: {}; {plane}", link.note());
                held.notes.push(note);
            }
            Ok(link)
        };
        let died = || Problem::failed("cannot connect", "the thread that connects died");
        std::thread::scope(|scope| scope.spawn(connect).join().unwrap_or_else(|_| Err(died())))
    }

    /// Has the acceptor continued, and all others there stopped; returns a counter of its messages, if they go past the kernel.
    pub(super) fn awake(&self) -> Result<Option<FarPassage>, Problem> {
        self.count(&Request::Awake { number: self.number })?;
        Ok(self.ends.acceptor.then(|| FarPassage(self.clone())))
    }

    fn count(&self, request: &Request) -> Result<u64, Problem> {
        match self.remote.held().control.ask(request)? {
            Reply::Done(done) => Ok(done.received),
            _ => Err(Problem::failed("lost the peer", "it did not answer about an acceptor").next("restart the peer")),
        }
    }
}

/// The frames that an acceptor on another host receives past the kernel.
pub(super) struct FarPassage(FarWay);

impl FarPassage {
    /// Checks that `messages` have come past the kernel, each in a frame at least.
    pub(super) fn check(&self, messages: u64) -> Result<(), Problem> {
        passage::check(self.0.count(&Request::Frames { number: self.0.number })?, messages)
    }
}

impl fmt::Debug for FarWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FarWay").field("number", &self.number).field("address", &self.address).finish_non_exhaustive()
    }
}

impl PartialEq for FarWay {
    fn eq(&self, other: &Self) -> bool {
        (self.address, self.ends, self.is_tls) == (other.address, other.ends, other.is_tls)
    }
}

impl Eq for FarWay {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_transport_says_which_ends_go_past_the_kernel() {
        let of = |name| ends(name).map(|ends| (ends.client, ends.acceptor));
        assert_eq!([of("tcp"), of("tls")], [Some((false, false)); 2]);
        assert_eq!([of("xdp"), of("xdp-tls")], [Some((true, true)); 2]);
        assert_eq!((of("xdp-one-end"), of("xdp-client-tls")), (Some((false, true)), Some((true, false))));
        assert_eq!([of("uds"), of("veth"), of("")], [None; 3]);
    }
}
