//! Adding records, making them leave, rolling to the next segment, reading messages back.

use super::format::{
    HEADER_BYTES, Header, Kind, MARK_AT, PAYLOAD_MAX, RECORD_BYTES, Record, VERSION, claimed_bytes, mark, record_bytes,
};
use super::helper::{Spare, Written, segment_path};
use super::{Journal, disk};
use crate::store::{Store, Visit};
use sidestep_sys::Problem;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

/// Read at first for one message: nearly all have less.
const READ_BYTES: usize = 1024;

impl Journal {
    /// Writes what was recorded: one copy to memory or one pwrite(2), none if there is nothing new.
    ///
    /// # Errors
    /// It could not be written; nothing of it may be acknowledged, and the journal stays stopped.
    pub fn commit(&mut self) -> Result<(), Problem> {
        if !self.dirty {
            return self.check();
        }
        self.write_out()?;
        self.dirty = false;
        self.ticket += 1;
        if let Some(syncer) = &self.syncer {
            syncer.ask(self.so_far(), self.ticket);
        }
        self.remove_superfluous()
    }

    /// Returns whether something was recorded since the last commit.
    #[inline]
    pub(crate) fn is_dirty(&self) -> bool {
        self.dirty
    }

    /// Returns whether everything committed is what the journal's durability promises. With the page cache it always is.
    ///
    /// # Errors
    /// The disk refused; nothing that was not durable before ever will be.
    pub fn is_durable(&mut self) -> Result<bool, Problem> {
        Ok(self.synced()? >= self.ticket)
    }

    /// The last commit that is what the journal's durability promises.
    fn synced(&mut self) -> Result<u64, Problem> {
        let Some(syncer) = &self.syncer else { return Ok(self.ticket) };
        syncer.synced().map_err(|problem| self.stop(problem))
    }

    fn check(&self) -> Result<(), Problem> {
        self.failure.clone().map_or(Ok(()), Err)
    }

    #[cold]
    fn stop(&mut self, problem: Problem) -> Problem {
        self.failure.get_or_insert(problem).clone()
    }

    /// The content of the segment that is being written.
    fn so_far(&self) -> Written {
        Written { number: self.segment, file: Arc::clone(&self.file), bytes: self.written }
    }

    fn write_out(&mut self) -> Result<(), Problem> {
        self.check()?;
        if self.buffer.is_empty() {
            return Ok(());
        }
        let stored =
            self.mapped.as_mut().is_some_and(|mapped| disk::store(mapped, &self.file, &self.buffer, self.written));
        if !stored && let Err(error) = disk::write_at(&self.file, &self.buffer, self.written) {
            return Err(self.cannot_write(&error));
        }
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        // With group commit the manifest says what may be missing; here nothing else would.
        if self.syncer.is_none() { self.set_mark() } else { Ok(()) }
    }

    fn set_mark(&mut self) -> Result<(), Problem> {
        let word = mark(self.written, self.salt);
        let stored = self.mapped.as_mut().is_some_and(|mapped| disk::store_word(mapped, &self.file, word, MARK_AT));
        if !stored && let Err(error) = disk::write_at(&self.file, &word.to_le_bytes(), MARK_AT) {
            return Err(self.cannot_write(&error));
        }
        Ok(())
    }

    #[cold]
    fn cannot_write(&mut self, error: &io::Error) -> Problem {
        let path = segment_path(&self.folder, self.segment);
        let problem = Problem::failed(format!("cannot write the journal {}", path.display()), error)
            .next("free space on that disk, or make it writable, then start the session again");
        self.stop(problem)
    }

