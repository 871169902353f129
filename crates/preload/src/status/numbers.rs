//! The rows of descriptor numbers. Those that dup(2) has made share one.

use crate::descriptors::NUMBERS_MAX;
use libc::c_int;
use sidestep_unmodified::status::{SocketRow, StatusPage};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// A number without a row.
const NONE: u64 = 0;
/// A number for which the page had no row left.
const BEYOND: u64 = u64::MAX;

/// The row of each number ([`SocketRow::to_bits`]). In zeroed memory, of which only the pages that are touched exist.
static ROWS: [AtomicU64; NUMBERS_MAX] = [const { AtomicU64::new(NONE) }; NUMBERS_MAX];
/// One more than the highest number that ever had a row.
static END: AtomicUsize = AtomicUsize::new(0);

/// The count of numbers of each row.
#[derive(Debug)]
pub(super) struct Numbers(Box<[AtomicU64]>);

/// Returns whether a number has a row, or is counted as one without.
#[inline]
pub(crate) fn is_listed(number: c_int) -> bool {
    ROWS.get(number as usize).is_some_and(|row| row.load(Ordering::Relaxed) != NONE)
}

/// The row of a number.
pub(super) fn row(number: c_int) -> Option<SocketRow> {
    of_word(ROWS.get(number as usize)?.load(Ordering::Acquire))
}

/// Takes a number's row from it, without a change of the page.
pub(super) fn take(number: c_int) -> Option<SocketRow> {
    of_word(ROWS.get(number as usize)?.swap(NONE, Ordering::AcqRel))
}

/// The numbers of a range that have rows.
pub(super) fn listed(first: u32, last: u32) -> impl Iterator<Item = c_int> {
    let end = END.load(Ordering::Acquire).min((last as usize).saturating_add(1));
    (first as usize..end).filter_map(|number| c_int::try_from(number).ok()).filter(|number| is_listed(*number))
}

/// Shows the lowest number of a row, and how many it has.
fn show(row: SocketRow, count: u64, page: &StatusPage) {
    if let Some(lowest) = listed(0, u32::MAX).find(|number| self::row(*number) == Some(row)) {
        page.set_descriptor(row, lowest, count as u32);
    }
}

fn of_word(word: u64) -> Option<SocketRow> {
    SocketRow::from_bits(word).filter(|_| word != BEYOND)
}

impl Numbers {
    pub(super) fn new(rows: u32) -> Self {
        Self((0..rows).map(|_| AtomicU64::new(0)).collect())
    }

    /// A number gets a row; one without is counted.
    pub(super) fn insert(&self, number: c_int, row: Option<SocketRow>, page: &StatusPage) {
        let Some(place) = ROWS.get(number as usize) else {
            return match row {
                Some(row) => page.close_socket(row),
                None => page.close_beyond(),
            };
        };
        if let Some(row) = row {
            self.count(row).store(1, Ordering::Relaxed);
        }
        place.store(row.map_or(BEYOND, SocketRow::to_bits), Ordering::Release);
        END.fetch_max(number as usize + 1, Ordering::AcqRel);
    }

    /// A new number shares the row of another one.
    pub(super) fn share(&self, number: c_int, new: c_int, page: &StatusPage) {
        let (Some(row), Some(place)) = (row(number), ROWS.get(new as usize)) else { return };
        let count = self.count(row).fetch_add(1, Ordering::AcqRel) + 1;
        place.store(row.to_bits(), Ordering::Release);
        END.fetch_max(new as usize + 1, Ordering::AcqRel);
        page.set_descriptor(row, page.descriptor(row).min(new), count as u32);
    }

    /// A number is closed; the last one of a row ends it.
    pub(super) fn remove(&self, number: c_int, page: &StatusPage) {
        let Some(place) = ROWS.get(number as usize) else { return };
        match place.swap(NONE, Ordering::AcqRel) {
            BEYOND => page.close_beyond(),
            word => SocketRow::from_bits(word).into_iter().for_each(|row| self.release(row, page)),
        }
    }

    fn release(&self, row: SocketRow, page: &StatusPage) {
        match self.count(row).fetch_sub(1, Ordering::AcqRel) - 1 {
            0 => page.close_socket(row),
            left => show(row, left, page),
        }
    }

    fn count(&self, row: SocketRow) -> &AtomicU64 {
        &self.0[row.place()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidestep_unmodified::status::{SOCKETS_MIN, SocketKind, StatusView};
    use std::os::fd::AsFd;

    #[test]
    fn a_row_lives_as_long_as_one_of_its_numbers() {
        let page = StatusPage::create("test", "safe", SOCKETS_MIN, &[]).unwrap();
        let numbers = Numbers::new(SOCKETS_MIN);
        let view = StatusView::open(page.as_fd()).unwrap();
        let seen = || view.snapshot().sockets.iter().map(|row| (row.descriptor, row.descriptors)).collect::<Vec<_>>();
        // Far beyond those of the test's own sockets.
        let (one, two, three) = (900_001, 900_002, 900_003);
        numbers.insert(one, page.open_socket(one, SocketKind::TcpStream), &page);
        numbers.share(one, two, &page);
        numbers.share(two, three, &page);
        assert_eq!(seen(), [(900_001, 3)]);
        numbers.remove(one, &page);
        assert_eq!(seen(), [(900_002, 2)]);
        numbers.remove(two, &page);
        numbers.remove(two, &page);
        assert_eq!(seen(), [(900_003, 1)]);
        numbers.remove(three, &page);
        assert!(seen().is_empty() && !is_listed(three));
        let full = (0..SOCKETS_MIN as i32 + 1).map(|number| 910_000 + number);
        full.clone().for_each(|number| numbers.insert(number, page.open_socket(number, SocketKind::TcpStream), &page));
        assert_eq!((seen().len(), view.snapshot().beyond), (SOCKETS_MIN as usize, 1));
        full.for_each(|number| numbers.remove(number, &page));
        assert_eq!((seen().len(), view.snapshot().beyond), (0, 0));
    }
}
