//! Notices to the application: readiness and errors.

use crate::tcp::error::Error;
use crate::tcp::events::Readiness;

#[derive(Default)]
pub(crate) struct Notices {
    /// The readiness at the last event.
    readiness: Readiness,
    /// An event is due, though the readiness is the same: more data has come.
    is_due: bool,
    /// Urgent data has come that is not taken.
    is_urgent: bool,
    /// The error that ended the connection.
    error: Option<Error>,
    /// The last ICMP error; becomes the error if the peer stays silent (RFC 9293 section 3.9.2.2).
    soft_error: Option<Error>,
}

impl Notices {
    /// The connection has ended. The first error counts.
    pub(crate) fn fail(&mut self, error: Error) {
        self.error.get_or_insert(error);
    }

    #[inline]
    pub(crate) fn has_error(&self) -> bool {
        self.error.is_some()
    }

    /// The error that has ended the connection; told once.
    pub(crate) fn take_error(&mut self) -> Option<Error> {
        self.error.take()
    }

    pub(crate) fn soft_error(&self) -> Option<Error> {
        self.soft_error
    }

    pub(crate) fn set_soft_error(&mut self, error: Error) {
        self.soft_error = Some(error);
    }

    pub(crate) fn take_soft_error(&mut self) -> Option<Error> {
        self.soft_error.take()
    }

    #[inline]
    pub(crate) fn is_urgent(&self) -> bool {
        self.is_urgent
    }

    pub(crate) fn set_urgent(&mut self, is_urgent: bool) {
        self.is_urgent = is_urgent;
    }

    /// Asks for an event, unless `condition` is false.
    #[inline]
    pub(crate) fn request_if(&mut self, condition: bool) {
        self.is_due |= condition;
    }

    /// Takes the readiness of now, and returns whether an event is due.
    #[inline]
    pub(crate) fn update(&mut self, readiness: Readiness) -> bool {
        let is_due = self.is_due || readiness.new_since(self.readiness);
        (self.readiness, self.is_due) = (readiness, false);
        is_due
    }

    /// Takes the readiness of now without an event.
    pub(crate) fn set_readiness(&mut self, readiness: Readiness) {
        self.readiness = readiness;
    }
}