    fn add(&mut self, kind: Kind, number: u64, payload: &[u8]) -> Result<(), Problem> {
        self.check()?;
        if payload.len() > PAYLOAD_MAX
            || (HEADER_BYTES + record_bytes(payload.len())) as u64 > self.options.segment_bytes
        {
            let why = format!("a message of {} bytes does not fit a segment", payload.len());
            let problem = Problem::failed("cannot record a message", why).next("raise JournalSegmentBytes");
            return Err(self.stop(problem));
        }
        if self.position() + record_bytes(payload.len()) as u64 > self.options.segment_bytes {
            self.roll()?;
        }
        // Vouches for what is before it: an intact record that does so behind a damaged one is no torn write. What was written
        // since the last commit no sync was made.
        let durable = self.syncer.is_some() && !self.dirty && self.is_durable()?;
        if kind == Kind::Outbound {
            let position = self.position() as u32;
            if number < self.next_outbound {
                self.index.cut(number);
            }
            self.index.add(number, self.segment, position);
        }
        Record { kind, durable, number, payload }.encode(self.salt, &mut self.buffer);
        self.dirty = true;
        Ok(())
    }

    /// Goes on in the next segment, which the thread beside has ready.
    #[cold]
    fn roll(&mut self) -> Result<(), Problem> {
        self.write_out()?;
        if !self.roller.is_ready() {
            self.rolls_waited += 1;
        }
        let spare = self.roller.take().map_err(|problem| self.stop(problem))?;
        self.ticket += 1;
        let (finished, mapped) = (self.so_far(), self.mapped.take());
        if let Some(syncer) = &self.syncer {
            syncer.ask(self.so_far(), self.ticket);
        }
        self.begin(spare, finished.bytes)?;
        // Behind the request for the next one: the disk takes its time.
        self.roller.finish(finished, mapped);
        Ok(())
    }

    /// Makes `spare` the segment that is written. The manifest knows of it once it has its header.
    pub(super) fn begin(&mut self, spare: Spare, previous_bytes: u64) -> Result<(), Problem> {
        self.segment = spare.number;
        self.file = spare.file;
        self.mapped = spare.mapped;
        self.salt = salt(self.created_ns, spare.number);
        self.written = 0;
        self.index.begin(spare.number, self.next_outbound, spare.positions);
        let header = Header {
            version: VERSION,
            generation: self.generation,
            number: spare.number,
            next_outbound: self.next_outbound,
            next_inbound: self.next_inbound,
            created_ns: self.created_ns as u64,
            previous_bytes,
            salt: self.salt,
            session: self.session.clone(),
        };
        header.encode(&mut self.buffer);
        self.dirty = true;
        self.write_out()?;
        self.manifest.set_newest(spare.number).map_err(|problem| self.stop(problem))?;
        self.roller.ask(spare.number + 1);
        Ok(())
    }

    /// Removes segments of which no message can be asked for any more, once the commit that made them so is durable. Later
    /// ones may still be on their way: under load there is always one that is.
    fn remove_superfluous(&mut self) -> Result<(), Problem> {
        let needed = self.index.oldest_segment().unwrap_or(self.segment);
        if self.oldest < needed && self.superfluous.is_none() {
            self.superfluous = Some((needed, self.ticket));
        }
        let Some((needed, ticket)) = self.superfluous else { return Ok(()) };
        if self.synced()? >= ticket {
            let paths = (self.oldest..needed).map(|number| segment_path(&self.folder, number)).collect();
            self.roller.retire(self.so_far(), needed, paths);
            (self.oldest, self.superfluous) = (needed, None);
        }
        Ok(())
    }

    /// Reads message `number` at `position` of `segment` into the scratch buffer.
    fn read(&mut self, open: &mut Option<Older>, number: u64, segment: u64, position: u32) -> io::Result<()> {
        let (file, salt): (&File, u32) = if segment == self.segment {
            (&*self.file, self.salt)
        } else {
            let older = match open.take() {
                Some(older) if older.segment == segment => older,
                _ => Older::open(&self.folder, segment)?,
            };
            let older = open.insert(older);
            (&older.file, older.salt)
        };
        self.scratch.resize(READ_BYTES.max(self.scratch.len()), 0);
        let mut have = read_up_to(file, &mut self.scratch, position)?;
        let damaged = || io::Error::new(io::ErrorKind::InvalidData, format!("message {number} is damaged"));
        if have < RECORD_BYTES {
            return Err(damaged());
        }
        let length = claimed_bytes(&self.scratch);
        if length > have {
            self.scratch.resize(length, 0);
            have = read_up_to(file, &mut self.scratch, position)?;
        }
        self.scratch.truncate(have);
        match Record::decode(&self.scratch, salt) {
            Some(Record { kind: Kind::Outbound, number: found, .. }) if found == number => {
                self.scratch.truncate(length);
                Ok(())
            }
            _ => Err(damaged()),
        }
    }
}

