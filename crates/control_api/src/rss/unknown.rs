//! Reasons why the queue of a packet is unknown.

use sidestep_sys::ethtool::HashFunction;
use std::fmt;
use std::io::Error;

/// The reason why the queue of a packet is unknown. Errors of system calls are errno values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhyUnknown {
    /// The two addresses are of different families.
    Families,
    /// The device does not report its number of queues.
    Queues(i32),
    /// The device does not report how it spreads packets. EOPNOTSUPP if it has no receive side scaling, like a veth,
    /// whose queue is the one that the other end has sent by.
    Rss(i32),
    /// The device uses another hash than Toeplitz.
    Function(HashFunction),
    /// The device transforms the fields before hashing, in an unknown way (RXH_XFRM_*).
    Transform(u8),
    /// The driver is known to hash differently from the kernel's report.
    Driver(&'static str),
    /// The device reports this many bytes of its key, of which 40 are needed: none on vmxnet3.
    Key(usize),
    /// Its table has this many entries: none, or not a power of two.
    Table(usize),
    /// Its table names a queue that it lacks.
    TableEntry(u32),
    /// The device does not report which fields of such packets it hashes.
    NoFields(i32),
    /// The device hashes other fields of such packets than both addresses, with both ports or without: RXH_* bits.
    Fields(u64),
    /// Its flow rules cannot be read.
    NoRules(i32),
    /// The flow rule at this location may choose the queue.
    Rule(u32),
}

impl WhyUnknown {
    /// Returns whether this is the device's answer, as opposed to a failure to ask it.
    pub(super) fn is_answer(&self) -> bool {
        match *self {
            Self::Queues(_) => false,
            Self::Rss(errno) | Self::NoFields(errno) => matches!(errno, EOPNOTSUPP | EINVAL | EOVERFLOW),
            // A device without rules has none; EINVAL is returned for a rule deleted meanwhile.
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
                write!(f, "the number of receive queues is not reported: {}", Error::from_raw_os_error(errno))
            }
            Self::Rss(EOPNOTSUPP) => {
                f.write_str("the device does not report how it spreads packets over its queues (ethtool -x)")
            }
            Self::Rss(errno) => write!(f, "receive side scaling cannot be read: {}", Error::from_raw_os_error(errno)),
            Self::Function(function) => write!(f, "the device hashes by {}, not by toeplitz", function.name()),
            Self::Transform(kind) => {
                write!(f, "the device changes fields before it hashes them, by transformation {kind:#x}")
            }
            Self::Driver(driver) => write!(f, "driver {driver} does not report all that its hash depends on"),
            Self::Key(0) => f.write_str("the device does not report the key of its hash"),
            Self::Key(bytes) => write!(f, "the key of the hash has {bytes} bytes, fewer than 40"),
            Self::Table(0) => f.write_str("the device does not report its indirection table"),
            Self::Table(entries) => {
                write!(f, "the indirection table has {entries} entries, which is not a power of two")
            }
            Self::TableEntry(queue) => write!(f, "the indirection table names queue {queue}, which the device lacks"),
            Self::NoFields(errno) => {
                write!(f, "the hashed fields are not reported: {}", Error::from_raw_os_error(errno))
            }
            Self::Fields(bits) => {
                write!(f, "the hashed fields are {bits:#x}, not both addresses with both ports or without any")
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
/// More rules than are examined.
const EOVERFLOW: i32 = rustix::io::Errno::OVERFLOW.raw_os_error();
