//! The same settings as TOML.

use super::fields::{Entry, Raw, Section};
use sidestep_sys::Problem;
use toml::{Table, Value};

/// Reads `[default]` and `[[session]]`.
pub(super) fn parse(text: &str, name: &str) -> Result<Raw, Problem> {
    let wrong = |why: String| Problem::usage(name.to_owned(), why).next("use [default] and [[session]]");
    let table: Table = text.parse().map_err(|error: toml::de::Error| {
        let line = error.span().map_or(0, |span| text[..span.start.min(text.len())].lines().count().max(1));
        Problem::usage(format!("{name}, line {line}"), error.message().to_owned())
    })?;
    let mut raw = Raw::default();
    for (key, value) in &table {
        match (key.as_str(), value) {
            ("default", Value::Table(table)) => raw.default = section(table).map_err(wrong)?,
            ("session", Value::Array(sessions)) => {
                for session in sessions {
                    let table = session.as_table().ok_or_else(|| wrong("session is no table".to_owned()))?;
                    raw.sessions.push(section(table).map_err(wrong)?);
                }
            }
            _ => return Err(wrong(format!("there is no {key}"))),
        }
    }
    Ok(raw)
}

fn section(table: &Table) -> Result<Section, String> {
    let entries = table.iter().map(|(key, value)| {
        let value = text(value).ok_or_else(|| format!("{key} is no text, number, truth value or list of them"))?;
        Ok(Entry { key: key.clone(), value, line: 0 })
    });
    Ok(Section { line: 0, entries: entries.collect::<Result<_, String>>()? })
}

/// A value as a `.cfg` would have it.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Integer(number) => Some(number.to_string()),
        Value::Float(number) => Some(number.to_string()),
        Value::Boolean(yes) => Some(if *yes { "Y" } else { "N" }.to_owned()),
        Value::Array(values) => {
            let texts: Option<Vec<String>> = values.iter().filter(|value| !value.is_array()).map(text).collect();
            texts.filter(|texts| texts.len() == values.len()).map(|texts| texts.join(","))
        }
        Value::Datetime(_) | Value::Table(_) => None,
    }
}