/// An older segment while its messages are read.
struct Older {
    segment: u64,
    file: File,
    salt: u32,
}

impl Older {
    fn open(folder: &Path, segment: u64) -> io::Result<Self> {
        let file = File::open(segment_path(folder, segment))?;
        let mut bytes = [0; HEADER_BYTES];
        file.read_exact_at(&mut bytes, 0)?;
        let header = Header::decode(&bytes).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
        Ok(Self { segment, file, salt: header.salt })
    }
}

/// Fills as much of `buffer` as the file has.
fn read_up_to(file: &File, buffer: &mut [u8], position: u32) -> io::Result<usize> {
    let mut have = 0;
    while have < buffer.len() {
        match file.read_at(&mut buffer[have..], u64::from(position) + have as u64) {
            Ok(0) => break,
            Ok(count) => have += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(have)
}

/// A segment's salt: no record of another segment passes for one of its own.
pub(super) fn salt(created_ns: i64, number: u64) -> u32 {
    let mixed = (created_ns as u64 ^ number.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 32) as u32 | 1
}

impl Store for Journal {
    fn next_outbound(&self) -> u64 {
        self.next_outbound
    }

    fn next_inbound(&self) -> u64 {
        self.next_inbound
    }

    fn record_outbound(&mut self, seq: u64, message: &[u8]) -> Result<(), Problem> {
        if message.is_empty() {
            return self.set_next_outbound(seq.saturating_add(1));
        }
        self.add(Kind::Outbound, seq, message)?;
        self.next_outbound = seq.saturating_add(1);
        Ok(())
    }

    fn record_inbound(&mut self, next: u64) -> Result<(), Problem> {
        if next != self.next_inbound {
            self.add(Kind::NextInbound, next, &[])?;
            self.next_inbound = next;
        }
        Ok(())
    }

    fn set_next_outbound(&mut self, next: u64) -> Result<(), Problem> {
        if next != self.next_outbound {
            self.add(Kind::NextOutbound, next, &[])?;
            self.index.cut(next);
            self.next_outbound = next;
        }
        Ok(())
    }

    fn outbound(&mut self, from: u64, to: u64, visit: &mut Visit<'_>) -> Result<(), Problem> {
        self.write_out()?;
        let mut open = None;
        let mut next = from;
        while let Some((number, segment, position)) = self.index.find(next).filter(|(number, ..)| *number <= to) {
            if let Err(error) = self.read(&mut open, number, segment, position) {
                let path = segment_path(&self.folder, segment);
                return Err(Problem::failed(format!("cannot read the journal {}", path.display()), error)
                    .next("reset the session, or restore the file"));
            }
            if visit(number, &self.scratch[RECORD_BYTES..]).is_break() {
                break;
            }
            let Some(following) = number.checked_add(1) else { break };
            next = following;
        }
        Ok(())
    }

    fn reset(&mut self, utc_ns: i64) -> Result<(), Problem> {
        self.add(Kind::Reset, self.generation.saturating_add(1), &utc_ns.to_le_bytes())?;
        self.generation = self.generation.saturating_add(1);
        self.created_ns = utc_ns;
        (self.next_outbound, self.next_inbound) = (1, 1);
        self.index.clear();
        Ok(())
    }

    fn created_utc_ns(&self) -> i64 {
        self.created_ns
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        // Recorded messages are committed without a request, too; an error has no caller to go to.
        let committed = self.commit().is_ok();
        // Waits until all that was asked for is on the disk.
        let synced = self.syncer.take().is_some_and(|syncer| syncer.finish().is_ok_and(|ticket| ticket >= self.ticket));
        self.roller.finish(self.so_far(), self.mapped.take());
        self.roller.discard(segment_path(&self.folder, self.segment + 1));
        if committed && synced {
            // Closed in order: from now on it is known where everything ends.
            let _ = self.manifest.sync();
        }
    }
}
