//! Counters, in one table: name, whether it should stay zero on a healthy host, description.

macro_rules! counters {
    ($( $variant:ident $name:literal $zero:literal $description:literal; )*) => {
        /// Something that is counted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Counter {
            $( #[doc = $description] $variant, )*
        }

        impl Counter {
            /// All of them, in the order of the table.
            pub const ALL: &'static [Self] = &[$( Self::$variant, )*];

            /// The name to show, in snake case.
            pub fn name(self) -> &'static str {
                match self { $( Self::$variant => $name, )* }
            }

            /// One line for people.
            pub fn description(self) -> &'static str {
                match self { $( Self::$variant => $description, )* }
            }

            /// Returns whether it should stay zero on a healthy host.
            pub fn should_be_zero(self) -> bool {
                match self { $( Self::$variant => $zero, )* }
            }
        }
    };
}

counters! {
    SegmentsIn "segments_in" false "segments that arrived";
    SegmentsOut "segments_out" false "segments that were sent, retransmissions included";
    ChecksumBad "checksum_bad" true "arrived with a wrong checksum, dropped";
    OptionsMalformed "options_malformed" true "arrived with an option of an impossible length; what stood before it was read";
    NoConnection "no_connection" true "arrived for no connection and no listener";
    OpenedActive "opened_active" false "connections made from this side";
    OpenedPassive "opened_passive" false "connections made by a peer";
    ResetsIn "resets_in" false "connections that the peer reset";
    ResetsOut "resets_out" false "RST segments sent";
    Unacceptable "unacceptable" false "segments outside the window (RFC 9293 section 3.10.7.4, first check)";
    ChallengeAcks "challenge_acks" true "ACKs sent because of a SYN, RST or ACK that could be forged (RFC 5961)";
    ChallengesSuppressed "challenges_suppressed" true "such ACKs, and ACKs of unacceptable segments, not sent because of their rate";
    AcksBad "acks_bad" true "acknowledgements of what was never sent, or far too old (RFC 5961 section 5)";
    Paws "paws" false "dropped because their timestamp is old (RFC 7323 section 5)";
    TimestampMissing "timestamp_missing" true "taken without the timestamps that were agreed on (RFC 7323 section 3.2 would drop them, Linux does not)";
    UrgentIgnored "urgent_ignored" true "segments with urgent data; delivered in line (RFC 6093)";
    OutOfOrder "out_of_order" false "segments with data beyond a hole, kept";
    OutOfOrderDropped "out_of_order_dropped" true "segments beyond a hole, dropped because there are too many holes";
    Duplicates "duplicates" false "segments whose data was there already";
    DataAfterClose "data_after_close" true "connections reset because data arrived that nobody will read (RFC 9293 section 3.6.1)";
    DataAfterShutdown "data_after_shutdown" false "connections reset: data came after both directions had been shut down";
    Retransmitted "retransmitted" false "segments sent again";
    FastRecoveries "fast_recoveries" false "times a loss was seen by SACK, RACK or duplicate ACKs";
    Timeouts "timeouts" false "times the retransmission timer expired";
    TailProbes "tail_probes" false "probes for a lost tail (RFC 8985 section 7)";
    SpuriousRecoveries "spurious_recoveries" false "recoveries taken back: duplicates were reported for all that was sent again (RFC 2883)";
    WindowProbes "window_probes" false "probes into a closed window";
    KeepAlives "keepalives" false "keep-alive probes";
    AbortedByTimeout "aborted_by_timeout" true "connections given up because the peer did not answer";
    AcceptQueueFull "accept_queue_full" true "SYNs and last ACKs dropped because the accept queue is full";
    SynQueueFull "syn_queue_full" true "SYNs beyond the SYN queue: dropped, or answered by a cookie";
    CookiesSent "cookies_sent" true "SYN cookies sent (RFC 4987 section 3.6)";
    CookiesGood "cookies_good" false "connections made by a returned cookie";
    ConnectionsFull "connections_full" true "SYNs dropped because the stack holds as many connections as it may";
    TimeWaitFull "time_wait_full" true "connections closed without TIME-WAIT because too many wait";
    TimeWaitReused "time_wait_reused" false "connections made anew out of TIME-WAIT (RFC 6191)";
    PathMtuLowered "path_mtu_lowered" false "path MTU lowered by ICMP";
    IcmpIgnored "icmp_ignored" true "ICMP errors that fit nothing that is under way (RFC 5927)";
    OrphansDropped "orphans_dropped" true "closed connections reset because too many were not over, or held too much memory";
    LostStreams "lost_streams" true "closed connections that have ended before all that was handed over was acknowledged";
    LostBytes "lost_bytes" true "bytes of those that were not acknowledged";
    HandedOverDropped "handed_over_dropped" false "segments dropped of connections that are being, or were, handed over to the kernel";
    NoRoom "no_room" false "times the sink had no place for a segment";
}

/// The number behind each [`Counter`].
#[derive(Clone, Debug)]
pub struct Counters([u64; Counter::ALL.len()]);

impl Default for Counters {
    fn default() -> Self {
        Self([0; Counter::ALL.len()])
    }
}

impl Counters {
    #[inline]
    pub(crate) fn count(&mut self, counter: Counter) {
        self.0[counter as usize] += 1;
    }

    pub(crate) fn count_many(&mut self, counter: Counter, many: u64) {
        self.0[counter as usize] += many;
    }

    /// The value of a counter.
    #[inline]
    pub fn value(&self, counter: Counter) -> u64 {
        self.0[counter as usize]
    }

    /// All of them with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (Counter, u64)> + '_ {
        Counter::ALL.iter().map(|&counter| (counter, self.value(counter)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_one_of_a_kind() {
        let names: HashSet<_> = Counter::ALL.iter().map(|counter| counter.name()).collect();
        assert_eq!(names.len(), Counter::ALL.len());
        let mut counters = Counters::default();
        counters.count(Counter::Paws);
        assert_eq!(counters.iter().map(|(_, value)| value).sum::<u64>(), 1);
        assert_eq!(counters.value(Counter::Paws), 1);
    }
}
