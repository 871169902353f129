//! Sessions from settings.

use super::core::{DoorId, Engine};
use super::driver::Idle;
use super::endpoint::Endpoint;
use super::tls::TlsSettings;
use super::transport::SocketOptions;
use crate::config::{Config, Dictionaries, Place, SessionConfig};
use crate::session::Application;
use sidestep_link::Waiting;
use sidestep_sys::Problem;

/// The doors that settings have asked for so far.
type Doors = Vec<(Endpoint, Option<TlsSettings>, DoorId)>;

impl<A: Application> Engine<A> {
    /// Adds every session of the settings; those of one address share a door. `idle` is how the engine will be run.
    ///
    /// # Errors
    /// An address, a certificate, a dictionary, a store or a name cannot be had.
    pub fn configure(&mut self, config: &Config, idle: Idle) -> Result<(), Problem> {
        let (mut doors, mut dictionaries) = (Doors::new(), Dictionaries::default());
        for session in &config.sessions {
            self.add_configured(session, idle, &mut dictionaries, &mut doors)?;
        }
        Ok(())
    }

    fn add_configured(
        &mut self,
        session: &SessionConfig,
        idle: Idle,
        dictionaries: &mut Dictionaries,
        doors: &mut Doors,
    ) -> Result<(), Problem> {
        let mut plan = session.plan.clone();
        let settings = &plan.settings;
        plan.validator = dictionaries.validator(&settings.id, &settings.default_appl_ver_id, &session.dictionary)?;
        match &session.place {
            Place::Listen { endpoint, tls, options } => {
                let door = self.door_for(endpoint, tls.as_ref(), &options.for_idle(idle), doors)?;
                if session.is_template {
                    self.add_template(door, plan);
                } else {
                    self.add_acceptor(door, plan)?;
                }
            }
            Place::Connect(destinations) => {
                let mut destinations = destinations.clone();
                destinations.options = destinations.options.for_idle(idle);
                self.add_initiator(&plan, destinations)?;
            }
        }
        Ok(())
    }

    fn door_for(
        &mut self,
        endpoint: &Endpoint,
        tls: Option<&TlsSettings>,
        options: &SocketOptions,
        doors: &mut Doors,
    ) -> Result<DoorId, Problem> {
        if let Some((_, there, door)) = doors.iter().find(|(known, ..)| known == endpoint) {
            if there.as_ref() != tls {
                let why = "its sessions have different certificates";
                return Err(Problem::usage(format!("cannot listen on {endpoint}"), why)
                    .next("give them the same, or a port of their own"));
            }
            return Ok(*door);
        }
        let door = self.listen(endpoint, tls, options)?;
        doors.push((endpoint.clone(), tls.cloned(), door));
        Ok(door)
    }

    /// Where the engine listens, with the ports that the kernel chose.
    pub fn endpoints(&self) -> impl Iterator<Item = &Endpoint> {
        self.doors.iter().map(|door| door.listening.endpoint())
    }
}

impl SocketOptions {
    /// The same for an engine that idles so: where it sleeps, rings in shared memory are to wake it.
    #[must_use]
    pub fn for_idle(&self, idle: Idle) -> Self {
        let waiting = match idle {
            Idle::Spin => Waiting::Spin,
            Idle::Block => Waiting::Epoll,
        };
        Self { waiting, ..self.clone() }
    }
}
