//! Facts about NIC drivers (`profiles/tune/drivers.toml`).

use crate::profile::Profile;
use crate::want::Want;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// One family of drivers.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Driver {
    /// The kernel's names.
    pub drivers: Vec<String>,
    /// The devices.
    pub name: String,
    /// The source of the facts.
    pub source: String,
    /// The facts.
    pub notes: Vec<String>,
    /// Wanted values that replace those of the profile.
    #[serde(default)]
    wishes: BTreeMap<String, Want>,
}

static DRIVERS: LazyLock<BTreeMap<String, Driver>> = LazyLock::new(|| {
    toml::from_str(include_str!("../profiles/drivers.toml")).expect("a test reads the file that is built in")
});

/// Returns all drivers, by family.
pub(crate) fn all() -> impl Iterator<Item = (&'static str, &'static Driver)> {
    DRIVERS.iter().map(|(family, driver)| (family.as_str(), driver))
}

/// Returns the entry of a driver, by the kernel's name for it.
pub(crate) fn named(driver: &str) -> Option<&'static Driver> {
    DRIVERS.values().find(|known| known.drivers.iter().any(|name| name == driver))
}

/// Returns the profile with the wanted values of these drivers.
#[must_use]
pub(crate) fn refined<'a>(profile: &Profile, drivers: impl Iterator<Item = &'a str>) -> Profile {
    let mut refined = profile.clone();
    for (id, want) in drivers.filter_map(named).flat_map(|driver| &driver.wishes) {
        refined.refine(id, want.clone());
    }
    refined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_drivers_of_trading_are_known() {
        for driver in ["mlx5_core", "ice", "i40e", "ixgbe", "sfc", "ena", "gve", "virtio_net"] {
            assert!(!named(driver).unwrap().notes.is_empty(), "{driver}");
        }
        for (_, driver) in all() {
            driver.wishes.keys().for_each(|id| _ = crate::table::named(id).unwrap());
        }
        let latency = Profile::built_in("latency").unwrap();
        let busy = |profile: &Profile| profile.wish("busy-read").unwrap().want.clone().unwrap().to_string();
        assert_eq!((busy(&latency), busy(&refined(&latency, ["ena"].into_iter()))), (">=50".into(), ">=70".into()));
    }
}
