//! select(2) as a list of poll(2), and back.

use crate::{accelerate, descriptors};
use libc::{c_int, fd_set, pollfd};

/// The events of each set, asked and told (linux/fs/select.c).
const READABLE: i16 = libc::POLLIN | libc::POLLRDNORM | libc::POLLRDBAND;
const READABLE_TOLD: i16 = READABLE | libc::POLLHUP | libc::POLLERR;
const WRITABLE: i16 = libc::POLLOUT | libc::POLLWRNORM | libc::POLLWRBAND;
const WRITABLE_TOLD: i16 = WRITABLE | libc::POLLERR;
const EXCEPTIONAL: i16 = libc::POLLPRI;

/// Bits of a word of a set.
const WORD_BITS: usize = usize::BITS as usize;

/// The three sets, as words; sets may be longer than C's type where the program has made them so.
#[derive(Debug)]
pub(crate) struct Sets<'a>(pub(crate) [Option<&'a mut [usize]>; 3]);

impl<'a> Sets<'a> {
    /// # Safety
    /// Each set is null, or valid for `count` bits, rounded up to words.
    pub(crate) unsafe fn new(count: usize, sets: [*mut fd_set; 3]) -> Self {
        let words = count.div_ceil(WORD_BITS);
        Self(sets.map(|set| {
            // SAFETY: the caller promises it.
            (!set.is_null()).then(|| unsafe { std::slice::from_raw_parts_mut(set.cast::<usize>(), words) })
        }))
    }

    fn has(&self, set: usize, number: usize) -> bool {
        self.0[set].as_ref().is_some_and(|words| words[number / WORD_BITS] >> (number % WORD_BITS) & 1 == 1)
    }

    /// Returns whether a set has a number of ours.
    pub(crate) fn has_ours(&self, count: usize) -> bool {
        let is_asked = |number: &c_int| (0..3).any(|set| self.has(set, *number as usize));
        let asked = descriptors::known().take_while(|number| (*number as usize) < count).filter(is_asked);
        // All of them: each may have to become ours, or the kernel's.
        asked.filter(|number| accelerate::is_ours_to_wait(*number)).count() != 0
    }

    /// The list of poll(2) that asks the same.
    pub(crate) fn list(&self, count: usize) -> Vec<pollfd> {
        let events = |number: usize| {
            [READABLE, WRITABLE, EXCEPTIONAL]
                .iter()
                .enumerate()
                .fold(0, |all, (set, events)| if self.has(set, number) { all | events } else { all })
        };
        let asked = (0..count).map(|number| (number, events(number))).filter(|(_, events)| *events != 0);
        asked.map(|(number, events)| pollfd { fd: number as c_int, events, revents: 0 }).collect()
    }

    /// Writes the answer; returns the number of bits that are set, or `None` where a number is not open (EBADF).
    pub(crate) fn answer(&mut self, list: &[pollfd]) -> Option<c_int> {
        if list.iter().any(|entry| entry.revents & libc::POLLNVAL != 0) {
            return None;
        }
        let mut count = 0;
        for (set, (asked, told)) in
            [(READABLE, READABLE_TOLD), (WRITABLE, WRITABLE_TOLD), (EXCEPTIONAL, EXCEPTIONAL)].into_iter().enumerate()
        {
            let Some(words) = &mut self.0[set] else { continue };
            words.fill(0);
            for entry in list.iter().filter(|entry| entry.events & asked != 0 && entry.revents & told != 0) {
                words[entry.fd as usize / WORD_BITS] |= 1 << (entry.fd as usize % WORD_BITS);
                count += 1;
            }
        }
        Some(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_has_the_bits_that_were_asked_for() {
        let (mut readable, mut writable) = ([1_usize << 3 | 1 << 5, 1 << 2], [1_usize << 3, 0]);
        let mut sets = Sets([Some(&mut readable), Some(&mut writable), None]);
        let mut list = sets.list(128);
        assert_eq!(list.iter().map(|entry| entry.fd).collect::<Vec<_>>(), [3, 5, 66]);
        assert_eq!(list[0].events, READABLE | WRITABLE);
        list[0].revents = libc::POLLOUT;
        list[1].revents = libc::POLLHUP;
        list[2].revents = libc::POLLIN;
        assert_eq!(sets.answer(&list), Some(3));
        assert_eq!((readable, writable), ([1 << 5, 1 << 2], [1 << 3, 0]));
    }

    #[test]
    fn a_number_that_is_not_open_is_an_error() {
        let mut readable = [1_usize];
        let mut sets = Sets([Some(&mut readable), None, None]);
        let mut list = sets.list(1);
        list[0].revents = libc::POLLNVAL;
        assert_eq!(sets.answer(&list), None);
    }
}
