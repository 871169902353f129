//! Turns of an engine that several threads use, and the sleeps between them.

/// Turns and sleeps since the engine was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turns {
    /// Polls by threads of the program.
    pub polls: u64,
    /// Polls by the helper thread.
    pub helper_polls: u64,
    /// Sleeps of threads of the program in their calls.
    pub sleeps: u64,
    /// Sleeps that a packet, another thread or a descriptor of the program has ended; the others end by their time.
    pub wake_ups: u64,
    /// Sleeps of the helper thread on the engine's descriptors that a packet or another thread has ended.
    pub helper_wake_ups: u64,
}
