//! What waits at a listener, and changes of it: its backlog, the options of the connections that it accepts.

use crate::tcp::Tcp;
use crate::tcp::error::TcpError;
use crate::tcp::passive_open::listen::beside_kernel;
use crate::tcp::table::TcpListener;
use sidestep_stack::tcp::{ListenerId, Options};

impl Tcp<'_> {
    /// Changes how many connections may wait past the kernel; those that wait stay.
    pub fn set_backlog(&mut self, handle: TcpListener, backlog: usize) -> Result<(), TcpError> {
        let listener = self.engine.streams.listeners.at(handle.0)?;
        listener.backlog = if listener.is_beside { beside_kernel(backlog) } else { backlog };
        let backlog = listener.backlog;
        self.change_in_stack(handle, |tcp, id| tcp.set_backlog(id, backlog))
    }

    /// Changes the options that connections get which come from now on.
    pub fn set_listener_options(&mut self, handle: TcpListener, options: Options) -> Result<(), TcpError> {
        options.check().map_err(TcpError::Stack)?;
        self.engine.streams.listeners.at(handle.0)?.options = options;
        self.change_in_stack(handle, |tcp, id| tcp.set_listener_options(id, options))
    }

    /// Returns whether a connection past the kernel waits to be accepted.
    pub fn has_connection(&mut self, handle: TcpListener) -> Result<bool, TcpError> {
        let listener = self.engine.streams.listeners.at(handle.0)?;
        let (is_any, id) = (!listener.accepted.is_empty(), listener.id);
        let Some((id, bypass)) = id.zip(self.engine.bypass.as_mut()) else { return Ok(is_any) };
        Ok(is_any || bypass.stack.tcp_mut().backlog(id)? != 0)
    }

    /// Changes a listener of the stack, also one that waits for its steering entry. One that was lost gets the change when it listens
    /// past the kernel again.
    fn change_in_stack(
        &mut self,
        handle: TcpListener,
        change: impl FnOnce(&mut sidestep_stack::tcp::Tcp, ListenerId) -> Result<(), sidestep_stack::tcp::Error>,
    ) -> Result<(), TcpError> {
        let listener = self.engine.streams.listeners.at(handle.0)?;
        let id = listener.id.or(listener.pending.as_ref().map(|pending| pending.id));
        if let (Some(id), Some(bypass)) = (id, self.engine.bypass.as_mut()) {
            change(bypass.stack.tcp_mut(), id)?;
        }
        Ok(())
    }
}
