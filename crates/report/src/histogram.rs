//! The `histogram` field of a row: an HdrHistogram in its V2 encoding, as base64.
//!
//! ```text
//!  0        4         8               12          16          24           32               40
//!  +--------+---------+---------------+-----------+-----------+------------+----------------+---------
//!  | cookie | payload | normalizing   | digits    | lowest    | highest    | int to double  | payload
//!  | u32    | u32 len | offset u32    | u32       | u64       | u64        | ratio f64      | varints
//!  +--------+---------+---------------+-----------+-----------+------------+----------------+---------
//! ```
//!
//! All big-endian. The header alone decides how much memory a decoder takes, so it is judged before the decoder sees it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};
use sidestep_sys::problem::Problem;

/// Most memory that one decoded histogram may take. Four significant digits over any range need 7 MiB; what asks for
/// more was not written by sidestep (three digits, under 0.5 MiB), and a file can hold a hundred thousand of them.
const COUNTERS_BYTES_MAX: u64 = 8 << 20;

/// Longest time a histogram may hold: 146 years in nanoseconds. Beyond it the arithmetic of its buckets could overflow.
const VALUE_MAX: u64 = 1 << 62;

/// Most samples a histogram may hold: counts stay exact as `f64`, on which percentiles are computed.
const SAMPLES_MAX: u64 = 1 << 53;

/// Size of the V2 header.
const HEADER_BYTES: usize = 40;

/// The cookie of an uncompressed V2 histogram.
const V2_COOKIE: u32 = 0x1c84_9313;

/// Bytes of the longest number in the payload.
const VARINT_BYTES: u64 = 9;

/// The text of `histogram` for the field of a row.
pub fn encode(histogram: &Histogram<u64>) -> Result<String, Problem> {
    let mut bytes = Vec::new();
    V2Serializer::new()
        .serialize(histogram, &mut bytes)
        .map_err(|error| Problem::failed("cannot encode a histogram", error))?;
    Ok(STANDARD.encode(bytes))
}

/// The histogram in the field of a row. Hostile text gives a [`Problem`] and never more memory than
/// 8 MiB and twice its own length.
pub fn decode(text: &str) -> Result<Histogram<u64>, Problem> {
    check_length(text)?;
    let bytes = STANDARD.decode(text.trim()).map_err(|error| damaged(format!("not base64 ({error})")))?;
    let counters = check_header(&bytes)?;
    check_payload(&bytes[HEADER_BYTES..], counters)?;
    Deserializer::new().deserialize(&mut bytes.as_slice()).map_err(damaged)
}

fn damaged(why: impl std::fmt::Display) -> Problem {
    Problem::failed("cannot decode a histogram", why).next("measure again, or take the file from its origin once more")
}

fn check_length(text: &str) -> Result<(), Problem> {
    if text.trim().is_empty() {
        return Err(damaged("the field is empty"));
    }
    // One varint for each counter is the most that a writer can need.
    let limit = (COUNTERS_BYTES_MAX / 8 * VARINT_BYTES + HEADER_BYTES as u64).div_ceil(3) * 4;
    if text.len() as u64 > limit {
        return Err(damaged(format!("{} characters of text, the limit is {limit}", text.len())));
    }
    Ok(())
}

/// Checks the header, and returns the number of counters that it asks for.
fn check_header(bytes: &[u8]) -> Result<u64, Problem> {
    let (Some(cookie), Some(payload), Some(digits)) = (u32_at(bytes, 0), u32_at(bytes, 4), u32_at(bytes, 12)) else {
        return Err(damaged("shorter than its header"));
    };
    let (Some(lowest), Some(highest)) = (u64_at(bytes, 16), u64_at(bytes, 24)) else {
        return Err(damaged("shorter than its header"));
    };
    if bytes.len() < HEADER_BYTES || cookie != V2_COOKIE {
        return Err(damaged("not an uncompressed V2 HdrHistogram"));
    }
    if payload as usize != bytes.len() - HEADER_BYTES {
        let has = bytes.len() - HEADER_BYTES;
        return Err(damaged(format!("its header announces {payload} bytes of counts, it has {has}")));
    }
    if digits > 5 || lowest == 0 || highest > VALUE_MAX || lowest > highest / 2 {
        return Err(damaged(format!("impossible bounds ({lowest}..{highest}, {digits} digits)")));
    }
    let counters = counters(lowest, highest, digits);
    if counters * 8 > COUNTERS_BYTES_MAX {
        let (asked, limit) = ((counters * 8) >> 20, COUNTERS_BYTES_MAX >> 20);
        return Err(damaged(format!("its header asks for {asked} MiB of counters, the limit is {limit} MiB")));
    }
    Ok(counters)
}

/// Counters of a histogram with these bounds: a whole first bucket and a half for each doubling above it.
fn counters(lowest: u64, highest: u64, digits: u32) -> u64 {
    let sub_buckets = (2 * 10_u64.pow(digits)).next_power_of_two();
    let mut covered = sub_buckets << lowest.ilog2().min(62 - sub_buckets.ilog2());
    let mut buckets = 1;
    while covered <= highest {
        covered <<= 1;
        buckets += 1;
    }
    (buckets + 1) * sub_buckets / 2
}

