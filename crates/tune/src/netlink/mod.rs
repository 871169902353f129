//! Settings read and changed over generic netlink: ethtool's and NAPI's.

mod attribute;
mod audit;
mod ethtool;
mod generic;
mod napi;
mod xdp;

use crate::host::Absence;
use crate::location::{Location, Scheme};
use ethtool::Settings;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
pub use xdp::{XdpFeatures, xdp_features};

/// The group of settings of single queues, which ethtool's ioctl alone has (ETHTOOL_PERQUEUE).
const QUEUES: &str = "queues";
/// The most queues that are asked about.
const QUEUES_MAX: u32 = 1024;

/// Returns the moderation of each queue: `rx-usecs-0`, `tx-usecs-0` ...
fn queues(interface: &str) -> io::Result<Settings> {
    let count = sidestep_sys::ethtool::receive_queues(interface)?.min(QUEUES_MAX);
    let mut settings = Settings::new();
    for (queue, moderation) in sidestep_sys::ethtool::queue_moderation(interface, count)?.into_iter().enumerate() {
        settings.insert(format!("rx-usecs-{queue}"), moderation.receive_us.to_string());
        settings.insert(format!("tx-usecs-{queue}"), moderation.transmit_us.to_string());
    }
    Ok(settings)
}

/// Answers so far: by interface and group (or NAPI id).
#[derive(Default)]
pub(crate) struct Answers(BTreeMap<(Scheme, String, String), Result<Settings, Absence>>, Vec<String>);

impl Answers {
    /// Reads one setting: INTERFACE/GROUP/NAME, or INTERFACE/ID/NAME.
    pub(crate) fn read(&mut self, location: &Location) -> Result<String, Absence> {
        let (interface, middle, name) = parts(location).ok_or(Absence::Missing)?;
        let settings = self.settings(location.scheme(), interface, middle)?;
        settings.get(name).cloned().ok_or(Absence::Missing)
    }

    /// Lists the names of a group's settings, or the ids of an interface's NAPI instances.
    pub(crate) fn list(&mut self, location: &Location) -> Vec<String> {
        match location.path().split('/').collect::<Vec<_>>()[..] {
            [interface] if location.scheme() == Scheme::Napi => self.napi(interface),
            [interface, middle] => self
                .settings(location.scheme(), interface, middle)
                .map(|all| all.keys().cloned().collect())
                .unwrap_or_default(),
            _ => Vec::new(),
        }
    }

    fn settings(&mut self, scheme: Scheme, interface: &str, middle: &str) -> Result<&Settings, Absence> {
        if scheme == Scheme::Napi {
            self.napi(interface);
        }
        let key = (scheme, interface.to_owned(), middle.to_owned());
        let answer = self.0.entry(key).or_insert_with(|| match scheme {
            Scheme::Ethtool if middle == QUEUES => queues(interface).map_err(Absence::from),
            Scheme::Ethtool => ethtool::read(interface, middle).map_err(Absence::from),
            _ => Err(Absence::Missing),
        });
        answer.as_ref().map_err(Clone::clone)
    }

    /// Requests an interface's NAPI instances, once.
    fn napi(&mut self, interface: &str) -> Vec<String> {
        if !self.1.iter().any(|asked| asked == interface) {
            self.1.push(interface.to_owned());
            let instances = index(interface).and_then(napi::read).unwrap_or_default();
            let keyed =
                instances.into_iter().map(|(id, settings)| ((Scheme::Napi, interface.to_owned(), id), Ok(settings)));
            self.0.extend(keyed);
        }
        let of_it = self.0.keys().filter(|(scheme, name, _)| *scheme == Scheme::Napi && name == interface);
        of_it.map(|(_, _, id)| id.clone()).collect()
    }
}

/// Returns the index of an interface in the calling thread's namespace; the mounted /sys may be of another one.
fn index(interface: &str) -> io::Result<u32> {
    let socket = rustix::net::socket(rustix::net::AddressFamily::UNIX, rustix::net::SocketType::DGRAM, None)?;
    Ok(rustix::net::netdevice::name_to_index(&socket, interface)?)
}

fn parts(location: &Location) -> Option<(&str, &str, &str)> {
    let (interface, rest) = location.path().split_once('/')?;
    let (middle, name) = rest.split_once('/')?;
    Some((interface, middle, name))
}

/// Reads `status/enabled` or `status/rules` of the audit system.
pub(crate) fn read_audit(location: &Location) -> Result<String, Absence> {
    let found = match location.path() {
        "status/enabled" => audit::enabled().map(|state| state.to_string()),
        "status/rules" => audit::rules().map(|count| count.to_string()),
        _ => return Err(Absence::Missing),
    };
    found.map_err(|error| match error.kind() {
        // EPROTONOSUPPORT: a kernel without audit. ECONNREFUSED: it answers in the first user and process namespace only.
        ErrorKind::ConnectionRefused => Absence::Missing,
        _ if error.raw_os_error() == Some(93) => Absence::Missing,
        _ => error.into(),
    })
}

/// Changes one setting.
pub(crate) fn write(location: &Location, value: &str) -> io::Result<()> {
    let (interface, middle, name) = parts(location).ok_or(ErrorKind::NotFound)?;
    match location.scheme() {
        Scheme::Ethtool => ethtool::write(interface, middle, name, value),
        _ => napi::write(middle, name, value),
    }
}

/// Decodes arbitrary bytes as every kind of answer. For fuzzing: none may make it panic or grow.
pub fn decode_any(bytes: &[u8]) -> usize {
    ethtool::decode_any(bytes) + napi::decode_any(bytes) + audit::decode_any(bytes) + crate::host::decode_any(bytes)
}
