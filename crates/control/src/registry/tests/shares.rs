//! Shares of users, however many uids they have.

use super::*;
use sidestep_control_api::message::Queues;

impl Case {
    /// A client in some user namespace of this owner.
    fn client_of(&mut self, uid: u32, owner: Owner) -> u32 {
        let peer = Credentials { pid: Some(std::process::id()), uid, gid: uid };
        let id = self.registry.admit(peer, owner, Some(Process::this().unwrap()), self.now).unwrap();
        self.ask(id, Request::Hello { version: VERSION, name: "feed".into() });
        id
    }

    /// The number of queues that a client gets on a device with eight.
    fn queues(&mut self, id: u32, queues: Queues) -> Result<usize, Code> {
        self.host.links.iter_mut().for_each(|link| link.receive_queues = 8);
        let wish = OpenStack { queues, ..OpenStack::on("eth1") };
        let mut reply = self.ask(id, Request::OpenStack(wish));
        if let Reply::Prepared(_) = reply {
            reply = self.ask(id, Request::BindStack);
            while reply == Reply::Binding {
                reply = self.ask(id, Request::BindStack);
            }
        }
        match reply {
            Reply::Stack(facts) => Ok(facts.queues.len()),
            Reply::Refused(refusal) => Err(refusal.code),
            reply => panic!("{reply:?}"),
        }
    }
}

/// Uids in user namespaces are as cheap as processes.
#[test]
fn the_numbers_of_one_user_count_as_one() {
    let mut case = Case::new();
    for owner in [Owner::User(1000), Owner::Container(7), Owner::Unknown] {
        let number = |number: u32| Credentials { pid: None, uid: 100_000 + number, gid: 0 };
        let peers = (0..200).map(number);
        let ids: Vec<u32> = peers.filter_map(|peer| case.registry.admit(peer, owner, None, case.now).ok()).collect();
        assert_eq!(ids.len(), CLIENTS_PER_USER_MAX);
        ids.into_iter().for_each(|id| case.registry.remove(id));
    }
    let clients: Vec<u32> = (0..3).map(|number| case.client_of(100_000 + number, Owner::User(1000))).collect();
    assert_eq!(case.queues(clients[0], Queues::Every), Ok(4), "half of the device");
    for id in &clients[1..] {
        assert_eq!(case.queues(*id, Queues::Any), Err(Code::Limit));
    }
    let other = case.client(1001);
    assert_eq!(case.queues(other, Queues::Any), Ok(1));
}

#[test]
fn queues_are_shared_and_the_last_is_roots() {
    let mut case = Case::new();
    let [one, two, three, root] = [1000, 1001, 1002, 0].map(|uid| case.client(uid));
    assert_eq!(case.queues(one, Queues::Every), Ok(4));
    assert_eq!(case.queues(two, Queues::Every), Ok(3));
    assert_eq!(case.queues(three, Queues::Any), Err(Code::Limit), "what is left is root's");
    assert_eq!(case.queues(root, Queues::Any), Ok(1));
    // Root has it: nothing more is reserved.
    assert_eq!(case.queues(three, Queues::Any), Ok(1), "the dataplane says by whom they are taken");
    let mut case = Case::new();
    let root = case.client(0);
    assert_eq!(case.queues(root, Queues::Every), Ok(8), "the device is root's");
}

#[test]
fn the_administrator_may_give_a_user_all_of_a_device() {
    let mut case = Case::new();
    case.registry.set_queues_per_user(8);
    let one = case.client(1000);
    assert_eq!(case.queues(one, Queues::Every), Ok(8));
    let mut case = Case::new();
    case.registry.set_queues_per_user(2);
    let one = case.client(1000);
    assert_eq!(case.queues(one, Queues::Every), Ok(2));
    assert_eq!(case.queues(one, Queues::Any), Err(Code::Limit));
}

#[test]
fn the_last_entries_are_roots() {
    let mut case = Case::new();
    case.registry.limit_entries(16);
    let (one, root) = (case.client(7), case.client(0));
    let (stack, roots) = (case.open(one), case.open(root));
    let ports: Vec<_> = (0..17).map(|_| port()).collect();
    for (socket, entry) in &ports[..15] {
        assert_eq!(case.steer(one, stack, *entry, socket), None);
    }
    assert_eq!(case.steer(one, stack, ports[15].1, &ports[15].0), Some(Code::Limit));
    assert_eq!(case.steer(root, roots, ports[15].1, &ports[15].0), None);
    assert_eq!(case.steer(root, roots, ports[16].1, &ports[16].0), Some(Code::Limit));
}

/// An interface belongs to the host: a permitted user may not take it from the others.
#[test]
fn root_alone_has_the_program_detached() {
    let mut case = Case::new();
    case.registry.dataplane.programs = 200;
    let (one, root) = (case.client(7), case.client(0));
    let of_container = case.client_of(0, Owner::Container(1));
    let release = || Request::Release { interface: "eth1".into() };
    for id in [one, of_container] {
        assert_eq!(case.code(id, release()), Some(Code::NotAllowed));
    }
    assert_eq!(case.registry.dataplane.released, Vec::<String>::new());
    assert_eq!(case.code(root, release()), None);
    assert_eq!(case.registry.dataplane.released, ["eth1"]);
    let (mut from, mut seen) = (0, 0);
    loop {
        let reply = case.ask(one, Request::Programs { from });
        assert!(serde_json::to_vec(&reply).unwrap().len() + 64 < PACKET_BYTES_MAX);
        let Reply::Programs { programs, next } = reply else { panic!("{reply:?}") };
        seen += programs.len();
        let Some(next) = next else { break };
        from = next;
    }
    assert_eq!(seen, 200);
}

#[test]
fn only_neighbours_are_asked_for() {
    let mut case = Case::new();
    let id = case.client(7);
    let resolve = |address: &str, interface| Request::Resolve { address: address.parse().unwrap(), interface };
    assert_eq!(case.code(id, resolve("198.18.0.2", 2)), None);
    assert_eq!(case.code(id, resolve("198.18.0.2", 99)), Some(Code::NoInterface));
    assert_eq!(case.code(id, resolve("239.1.1.1", 2)), Some(Code::Malformed));
    assert_eq!(case.code(id, resolve("203.0.113.1", 2)), Some(Code::NoRoute), "behind a router");
    assert_eq!(case.host.asked, [(2, "198.18.0.2".parse().unwrap())]);
    // Further connections, also one that has just ended, do not raise the limit.
    let ids = [id, case.client_of(100_007, Owner::User(7)), case.client(7)];
    let served = (0..1000_u32).filter(|number| {
        let address = Ipv4Addr::from_bits(0xc612_0100 + number).into();
        case.code(ids[*number as usize % 3], Request::Resolve { address, interface: 2 }) != Some(Code::Limit)
    });
    assert_eq!(served.count(), 63, "no scan of the network by control's privilege");
    ids.into_iter().for_each(|id| case.registry.remove(id));
    let again = case.client(7);
    assert_eq!(case.code(again, resolve("198.18.9.9", 2)), Some(Code::Limit));
    let other = case.client(8);
    assert_eq!(case.code(other, resolve("198.18.9.9", 2)), None, "another user's second is its own");
    // A burst of connections to one peer.
    for _ in 0..1000 {
        assert_eq!(case.code(other, resolve("198.18.9.9", 2)), None);
    }
}
