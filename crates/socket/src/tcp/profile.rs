//! Profiles of TCP: every setting by its name, from the files that come with the engine or from one of the user's own.

use sidestep_stack::tcp::{Config, Setting, SettingError, Value};
use sidestep_sys::Problem;

/// The profiles that come with the engine.
const BUILT_IN: [(&str, &str); 2] = [
    ("default", include_str!("../../profiles/default.toml")),
    ("latency", include_str!("../../profiles/latency.toml")),
];

/// The settings of a profile: `latency` or `default`, or the text of a file of the same form. What a file leaves out is as
/// Linux has it.
pub fn profile(name_or_text: &str) -> Result<Config, Problem> {
    let built_in = BUILT_IN.iter().find(|(name, _)| *name == name_or_text);
    match built_in {
        Some((_, text)) => read(text),
        None if !name_or_text.contains('[') => {
            let names: Vec<&str> = BUILT_IN.iter().map(|(name, _)| *name).collect();
            Err(Problem::usage(format!("cannot use the profile {name_or_text}"), "there is none of this name")
                .next(format!("name one of: {}", names.join(", "))))
        }
        None => read(name_or_text),
    }
}

fn read(text: &str) -> Result<Config, Problem> {
    let refused = |why: String| Problem::usage("cannot read the profile", why).next("see profiles/default.toml");
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| refused(error.message().to_owned()))?;
    let mut config = Config::default();
    for (section, settings) in &table {
        let settings = settings.as_table().filter(|_| section == "tcp");
        let settings = settings.ok_or_else(|| refused(format!("there is no section {section}, only tcp")))?;
        for (name, value) in settings {
            let value = convert(value).ok_or_else(|| refused(format!("{name} has a value that no setting takes")))?;
            config.set(name, &value).map_err(|error| refused(explain(name, error)))?;
        }
    }
    Ok(config)
}

fn convert(value: &toml::Value) -> Option<Value> {
    match value {
        toml::Value::Boolean(value) => Some(Value::Boolean(*value)),
        toml::Value::Integer(value) => u32::try_from(*value).ok().map(Value::Integer),
        toml::Value::String(value) => Some(Value::Text(value.clone())),
        _ => None,
    }
}

fn explain(name: &str, error: SettingError) -> String {
    let setting: Option<&Setting> = Config::SETTINGS.iter().find(|setting| setting.name == name);
    match (error, setting) {
        (SettingError::Range, Some(setting)) if setting.greatest > 1 => {
            format!("{name} is from {} to {}", setting.least, setting.greatest)
        }
        (SettingError::Range, _) => format!("{name} has no such value"),
        (SettingError::Kind, _) => format!("{name} has a value of the wrong kind"),
        (SettingError::Unknown, _) => format!("there is no setting {name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_profiles_are_what_the_stack_says() {
        assert_eq!(profile("default").unwrap(), Config::default());
        assert_eq!(profile("latency").unwrap(), Config::latency());
        let one = profile("[tcp]\nrto_min_us = 700\ncongestion = \"reno\"\n").unwrap();
        assert_eq!((one.rto_min_us, one.congestion.name(), one.nodelay), (700, "reno", false));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let told = |text: &str| profile(text).unwrap_err().to_string();
        assert!(told("fast").contains("latency"));
        assert!(told("[tcp]\nno_delay = true").contains("no setting no_delay"));
        assert!(told("[tcp]\nnodelay = 1").contains("wrong kind"));
        assert!(told("[tcp]\ndelayed_ack_us = 500_000").contains("from 0 to 499999"));
        assert!(told("[tcp]\nrto_min_us = -1").contains("rto_min_us"));
        assert!(told("[udp]\n").contains("section udp"));
        assert!(told("[tcp\n").contains("cannot read"));
    }
}