/// Checks the counts in the order of the decoder, and refuses those that would overflow it.
fn check_payload(mut payload: &[u8], counters: u64) -> Result<(), Problem> {
    let (mut index, mut samples) = (0_u64, 0_u64);
    while !payload.is_empty() {
        let (number, rest) = varint(payload).ok_or_else(|| damaged("ends in the middle of a count"))?;
        payload = rest;
        // ZigZag: odd numbers are negative and skip that many zeros, even ones are a count.
        let skip = number & 1 == 1;
        let magnitude = (number >> 1) + u64::from(skip);
        index = index.saturating_add(if skip { magnitude } else { 1 });
        samples = samples.saturating_add(if skip { 0 } else { magnitude });
        if index > counters || samples > SAMPLES_MAX {
            return Err(damaged("holds more counts than its bounds allow"));
        }
    }
    Ok(())
}

/// LEB128 with a ninth byte taken whole.
fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0_u64;
    for (i, &byte) in bytes.iter().enumerate().take(VARINT_BYTES as usize) {
        let last = i + 1 == VARINT_BYTES as usize;
        let bits = if last { byte } else { byte & 0x7f };
        value |= u64::from(bits) << (7 * i);
        if last || byte & 0x80 == 0 {
            return Some((value, &bytes[i + 1..]));
        }
    }
    None
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at + 8)?.try_into().ok().map(u64::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn header(digits: u32, lowest: u64, highest: u64, payload: &[u8]) -> String {
        let mut bytes = V2_COOKIE.to_be_bytes().to_vec();
        bytes.extend((payload.len() as u32).to_be_bytes());
        bytes.extend(0_u32.to_be_bytes());
        bytes.extend(digits.to_be_bytes());
        bytes.extend(lowest.to_be_bytes());
        bytes.extend(highest.to_be_bytes());
        bytes.extend(1.0_f64.to_be_bytes());
        bytes.extend(payload);
        STANDARD.encode(bytes)
    }

    fn filled() -> Histogram<u64> {
        let mut histogram = Histogram::new_with_bounds(1, 60_000_000_000, 3).unwrap();
        for value in [1, 281, 5_600, 76_000, 76_000, 9_000_000_000] {
            histogram.record(value).unwrap();
        }
        histogram
    }

    #[test]
    fn comes_back_as_it_went() {
        let histogram = filled();
        assert_eq!(decode(&encode(&histogram).unwrap()).unwrap(), histogram);
        let empty = Histogram::<u64>::new(3).unwrap();
        assert_eq!(decode(&encode(&empty).unwrap()).unwrap().len(), 0);
    }

    #[test]
    fn counters_are_those_of_the_library() {
        for (lowest, highest, digits) in [(1, 2, 0), (1, 60_000_000_000, 3), (1000, 1 << 40, 2), (1, 4096, 3)] {
            let real = Histogram::<u64>::new_with_bounds(lowest, highest, digits).unwrap();
            assert_eq!(counters(lowest, highest, u32::from(digits)), real.distinct_values() as u64);
        }
    }

    #[test]
    fn refuses_what_would_take_too_much_memory() {
        let problem = decode(&header(5, 1, 1 << 62, &[])).unwrap_err();
        assert!(problem.brief().contains("the limit is 8 MiB"), "{problem}");
        assert!(decode(&header(6, 1, 1 << 40, &[])).is_err());
        assert!(decode(&header(3, 0, 1 << 40, &[])).is_err());
        assert!(decode(&header(3, 1, u64::MAX, &[])).is_err());
        assert!(decode(&header(3, 1 << 61, 1 << 62, &[])).is_err());
    }

    #[test]
    fn refuses_counts_that_would_overflow() {
        // -2^63 as a run of zeros, 2^63-1 as a count, more runs than there are counters.
        assert!(decode(&header(3, 1, 1 << 40, &[0xff; 9])).is_err());
        assert!(decode(&header(3, 1, 1 << 40, &[0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff])).is_err());
        assert!(decode(&header(3, 1, 1 << 40, &[0xff, 0xff, 0xff, 0x01])).is_err());
        assert!(decode(&header(3, 1, 1 << 40, &[0x80])).is_err());
    }

    #[test]
    fn refuses_damage_at_every_byte() {
        let text = encode(&filled()).unwrap();
        for end in 0..text.len() {
            assert!(decode(&text[..end]).is_err(), "cut at {end}");
        }
        let _ = decode("HISTFAAAAC").unwrap_err();
    }

    proptest! {
        #[test]
        fn never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200), digits in 0_u32..7, low: u64, high: u64) {
            let _ = decode(&STANDARD.encode(&bytes));
            if let Ok(histogram) = decode(&header(digits, low, high, &bytes)) {
                let _ = (histogram.value_at_quantile(0.5), histogram.max(), histogram.stdev());
            }
            let _ = decode(&header(digits.min(4), 1 + low % 1000, 2000 + (high >> 2), &bytes));
        }
    }
}
