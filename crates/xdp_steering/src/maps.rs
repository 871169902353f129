//! The program's maps as handles, from a loaded object or from pins, each checked for its shape.

use std::os::fd::AsFd;
use std::path::Path;

use libbpf_rs::{MapCore, MapHandle, MapType, Object};
use sidestep_sys::memory::{Access, Mapping};
use sidestep_sys::words::Words;
use sidestep_sys::{Problem, bpf};

use crate::entry::Table;
use crate::layout::{
    COUNTERS_MAX, DOORBELLS_MAX, FEEDS_MAX, FLOWS_MAX, GROUPS_MAX, LISTENERS_MAX, OWNER_BYTES, PORTS, QUEUES_MAX,
    RING_FLOWS_MAX, RING_GROUPS_MAX, RING_LISTENERS_MAX, STACKS_MAX, config, feed_row, feed_set, flow_key, group_key,
    listener_key, port_owner, ring_state, stack_row,
};

/// Handles of all maps. The kernel keeps a map as long as a handle, a pin or a program refers to it.
#[derive(Debug)]
pub(crate) struct Maps {
    pub(crate) config: MapHandle,
    pub(crate) flows: MapHandle,
    pub(crate) listeners: MapHandle,
    pub(crate) groups: MapHandle,
    pub(crate) ports: MapHandle,
    /// The rows of `ports`, mapped.
    pub(crate) port_words: Words,
    pub(crate) stacks: MapHandle,
    pub(crate) heartbeats: MapHandle,
    pub(crate) ring_flows: MapHandle,
    pub(crate) ring_listeners: MapHandle,
    pub(crate) ring_groups: MapHandle,
    pub(crate) feeds: MapHandle,
    pub(crate) feed_rings: MapHandle,
    pub(crate) ring_states: MapHandle,
    pub(crate) doorbells: MapHandle,
    pub(crate) doorbell_rings: MapHandle,
    pub(crate) sockets: MapHandle,
    pub(crate) counters: MapHandle,
}

/// Type, bytes of key and value, number of entries.
type Shape = (MapType, usize, usize, usize);

/// The names of the maps in the program, which are also those of their pins.
pub(crate) const NAMES: [&str; 17] = [
    "config",
    "flows",
    "listeners",
    "groups",
    "ports",
    "stacks",
    "heartbeats",
    "ring_flows",
    "ring_listeners",
    "ring_groups",
    "feeds",
    "feed_rings",
    "ring_states",
    "doorbells",
    "doorbell_rings",
    "sockets",
    "counters",
];

fn shape(name: &str) -> Shape {
    let (stacks, feeds) = (STACKS_MAX as usize, FEEDS_MAX as usize);
    match name {
        "config" => (MapType::Array, 4, config::BYTES, 1),
        "flows" => (MapType::Hash, flow_key::BYTES, OWNER_BYTES, FLOWS_MAX as usize),
        "listeners" => (MapType::Hash, listener_key::BYTES, OWNER_BYTES, LISTENERS_MAX as usize),
        "groups" => (MapType::Hash, group_key::BYTES, OWNER_BYTES, GROUPS_MAX as usize),
        "ports" => (MapType::Array, 4, port_owner::BYTES, PORTS as usize),
        "stacks" => (MapType::Array, 4, stack_row::BYTES, stacks),
        "heartbeats" => (MapType::ArrayOfMaps, 4, 4, stacks),
        "ring_flows" => (MapType::Hash, flow_key::BYTES, feed_set::BYTES, RING_FLOWS_MAX as usize),
        "ring_listeners" => (MapType::Hash, listener_key::BYTES, feed_set::BYTES, RING_LISTENERS_MAX as usize),
        "ring_groups" => (MapType::Hash, group_key::BYTES, feed_set::BYTES, RING_GROUPS_MAX as usize),
        "feeds" => (MapType::Array, 4, feed_row::BYTES, feeds),
        "feed_rings" => (MapType::ArrayOfMaps, 4, 4, feeds),
        "ring_states" => (MapType::Array, 4, ring_state::BYTES, feeds * QUEUES_MAX as usize),
        "doorbells" | "doorbell_rings" => (MapType::ArrayOfMaps, 4, 4, feeds * DOORBELLS_MAX as usize),
        "sockets" => (MapType::Xskmap, 4, 4, stacks * QUEUES_MAX as usize),
        _ => (MapType::PercpuArray, 4, 8, COUNTERS_MAX as usize),
    }
}

