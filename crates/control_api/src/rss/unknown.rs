//! Why the queue of a packet cannot be known.

use sidestep_sys::ethtool::HashFunction;
use std::fmt;
use std::io::Error;

/// Why the queue of a packet cannot be known. Errors of system calls are numbers of errno.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhyUnknown {
    /// The two addresses are of different families.
    Families,
    /// The device does not tell how many queues it has.
    Queues(i32),
    /// It does not tell how it spreads packets: EOPNOTSUPP where it has no receive side scaling, as a veth, whose queue is the
    /// one that the other end has sent by.
    Rss(i32),
    /// It uses another hash than Toeplitz.
    Function(HashFunction),
    /// It changes the fields before it hashes them, in a way that is not known (RXH_XFRM_*).
    Transform(u8),
    /// It is known to hash in a way that the kernel does not tell.
    Driver(&'static str),
    /// It tells this many bytes of its key, of which 40 are needed: none on vmxnet3.
    Key(usize),
    /// Its table has this many entries: none, or no power of two.
    Table(usize),
    /// Its table names a queue that it does not have.
    TableEntry(u32),
    /// It does not tell which fields of such packets it hashes.
    NoFields(i32),
    /// It hashes other fields of such packets than both addresses, with both ports or without: RXH_* bits.
    Fields(u64),
    /// Its flow rules cannot be read.
    NoRules(i32),
    /// The flow rule at this location may choose the queue.
    Rule(u32),
}

impl WhyUnknown {
    /// Whether it is what the device has said, and not that it could not be asked.
    pub(super) fn is_answer(&self) -> bool {
        match *self {
            Self::Queues(_) => false,
            Self::Rss(errno) | Self::NoFields(errno) => matches!(errno, EOPNOTSUPP | EINVAL | EOVERFLOW),
            // A device without rules has none; EINVAL is said of one that was deleted meanwhile.
            Self::NoRules(errno) => errno == EOVERFLOW,
            _ => true,
        }
    }
}

impl fmt::Display for WhyUnknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Families => f.write_str("the addresses are of different families"),
            Self::Queues(errno) => {
                write!(f, "the number of receive queues is not told: {}", Error::from_raw_os_error(errno))
            }
            Self::Rss(EOPNOTSUPP) => {
                f.write_str("the device does not tell how it spreads packets over its queues (ethtool -x)")
            }
            Self::Rss(errno) => write!(f, "receive side scaling cannot be read: {}", Error::from_raw_os_error(errno)),
            Self::Function(function) => write!(f, "the device hashes by {}, not by toeplitz", function.name()),
            Self::Transform(kind) => write!(f, "the device changes fields before it hashes them, in way {kind:#x}"),
            Self::Driver(driver) => write!(f, "driver {driver} does not tell all that its hash depends on"),
            Self::Key(0) => f.write_str("the device does not tell the key of its hash"),
            Self::Key(bytes) => write!(f, "the key of the hash has {bytes} bytes, fewer than 40"),
            Self::Table(0) => f.write_str("the device does not tell its indirection table"),
            Self::Table(entries) => write!(f, "the indirection table has {entries} entries, which is no power of two"),
            Self::TableEntry(queue) => write!(f, "the indirection table names queue {queue}, which the device lacks"),
            Self::NoFields(errno) => {
                write!(f, "which fields are hashed is not told: {}", Error::from_raw_os_error(errno))
            }
            Self::Fields(bits) => {
                write!(f, "hashed are fields {bits:#x}, not both addresses with both ports or without any")
            }
            Self::NoRules(errno) => {
                write!(f, "flow rules of the device cannot be read: {}", Error::from_raw_os_error(errno))
            }
            Self::Rule(location) => write!(f, "flow rule {location} of the device may choose the queue (ethtool -n)"),
        }
    }
}

const EOPNOTSUPP: i32 = rustix::io::Errno::OPNOTSUPP.raw_os_error();
const EINVAL: i32 = rustix::io::Errno::INVAL.raw_os_error();
/// More than is looked at.
const EOVERFLOW: i32 = rustix::io::Errno::OVERFLOW.raw_os_error();
