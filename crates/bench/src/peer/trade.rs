//! The peer of `bench tick`: the trader.

use super::protocol::{Ready, Reply, Trade};
use super::session::Session;
use crate::bypass::{Load, engine};
use crate::path::{Medium, Path};
use crate::tick::Work;
use crate::tick::play::{LINES_MAX, Plan};
use crate::tick::trader::{self, Desk, OrderStream, Sockets};
use sidestep_socket::stream::{Endpoint, Io, Waiting};
use sidestep_sys::Problem;
use sidestep_venue::tape::Tape;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

impl Session {
    /// The messages of a plan. Those of the last one are kept: every slice of a run has the same.
    fn tape(&mut self, plan: &Plan) -> Arc<Tape> {
        match &self.tape {
            Some((of, tape)) if of == plan => tape.clone(),
            _ => {
                let tape = Arc::new(plan.tape());
                self.tape = Some((*plan, tape.clone()));
                tape
            }
        }
    }

    /// Serves one slice of trading.
    pub(super) fn trade(&mut self, request: &Trade) -> Result<Reply, Problem> {
        let path = Path::named(&request.path)?;
        request.plan.check()?;
        if !(1..=LINES_MAX).contains(&request.lines) {
            return Err(Problem::usage(format!("cannot join {} lines", request.lines), "there are one or two")
                .next("give --lines 1 or 2"));
        }
        self.origin.allowed.check_group(request.group)?;
        let IpAddr::V4(local) = self.origin.local else {
            return Err(Problem::usage("cannot join a group", "the ends talk IPv6").next("use an IPv4 address"));
        };
        let tape = self.tape(&request.plan);
        let mut desk = Desk::new(request.work, request.form, &tape, request.lines)?;
        let there = SocketAddr::new(self.origin.remote, request.port);
        let (mut sockets, groups, stream, note) = match path.medium {
            Medium::Stack => {
                self.need_plane()?;
                let mut engine = engine(&self.device()?, Load::Feed)?;
                let (sockets, groups) = Sockets::past_kernel(&mut engine, request.group, request.lines)?;
                let note = self.note(&crate::bypass::note(&engine));
                let endpoint =
                    Endpoint::Xdp { interface: String::new(), host: there.ip().to_string(), port: there.port() };
                (sockets, groups, OrderStream::past_kernel(Io::over(engine), endpoint), note)
            }
            Medium::FeedRing => {
                self.need_plane()?;
                let interface = self.origin.consent.interface(self.origin.local)?;
                let (sockets, groups) = Sockets::by_ring(&interface, local, request.group, request.lines)?;
                let note = sockets.way().and_then(|way| self.note(&way));
                (sockets, groups, OrderStream::by_kernel(path, Endpoint::from(there)), note)
            }
            Medium::Inet => {
                let (sockets, groups) = Sockets::by_kernel(path, local, request.group, request.lines)?;
                (sockets, groups, OrderStream::by_kernel(path, Endpoint::from(there)), None)
            }
            _ => {
                return Err(Problem::usage(format!("cannot trade over {}", path.name), "it carries no groups")
                    .next("choose kernel-epoll, kernel-spin, uring-spin, xdp, xdp-one-end or ring"));
            }
        };
        let ready = Ready { groups, note, ..Ready::default() };
        self.say(&Reply::Ready(if path.medium == Medium::Inet { self.of_kernel(ready) } else { ready }))?;
        let mut orders = match request.work {
            Work::Reflex => stream.for_bytes(request.form)?,
            Work::Decode | Work::Book => stream.for_orders(request.form)?,
        };
        if path.waiting != Waiting::Spin {
            sockets.sleep_until_ready(&orders)?;
        }
        self.place_thread(path, request.cpu)?;
        let mut watch = self.watch(path);
        trader::run(request, &mut sockets, &mut desk, &mut orders, &mut watch).map(Reply::Done)
    }
}
