//! Sessions from settings.

use super::core::{AcceptorId, Engine};
use super::plan::SessionPlan;
use super::tls::TlsSettings;
use super::{Endpoint, SocketOptions};
use crate::config::{Config, Dictionaries, DictionaryConfig, Place, SessionConfig};
use crate::session::{Application, BEGIN_STRINGS, SessionId};
use sidestep_sys::Problem;
use sidestep_sys::idle::IdleStrategy;
use sidestep_sys::problem::say;

/// The acceptors that settings have asked for so far.
type Acceptors = Vec<(Endpoint, Option<TlsSettings>, SocketOptions, AcceptorId)>;

impl<A: Application> Engine<A> {
    /// Adds every session of the settings; those of one address share an acceptor. `idle` is how the engine will be run.
    ///
    /// # Errors
    /// An address, a certificate, a dictionary, a store or a name cannot be had.
    pub fn configure(&mut self, config: &Config, idle: IdleStrategy) -> Result<(), Problem> {
        let (mut acceptors, mut dictionaries) = (Acceptors::new(), Dictionaries::default());
        for session in &config.sessions {
            self.add_configured(session, idle, &mut dictionaries, &mut acceptors)?;
        }
        Ok(())
    }

    fn add_configured(
        &mut self,
        session: &SessionConfig,
        idle: IdleStrategy,
        dictionaries: &mut Dictionaries,
        acceptors: &mut Acceptors,
    ) -> Result<(), Problem> {
        let plan = &session.plan;
        plan.check_store("FileStorePath")?;
        match &session.place {
            Place::Listen { endpoint, tls, options } => {
                let acceptor = self.acceptor_for(endpoint, tls.as_ref(), &options.for_idle(idle), acceptors)?;
                if session.is_template {
                    let templates = templates(plan, &session.dictionary, dictionaries)?;
                    templates.into_iter().for_each(|template| self.add_template(acceptor, template));
                } else {
                    self.add_acceptor(acceptor, checked(plan, &session.dictionary, dictionaries)?)?;
                }
            }
            Place::Connect(destinations) => {
                let mut destinations = destinations.clone();
                destinations.options = destinations.options.for_idle(idle);
                self.add_initiator(&checked(plan, &session.dictionary, dictionaries)?, destinations)?;
            }
        }
        Ok(())
    }

    fn acceptor_for(
        &mut self,
        endpoint: &Endpoint,
        tls: Option<&TlsSettings>,
        options: &SocketOptions,
        acceptors: &mut Acceptors,
    ) -> Result<AcceptorId, Problem> {
        if let Some((_, there, taken, acceptor)) = acceptors.iter().find(|(known, ..)| known == endpoint) {
            if there.as_ref() != tls {
                let why = "its sessions have different certificates";
                return Err(Problem::usage(format!("cannot listen on {endpoint}"), why)
                    .next("give them the same, or a port of their own"));
            }
            if taken != options {
                say(format!("{endpoint}: its sessions have different socket options; those of the first one count"));
            }
            return Ok(*acceptor);
        }
        let acceptor = self.listen(endpoint, tls, options)?;
        acceptors.push((endpoint.clone(), tls.cloned(), *options, acceptor));
        Ok(acceptor)
    }

    /// The endpoints on which the engine listens, with the ports that the kernel chose.
    pub fn endpoints(&self) -> impl Iterator<Item = &Endpoint> {
        self.acceptors.iter().map(|acceptor| acceptor.listener.endpoint())
    }
}

/// The plan with what checks its messages.
fn checked(
    plan: &SessionPlan,
    config: &DictionaryConfig,
    dictionaries: &mut Dictionaries,
) -> Result<SessionPlan, Problem> {
    let settings = &plan.settings;
    let validator = dictionaries.validator(&settings.id, &settings.default_appl_ver_id, config)?;
    Ok(SessionPlan { validator, ..plan.clone() })
}

/// A template for any BeginString is one for each: every version has a dictionary of its own.
fn templates(
    plan: &SessionPlan,
    config: &DictionaryConfig,
    dictionaries: &mut Dictionaries,
) -> Result<Vec<SessionPlan>, Problem> {
    if plan.settings.id.begin_string != "*" || !config.incoming {
        return Ok(vec![checked(plan, config, dictionaries)?]);
    }
    if config.data.is_some() && config.use_dictionary {
        let why = "the template is for any BeginString, a dictionary for one";
        return Err(Problem::usage("DataDictionary", why).next("set BeginString, or leave the dictionary out"));
    }
    let version = |begin: &&str| {
        let id = SessionId { begin_string: (*begin).to_owned(), ..plan.settings.id.clone() };
        checked(&plan.for_session(id), config, dictionaries)
    };
    BEGIN_STRINGS.iter().map(version).collect()
}
