//! Sets of CPUs, in the two spellings that the kernel has: lists (`0-3,8`) and hexadecimal masks (`ff,00000000`).

use std::fmt;

/// The most that any kernel is built for (CONFIG_NR_CPUS of x86-64 and arm64); a number beyond it is garbage.
const CPUS_MAX: u32 = 8192;

/// A set of CPUs: a bit for each, the last word is not 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuSet(Vec<u64>);

impl CpuSet {
    /// From a list like `0-3,8`, as sysfs and `taskset -c` write it. An empty text is the empty set, and so is `none`, as which
    /// it is shown. `None` if it is no list.
    pub fn list(text: &str) -> Option<Self> {
        let mut set = Self::default();
        if text.trim() == "none" {
            return Some(set);
        }
        let mut named = 0;
        for range in text.trim().split(',').filter(|range| !range.trim().is_empty()) {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
            if first > last || last >= CPUS_MAX {
                return None;
            }
            // A long text that names the same CPUs over and over is garbage, and would take long.
            named += last - first + 1;
            if named > CPUS_MAX {
                return None;
            }
            set.insert(first, last);
        }
        Some(set)
    }

    /// From a list of the kernel's command line (admin-guide/kernel-parameters, lib/bitmap.c `bitmap_parselist`): besides ranges it may
    /// have `all`, `N` for the last CPU, and `0-N:USED/GROUP` for the first CPUs of each group. `None` if it is no such list.
    pub fn boot_list(text: &str, online: &Self) -> Option<Self> {
        let last = online.last().unwrap_or_default();
        let number = |text: &str| match text {
            "N" | "n" => Some(last),
            _ => text.parse::<u32>().ok().filter(|cpu| *cpu < CPUS_MAX),
        };
        let (mut set, mut named) = (Self::default(), 0);
        for region in text.split(',').map(str::trim).filter(|region| !region.is_empty()) {
            let (range, stride) =
                region.split_once(':').map_or((region, None), |(range, stride)| (range, Some(stride)));
            let (first, last) = match range.split_once('-') {
                Some((first, last)) => (number(first)?, number(last)?),
                None if range.eq_ignore_ascii_case("all") => (0, last),
                None => (number(range)?, number(range)?),
            };
            let (used, group) = match stride {
                Some(stride) => {
                    stride.split_once('/').and_then(|(used, group)| Some((number(used)?, number(group)?)))?
                }
                None => (1, 1),
            };
            named += last.checked_sub(first)? + 1;
            if group == 0 || used > group || named > CPUS_MAX {
                return None;
            }
            (first..=last).filter(|cpu| (cpu - first) % group < used).for_each(|cpu| set.insert(cpu, cpu));
        }
        Some(set)
    }

    /// From a mask: groups of eight hexadecimal digits, the highest CPUs first. `None` if it is no mask.
    pub fn mask(text: &str) -> Option<Self> {
        let digits: String = text.trim().chars().filter(|c| *c != ',').collect();
        if digits.is_empty() || digits.len() > (CPUS_MAX / 4) as usize {
            return None;
        }
        let mut words = vec![0; digits.len().div_ceil(16)];
        for (location, digit) in digits.chars().rev().enumerate() {
            words[location / 16] |= u64::from(digit.to_digit(16)?) << (location % 16 * 4);
        }
        Some(Self::of(words))
    }

    /// Returns the set of these bits.
    fn of(mut words: Vec<u64>) -> Self {
        let used = words.iter().rposition(|word| *word != 0).map_or(0, |last| last + 1);
        words.truncate(used);
        Self(words)
    }

    /// Adds a range of CPUs, whose end is included.
    fn insert(&mut self, first: u32, last: u32) {
        let (first, last) = (first as usize, last as usize);
        self.0.resize(self.0.len().max(last / 64 + 1), 0);
        for (index, word) in self.0.iter_mut().enumerate().take(last / 64 + 1).skip(first / 64) {
            let low = first.saturating_sub(index * 64);
            let high = (last - index * 64).min(63);
            *word |= (u64::MAX << low) & (u64::MAX >> (63 - high));
        }
    }

    fn last(&self) -> Option<u32> {
        let word = self.0.last()?;
        Some(self.0.len() as u32 * 64 - 1 - word.leading_zeros())
    }

    /// The mask, in the groups that the kernel asks for.
    pub(crate) fn to_mask(&self) -> String {
        let halves = self.0.iter().rev().flat_map(|word| [word >> 32, word & u64::from(u32::MAX)]);
        let text = halves.map(|half| format!("{half:08x}")).collect::<Vec<_>>().join(",");
        let short = text.trim_start_matches(['0', ',']);
        if short.is_empty() { "0".into() } else { short.into() }
    }

