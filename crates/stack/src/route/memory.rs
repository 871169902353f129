//! Routes out of tables in this process's memory: for tests, and for programs that know their network.

use super::{Address, Link, Neighbour, Query, Resolved, Route, Routes, Tables, Unreachable};
use std::net::IpAddr;

/// Tables that are owned here. Every way to change them changes the generation.
#[derive(Clone, Debug, Default)]
pub struct MemoryRoutes {
    links: Vec<Link>,
    addresses: Vec<Address>,
    routes: Vec<Route>,
    neighbours: Vec<Neighbour>,
    generation: u64,
}

impl MemoryRoutes {
    /// No interface, no address, no route, no neighbour.
    pub fn new() -> Self {
        Self::default()
    }

    /// Changes the tables.
    pub fn change(
        &mut self,
        change: impl FnOnce(&mut Vec<Link>, &mut Vec<Address>, &mut Vec<Route>, &mut Vec<Neighbour>),
    ) {
        change(&mut self.links, &mut self.addresses, &mut self.routes, &mut self.neighbours);
        self.generation += 1;
    }

    /// The tables.
    pub fn tables(&self) -> Tables<'_> {
        Tables {
            links: &self.links,
            addresses: &self.addresses,
            routes: &self.routes,
            neighbours: &self.neighbours,
            are_complete: true,
        }
    }
}

impl Routes for MemoryRoutes {
    fn resolve(
        &self,
        destination: IpAddr,
        source: Option<IpAddr>,
        interface: Option<u32>,
    ) -> Result<Resolved, Unreachable> {
        self.tables().resolve(&Query { destination, source, interface, tos: 0 })
    }

    fn generation(&self) -> u64 {
        self.generation
    }
}
