//! From the settings of a dictionary to what checks a session's messages.

use super::DictionaryConfig;
use crate::decode::Message;
use crate::dictionary::{Dictionary, Version};
use crate::session::{RejectReason, SessionId, Validate};
use crate::validate::{Reason, ValidationOptions, Validator};
use sidestep_sys::Problem;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// The longest file of a dictionary, bytes: that of FIX 5.0 SP2 has 1.5 MB.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Dictionaries that are already read: sessions of one version share theirs.
#[derive(Default)]
pub struct Dictionaries {
    files: Vec<(PathBuf, Arc<Dictionary>)>,
    fixed: Vec<(Version, Arc<Dictionary>)>,
    joined: Vec<(Arc<Dictionary>, Arc<Dictionary>, Arc<Dictionary>)>,
}

impl Dictionaries {
    /// What checks the messages of a session as its settings say; `None` where nothing is to be checked.
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
        let dictionary = self.dictionary(id, default_appl_ver_id, config)?;
        let options = ValidationOptions {
            use_data_dictionary: config.use_dictionary,
            validate_fields_out_of_order: config.fields_out_of_order,
            validate_fields_have_values: config.fields_have_values,
            validate_user_defined_fields: config.user_defined_fields,
            validate_unordered_group_fields: config.unordered_group_fields,
            allow_unknown_msg_fields: config.allow_unknown_fields,
            ..ValidationOptions::default()
        };
        Ok(Some(Arc::new(ByDictionary { dictionary, options, validator: Mutex::default() })))
    }

    fn dictionary(
        &mut self,
        id: &SessionId,
        default_appl_ver_id: &str,
        config: &DictionaryConfig,
    ) -> Result<Arc<Dictionary>, Problem> {
        if !id.is_fixt() {
            return match &config.data {
                Some(path) if config.use_dictionary => self.file(path),
                _ => Ok(self.fixed(Version::by_name(&id.begin_string).unwrap_or(Version::Fix44))),
            };
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
            return Ok(Arc::clone(both));
        }
        let both = Arc::new(Dictionary::clone(&application).with_transport(&transport));
        self.joined.push((application, transport, Arc::clone(&both)));
        Ok(both)
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
        let dictionary = Arc::new(read(path)?);
        self.files.push((path.to_owned(), Arc::clone(&dictionary)));
        Ok(dictionary)
    }
}

/// Reads a dictionary in QuickFIX's format.
///
/// # Errors
/// The file cannot be read or is no dictionary.
pub fn read(path: &Path) -> Result<Dictionary, Problem> {
    let fail = |why: &dyn std::fmt::Display| {
        Problem::failed(format!("cannot use the dictionary {}", path.display()), why).next("set DataDictionary")
    };
    let facts = std::fs::metadata(path).map_err(|error| fail(&error))?;
    if facts.len() > FILE_BYTES_MAX {
        return Err(fail(&"it is larger than any dictionary"));
    }
    let xml = std::fs::read(path).map_err(|error| fail(&error))?;
    Dictionary::from_quickfix_xml(&xml).map_err(|problem| fail(&problem.brief()))
}

/// A dictionary's view of a session's messages.
struct ByDictionary {
    dictionary: Arc<Dictionary>,
    options: ValidationOptions,
    /// One thread drives a session; the lock is never waited for.
    validator: Mutex<Validator>,
}

impl Validate for ByDictionary {
    fn validate(&self, message: &Message<'_, '_>) -> Result<(), (RejectReason, Option<u32>)> {
        let Ok(mut validator) = self.validator.lock() else { return Ok(()) };
        let checked = validator.validate(message, &self.dictionary, &self.options);
        checked
            .map_err(|rejection| (of_reason(rejection.reason), rejection.tag.and_then(|tag| u32::try_from(tag).ok())))
    }
}

fn of_reason(reason: Reason) -> RejectReason {
    match reason {
        Reason::InvalidTagNumber => RejectReason::InvalidTagNumber,
        Reason::RequiredTagMissing => RejectReason::RequiredTagMissing,
        Reason::TagNotDefinedForMessageType => RejectReason::TagNotDefinedForMessage,
        Reason::UndefinedTag => RejectReason::UndefinedTag,
        Reason::TagWithoutValue => RejectReason::TagWithoutValue,
        Reason::ValueIncorrect => RejectReason::ValueIncorrect,
        Reason::IncorrectDataFormat => RejectReason::DataFormat,
        Reason::DecryptionProblem => RejectReason::Decryption,
        Reason::SignatureProblem => RejectReason::Signature,
        Reason::CompIdProblem => RejectReason::CompId,
        Reason::SendingTimeAccuracyProblem => RejectReason::SendingTimeAccuracy,
        Reason::InvalidMsgType => RejectReason::InvalidMsgType,
        Reason::TagAppearsMoreThanOnce => RejectReason::TagAppearsMoreThanOnce,
        Reason::TagOutOfOrder => RejectReason::TagOutOfOrder,
        Reason::GroupFieldsOutOfOrder => RejectReason::GroupOutOfOrder,
        Reason::IncorrectNumInGroup => RejectReason::GroupCount,
        Reason::NonDataValueIncludesDelimiter => RejectReason::DataContainsDelimiter,
        Reason::Other => RejectReason::Other,
    }
}