    /// The CPUs, in order.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        let bits = |word: u64| (0..64).filter(move |bit| word & (1 << bit) != 0);
        self.0.iter().zip(0_u32..).flat_map(move |(word, index)| bits(*word).map(move |bit| index * 64 + bit))
    }

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn word(&self, index: usize) -> u64 {
        self.0.get(index).copied().unwrap_or_default()
    }

    /// Returns whether every CPU of `other` is in it.
    pub fn covers(&self, other: &Self) -> bool {
        other.0.iter().enumerate().all(|(index, word)| word & !self.word(index) == 0)
    }

    /// Returns whether some CPU is in both.
    pub fn touches(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).any(|(one, other)| one & other != 0)
    }

    /// Returns the CPUs that are not in `other`.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        Self::of(self.0.iter().enumerate().map(|(index, word)| word & !other.word(index)).collect())
    }

    /// Returns the union.
    #[must_use]
    pub fn with(&self, other: &Self) -> Self {
        let words = self.0.len().max(other.0.len());
        Self::of((0..words).map(|index| self.word(index) | other.word(index)).collect())
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("none");
        }
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        for cpu in self.iter() {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == cpu => *last = cpu,
                _ => ranges.push((cpu, cpu)),
            }
        }
        let text =
            |(first, last): &(u32, u32)| if first == last { first.to_string() } else { format!("{first}-{last}") };
        f.write_str(&ranges.iter().map(text).collect::<Vec<_>>().join(","))
    }
}

impl FromIterator<u32> for CpuSet {
    fn from_iter<T: IntoIterator<Item = u32>>(cpus: T) -> Self {
        let mut set = Self::default();
        cpus.into_iter().filter(|cpu| *cpu < CPUS_MAX).for_each(|cpu| set.insert(cpu, cpu));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_masks_say_the_same() {
        for (list, mask) in [
            ("0-3,8", "10f"),
            ("none", "0"),
            ("33", "2,00000000"),
            ("0-63", "ffffffff,ffffffff"),
            ("63-64", "1,80000000,00000000"),
        ] {
            let set = CpuSet::list(list).unwrap();
            assert_eq!((set.to_string().as_str(), set.to_mask().as_str()), (list, mask));
            assert_eq!(CpuSet::mask(mask).unwrap(), set);
        }
        assert_eq!(CpuSet::list("").unwrap(), CpuSet::default());
        let some = CpuSet::list("5,62-66,8191").unwrap();
        assert_eq!((some.to_string().as_str(), some.iter().count()), ("5,62-66,8191", 7));
        assert_eq!(CpuSet::mask("00000000,00000003").unwrap().to_string(), "0-1");
    }

    #[test]
    fn the_command_line_has_more_spellings() {
        let online = CpuSet::list("0-7").unwrap();
        let set = |text| CpuSet::boot_list(text, &online).map(|set| set.to_string());
        for (text, list) in [
            ("all", "0-7"),
            ("2-N", "2-7"),
            ("N", "7"),
            ("0-7:1/2", "0,2,4,6"),
            ("1,4-7:2/4,0", "0-1,4-5"),
            ("", "none"),
        ] {
            assert_eq!(set(text).as_deref(), Some(list), "{text}");
        }
        for text in ["3-1", "x", "0-7:1", "0-7:3/2", "0-7:0/0", "9999", "1-", &"0-N,".repeat(2000)] {
            assert_eq!(set(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_neither_is_refused() {
        for text in ["x", "1-", "-1", "3-1", "0-4294967295", "8192", "1;2", &"0-8191,".repeat(100_000)] {
            assert_eq!(CpuSet::list(text), None, "{text}");
        }
        for text in ["", "xyz", "-1", &"f".repeat(3000)] {
            assert_eq!(CpuSet::mask(text), None, "{text}");
        }
    }

    #[test]
    fn sets_are_compared() {
        let set = |text| CpuSet::list(text).unwrap();
        assert!(set("0-3").covers(&set("1-2")) && !set("0-3").covers(&set("3-4")));
        assert!(
            set("0-200").covers(&set("70-130")) && !set("0-63").covers(&set("64")) && set("1").covers(&set("none"))
        );
        assert!(set("0-200").without(&set("0-200")).is_empty() && set("1").with(&set("129")) == set("1,129"));
        assert_eq!(set("0-129").without(&set("60-200")), set("0-59"));
        assert!(set("0-3").touches(&set("3-4")) && !set("0-3").touches(&set("4")));
        assert_eq!((set("0-3").without(&set("1")), set("0").with(&set("2"))), (set("0,2-3"), set("0,2")));
    }
}
