//! Limits of the UDP tables.

/// Sockets of one stack: every port of two addresses.
pub const SOCKETS_MAX: usize = 1 << 17;

/// Groups of one socket: more than the channels of any feed, few enough to be searched in a packet's time.
pub const GROUPS_MAX: usize = 4096;

/// Sources in one filter: what Linux allows by default over IPv6 (mld_max_msf), above what it does over IPv4.
pub const SOURCES_MAX: usize = 64;