impl Maps {
    pub(crate) fn of_object(object: &Object) -> Result<Self, Problem> {
        Self::open(|name| {
            let map = object.maps().find(|map| map.name() == name);
            let map = map.ok_or_else(|| missing(name, "the compiled program does not have it"))?;
            MapHandle::try_from(&map).map_err(|error| missing(name, error))
        })
    }

    pub(crate) fn of_pins(directory: &Path) -> Result<Self, Problem> {
        Self::open(|name| {
            let path = directory.join(name);
            MapHandle::from_pinned_path(&path).map_err(|error| missing(&path.display().to_string(), error))
        })
    }

    fn open(open: impl Fn(&str) -> Result<MapHandle, Problem>) -> Result<Self, Problem> {
        let checked = |name| {
            let map = open(name)?;
            let found =
                (map.map_type(), map.key_size() as usize, map.value_size() as usize, map.max_entries() as usize);
            if found == shape(name) {
                return Ok(map);
            }
            Err(missing(name, format!("it has the shape {found:?}, not {:?}: another version made it", shape(name))))
        };
        let (config, flows, listeners) = (checked("config")?, checked("flows")?, checked("listeners")?);
        let (groups, ports) = (checked("groups")?, checked("ports")?);
        let port_words = Mapping::shared(ports.as_fd(), PORTS as usize * port_owner::BYTES, Access::ReadWrite);
        Ok(Self {
            config,
            flows,
            listeners,
            groups,
            port_words: Words::over(port_words.map_err(|error| missing("ports", error))?),
            ports,
            stacks: checked("stacks")?,
            heartbeats: checked("heartbeats")?,
            ring_flows: checked("ring_flows")?,
            ring_listeners: checked("ring_listeners")?,
            ring_groups: checked("ring_groups")?,
            feeds: checked("feeds")?,
            feed_rings: checked("feed_rings")?,
            ring_states: checked("ring_states")?,
            doorbells: checked("doorbells")?,
            doorbell_rings: checked("doorbell_rings")?,
            sockets: checked("sockets")?,
            counters: checked("counters")?,
        })
    }

    /// The maps in the order of [`NAMES`].
    fn all(&self) -> [&MapHandle; NAMES.len()] {
        [
            &self.config,
            &self.flows,
            &self.listeners,
            &self.groups,
            &self.ports,
            &self.stacks,
            &self.heartbeats,
            &self.ring_flows,
            &self.ring_listeners,
            &self.ring_groups,
            &self.feeds,
            &self.feed_rings,
            &self.ring_states,
            &self.doorbells,
            &self.doorbell_rings,
            &self.sockets,
            &self.counters,
        ]
    }

    /// The map with this name.
    pub(crate) fn named(&self, name: &str) -> Option<&MapHandle> {
        NAMES.iter().position(|known| *known == name).map(|index| self.all()[index])
    }

    /// Pins every map in `directory`.
    pub(crate) fn pin(&self, directory: &Path) -> Result<(), Problem> {
        for (map, name) in self.all().into_iter().zip(NAMES) {
            let path = directory.join(name);
            bpf::pin(map.as_fd(), &path).map_err(|error| {
                Problem::failed(format!("cannot pin {}", path.display()), error)
                    .next("check that the directory is on a mounted BPF file system that root may write")
            })?;
        }
        Ok(())
    }

    pub(crate) fn of(&self, table: Table) -> &MapHandle {
        match table {
            Table::Flows => &self.flows,
            Table::Listeners => &self.listeners,
            Table::Groups => &self.groups,
        }
    }

    /// The table of feeds' entries of the same kind.
    pub(crate) fn of_rings(&self, table: Table) -> &MapHandle {
        match table {
            Table::Flows => &self.ring_flows,
            Table::Listeners => &self.ring_listeners,
            Table::Groups => &self.ring_groups,
        }
    }
}

fn missing(name: &str, why: impl std::fmt::Display) -> Problem {
    Problem::failed(format!("cannot use the map {name}"), why)
        .next("remove what is pinned (sidestep control --cleanup) and attach anew")
}
