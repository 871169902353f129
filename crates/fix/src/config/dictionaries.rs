//! From the settings of a dictionary to what checks a session's messages.

use super::DictionaryConfig;
use crate::dictionary::{Dictionary, Version};
use crate::session::{Rules, SessionId, Validate};
use crate::validate::ValidationOptions;
use sidestep_sys::Problem;
use sidestep_sys::problem::say;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The longest file of a dictionary, bytes: that of FIX 5.0 SP2 has 1.5 MB.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Dictionaries that are already read: sessions of one version share theirs.
#[derive(Default)]
pub struct Dictionaries {
    files: Vec<(PathBuf, Arc<Dictionary>)>,
    fixed: Vec<(Version, Arc<Dictionary>)>,
    joined: Vec<Joined>,
}

/// An application's dictionary, a transport's, and one of both.
type Joined = (Arc<Dictionary>, Arc<Dictionary>, Arc<Dictionary>);

/// The dictionary of application messages, and that of session messages if it is another one.
type Pair = (Arc<Dictionary>, Option<Arc<Dictionary>>);

impl Dictionaries {
    /// The checks that the settings of a session ask for; `None` without any.
    ///
    /// # Errors
    /// A file cannot be read or is no dictionary.
    pub fn validator(
        &mut self,
        id: &SessionId,
        default_appl_ver_id: &str,
        config: &DictionaryConfig,
    ) -> Result<Option<Arc<dyn Validate>>, Problem> {
        if !config.incoming {
            return Ok(None);
        }
        let (dictionary, transport) = self.dictionary(id, default_appl_ver_id, config)?;
        let options = ValidationOptions {
            use_data_dictionary: config.use_dictionary,
            validate_fields_out_of_order: config.fields_out_of_order,
            validate_fields_have_values: config.fields_have_values,
            validate_user_defined_fields: config.user_defined_fields,
            validate_unordered_group_fields: config.unordered_group_fields,
            allow_unknown_msg_fields: config.allow_unknown_fields,
            ..ValidationOptions::default()
        };
        Ok(Some(Arc::new(Rules { dictionary, transport, options })))
    }

    fn dictionary(
        &mut self,
        id: &SessionId,
        default_appl_ver_id: &str,
        config: &DictionaryConfig,
    ) -> Result<Pair, Problem> {
        if !id.is_fixt() {
            let dictionary = match &config.data {
                Some(path) if config.use_dictionary => self.file(path)?,
                _ => self.fixed(Version::by_name(&id.begin_string).unwrap_or(Version::Fix44)),
            };
            return Ok((dictionary, None));
        }
        let application = match config.application.as_ref().or(config.data.as_ref()) {
            Some(path) if config.use_dictionary => self.file(path)?,
            _ => {
                let named = Version::ALL.iter().find(|version| version.appl_ver_id() == Some(default_appl_ver_id));
                self.fixed(named.copied().unwrap_or(Version::Latest))
            }
        };
        let transport = match &config.transport {
            Some(path) if config.use_dictionary => self.file(path)?,
            _ => self.fixed(Version::Fixt11),
        };
        let same = |one: &Arc<Dictionary>, other: &Arc<Dictionary>| Arc::ptr_eq(one, other);
        if let Some((.., both)) = self.joined.iter().find(|(a, t, _)| same(a, &application) && same(t, &transport)) {
            return Ok((Arc::clone(both), Some(transport)));
        }
        let both = Arc::new(Dictionary::clone(&application).with_transport(&transport));
        self.joined.push((application, Arc::clone(&transport), Arc::clone(&both)));
        Ok((both, Some(transport)))
    }

    fn fixed(&mut self, version: Version) -> Arc<Dictionary> {
        if let Some((_, known)) = self.fixed.iter().find(|(known, _)| *known == version) {
            return Arc::clone(known);
        }
        let dictionary = Arc::new(Dictionary::fixed(version));
        self.fixed.push((version, Arc::clone(&dictionary)));
        dictionary
    }

    fn file(&mut self, path: &Path) -> Result<Arc<Dictionary>, Problem> {
        if let Some((_, known)) = self.files.iter().find(|(known, _)| known == path) {
            return Ok(Arc::clone(known));
        }
        let dictionary = match built_in(path) {
            Some(version) => {
                say(format!(
                    "there is no file {}: messages are checked by the built-in dictionary of {}",
                    path.display(),
                    version.name()
                ));
                self.fixed(version)
            }
            None => {
                let dictionary = read(path)?;
                dictionary.notes().iter().for_each(|note| say(format!("{}: {note}", path.display())));
                Arc::new(dictionary)
            }
        };
        self.files.push((path.to_owned(), Arc::clone(&dictionary)));
        Ok(dictionary)
    }
}

/// QuickFIX/J takes its own dictionaries from its libraries where there is no file of the name; here they are built in.
fn built_in(path: &Path) -> Option<Version> {
    let is_absent = std::fs::symlink_metadata(path).is_err_and(|error| error.kind() == ErrorKind::NotFound);
    Version::by_file_name(path.file_name()?.to_str()?).filter(|_| is_absent)
}

/// Reads a dictionary in QuickFIX's format.
///
/// # Errors
/// The file cannot be read or is no dictionary.
pub fn read(path: &Path) -> Result<Dictionary, Problem> {
    let fail = |why: &dyn std::fmt::Display| {
        Problem::failed(format!("cannot use the dictionary {}", path.display()), why).next(
            "name a dictionary in QuickFIX's XML that this user may read, or none: those of the standard are built in",
        )
    };
    let xml = sidestep_sys::file::read(path, FILE_BYTES_MAX).map_err(|error| fail(&error))?;
    Dictionary::from_quickfix_xml(&xml).map_err(|problem| fail(&problem.brief()))
}
