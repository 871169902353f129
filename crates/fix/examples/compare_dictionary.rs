//! How far the standard's dictionary of a version is from a file in QuickFIX's format.
//!
//! ```text
//! cargo run -p sidestep-fix --example compare_dictionary -- FIX.4.3 FIX43.xml
//! ```

use sidestep_fix::dictionary::{Dictionary, Section, Version};
use std::collections::BTreeSet;
use std::error::Error;

/// All tags of a section and of the groups in it, with the path to them.
fn paths(dictionary: &Dictionary, section: &Section, prefix: &str, into: &mut BTreeSet<String>) {
    for member in section.members() {
        let path = format!("{prefix}/{}", member.tag);
        if let Some(group) = member.group.and_then(|group| dictionary.group(group)) {
            paths(dictionary, group, &path, into);
        }
        into.insert(path);
    }
}

/// Messages, their fields, what is required, values: each as a line.
fn facts(dictionary: &Dictionary, kind: &str) -> BTreeSet<String> {
    let mut facts = BTreeSet::new();
    for message in dictionary.messages() {
        let prefix = &message.msg_type;
        match kind {
            "messages" => _ = facts.insert(message.msg_type.to_string()),
            "members" => paths(dictionary, &message.body, &message.msg_type, &mut facts),
            _ => {
                let required = message.body.members().iter().filter(|member| member.required);
                facts.extend(required.map(|member| format!("{prefix} {}", member.tag)));
            }
        }
    }
    match kind {
        "fields" => dictionary.fields().iter().map(|field| field.tag.to_string()).collect(),
        "kinds" => dictionary.fields().iter().map(|field| format!("{} {:?}", field.tag, field.kind)).collect(),
        "values listed" => {
            dictionary.fields().iter().filter(|field| field.has_values()).map(|field| field.tag.to_string()).collect()
        }
        _ => facts,
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (name, file) = (arguments.next().ok_or("which version?")?, arguments.next().ok_or("which file?")?);
    let details = arguments.next();
    let ours = Dictionary::fixed(Version::by_name(&name).ok_or("no such version")?);
    let theirs = Dictionary::from_quickfix_xml(&std::fs::read(file)?)?;
    for kind in ["messages", "fields", "kinds", "values listed", "members", "required"] {
        let (mine, other) = (facts(&ours, kind), facts(&theirs, kind));
        let (more, less): (Vec<_>, Vec<_>) = (mine.difference(&other).collect(), other.difference(&mine).collect());
        let both = mine.intersection(&other).count();
        println!("{name:12} {kind:14} both {both:6}  only here {:6}  only there {:6}", more.len(), less.len());
        if details.as_deref() == Some(kind) {
            println!("only here: {more:?}\nonly there: {less:?}");
        }
    }
    Ok(())
}
