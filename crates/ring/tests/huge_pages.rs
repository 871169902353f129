//! A ring on huge pages. They are reserved for the whole host, so this test, as root, reserves what it needs and
//! restores the number afterwards. It is a process of its own, because no other test may use them meanwhile.

use sidestep_ring::spsc::Resume;
use sidestep_ring::{Access, Cell, Kind, Options, Segment, Waking};
use std::fs;

/// The number of huge pages that the host has reserved.
const RESERVED: &str = "/proc/sys/vm/nr_hugepages";
/// A ring of 2 MiB also has a header: two pages of 2 MiB.
const NEEDED: u64 = 2;

/// Restores the host's reservation on drop.
struct Reservation(u64);

impl Reservation {
    /// Reserves [`NEEDED`] more pages; fails with the reason.
    fn make() -> Result<Self, String> {
        let before = reserved()?;
        let reservation = Self(before);
        fs::write(RESERVED, (before + NEEDED).to_string()).map_err(|error| format!("{RESERVED}: {error}"))?;
        let now = reserved()?;
        if now < before + NEEDED {
            return Err(format!("the kernel found {now} of {} huge pages", before + NEEDED));
        }
        Ok(reservation)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let _ = fs::write(RESERVED, self.0.to_string());
    }
}

fn reserved() -> Result<u64, String> {
    let text = fs::read_to_string(RESERVED).map_err(|error| format!("{RESERVED}: {error}"))?;
    text.trim().parse().map_err(|error| format!("{RESERVED}: {error}"))
}

#[test]
fn a_ring_lies_on_reserved_huge_pages_and_the_reservation_is_put_back() {
    if !sidestep_sys::process::is_root() {
        eprintln!("skipped: needs root");
        return;
    }
    let before = reserved();
    match Reservation::make() {
        Err(why) => eprintln!("skipped: no huge pages can be reserved here: {why}"),
        Ok(reservation) => {
            pass_messages();
            drop(reservation);
        }
    }
    assert_eq!(reserved(), before, "the host is as it was");
}

fn pass_messages() {
    let options = Options { kind: Kind::Spsc, cell: Cell::Line, bytes: 2 << 20, waking: Waking::default() };
    let segment = Segment::memfd(&options).unwrap();
    assert_eq!(segment.backing().huge_pages, Ok(()));
    let other = Segment::from_fd(segment.fd().try_clone_to_owned().unwrap(), Access::ReadWrite).unwrap();
    assert_eq!(other.backing().huge_pages, Ok(()), "who attaches sees them, too");
    let (mut producer, mut consumer) = (segment.producer().unwrap(), other.consumer(Resume::Unread).unwrap());
    // More than a lap, so that every page is written and read.
    for sequence in 0..4_u64 << 10 {
        let message = [sequence as u8; 1000];
        producer.try_send(&message).unwrap();
        assert_eq!(*consumer.try_read().unwrap(), message);
    }
    // Its maker could free pages, and a page that cannot be allocated again raises SIGBUS.
    std::os::unix::fs::fchown(segment.fd(), Some(65534), None).unwrap();
    let strangers = Segment::from_fd(segment.fd().try_clone_to_owned().unwrap(), Access::ReadWrite);
    let why = strangers.err().expect("another user made it").to_string();
    assert!(why.contains("huge pages"), "{why}");
}
