//! Attributes that many elements have.

use super::MEND;
use crate::problem::Fault;
use crate::xml::Element;

/// Letters of a name; those of venues have up to 40.
const NAME_MAX: usize = 128;

impl Element {
    /// The name: letters, digits and `_`, as generated code has it as a name, too.
    pub(crate) fn name(&self) -> Result<&str, Fault> {
        let name = self.get("name").ok_or_else(|| self.fault("it has no name", MEND))?;
        let is_name = name.len() <= NAME_MAX
            && name.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_')
            && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
            && name.contains(|letter: char| letter.is_ascii_alphanumeric());
        if is_name { Ok(name) } else { Err(self.fault("its name is not one of letters, digits and _", MEND)) }
    }

    /// The description on one line.
    pub(crate) fn description(&self) -> String {
        let text = self.get("description").unwrap_or_default();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// A number.
    pub(crate) fn number<N: std::str::FromStr>(&self, name: &str) -> Result<Option<N>, Fault> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let number = text.trim().parse().map_err(|_| self.fault(format!("{name} is {text:?}"), MEND))?;
        Ok(Some(number))
    }

    /// The version that brought the element; 0 if it does not say.
    pub(crate) fn since(&self, version: u16) -> Result<u16, Fault> {
        let since = self.number("sinceVersion")?.unwrap_or(0);
        if since > version {
            let why = format!("sinceVersion {since} is later than the schema's version {version}");
            return Err(self.fault(why, "raise the version of <messageSchema>"));
        }
        Ok(since)
    }
}
