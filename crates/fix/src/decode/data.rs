//! Length fields and the data fields that they announce, of all versions (from FIX Orchestra's `lengthId`).

/// Length field, data field.
pub(super) const PAIRS: &[(u32, u32)] = &[
    (90, 91),
    (93, 89),
    (95, 96),
    (212, 213),
    (348, 349),
    (350, 351),
    (352, 353),
    (354, 355),
    (356, 357),
    (358, 359),
    (360, 361),
    (362, 363),
    (364, 365),
    (445, 446),
    (618, 619),
    (621, 622),
    (1184, 1185),
    (1277, 1278),
    (1280, 1281),
    (1282, 1283),
    (1397, 1398),
    (1401, 1402),
    (1403, 1404),
    (1468, 1469),
    (1525, 1527),
    (1578, 1579),
    (1620, 1621),
    (1664, 1665),
    (1678, 1697),
    (1733, 1734),
    (1871, 1872),
    (1874, 1875),
    (2072, 2073),
    (2074, 2075),
    (2111, 2112),
    (2179, 2180),
    (2287, 2288),
    (2351, 2352),
    (2372, 2371),
    (2481, 2482),
    (2494, 2493),
    (2522, 2521),
    (2637, 2638),
    (2651, 2652),
    (2665, 2666),
    (2715, 2716),
    (2718, 2719),
    (2721, 2722),
    (2797, 2798),
    (2802, 2801),
    (2809, 2808),
    (2815, 2814),
    (40004, 40005),
    (40008, 40009),
    (40978, 40979),
    (40980, 40981),
    (40982, 40983),
    (40984, 40985),
    (40986, 40987),
    (40988, 40989),
    (41083, 41084),
    (41101, 41102),
    (41107, 41108),
    (41256, 41257),
    (41320, 41321),
    (41324, 41325),
    (41458, 41459),
    (41476, 41477),
    (41482, 41483),
    (41653, 41654),
    (41710, 41711),
    (41806, 41807),
    (41811, 41812),
    (41873, 41874),
    (41969, 41970),
    (42025, 42026),
    (42171, 42172),
    (42451, 42452),
    (42652, 42653),
    (42947, 42948),
    (43109, 42684),
    (43110, 42486),
    (43111, 42982),
];

/// Tags that have a bit of their own; the standard's own go up to 50,003.
const TAGS: usize = 65_536;

/// The pairs of length field and data field. Nearly every field is neither: one bit decides.
#[derive(Clone, Debug)]
pub struct DataFields {
    is_length: Box<[u64]>,
    pairs: Vec<(u32, u32)>,
}

impl DataFields {
    /// The standard's pairs and these (length field, data field); of two that begin alike these count. Tags of 65,536 and more
    /// announce nothing.
    pub fn with(more: &[(u32, u32)]) -> Self {
        let mut is_length = vec![0; TAGS / 64].into_boxed_slice();
        let pairs: Vec<(u32, u32)> =
            more.iter().chain(PAIRS).copied().filter(|pair| (pair.0 as usize) < TAGS).collect();
        for (length, _) in &pairs {
            is_length[*length as usize / 64] |= 1 << (length % 64);
        }
        Self { is_length, pairs }
    }

    /// Returns whether the standard has all of these pairs.
    pub(crate) fn are_standard(pairs: &[(u32, u32)]) -> bool {
        pairs.iter().all(|pair| PAIRS.contains(pair))
    }

    /// The data field that this one announces, if it is a length field.
    #[inline]
    pub(super) fn announced_by(&self, tag: u32) -> Option<u32> {
        let word = self.is_length.get(tag as usize / 64)?;
        if word >> (tag % 64) & 1 == 0 {
            return None;
        }
        self.pairs.iter().find(|pair| pair.0 == tag).map(|pair| pair.1)
    }
}
