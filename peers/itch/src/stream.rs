//! The bytes that all decode: messages behind their lengths, as a file of the exchange has them. Written field by field, without any
//! of the decoders.

use fastrand::Rng;

const SYMBOLS: usize = 8_000;

/// A type and its fields behind the eleven bytes that all have. Digits: an integer of so many bytes. `$`: a symbol. `#`: a
/// participant. Else one of the letters, or of the groups of letters that a `|` parts.
const TYPES: &[(u8, &[&str])] = &[
    (b'S', &["OSQMEC"]),
    (
        b'R',
        &[
            "$",
            "QGSNAPZV ",
            "NDEQSGHJKC ",
            "4",
            "YN",
            "ABCFILNOPQRSTUVW",
            "A |AI|B |C |CB|EM",
            "PT",
            "YN ",
            "YN ",
            "12 ",
            "YN ",
            "4",
            "YN",
        ],
    ),
    (b'H', &["$", "HP", " ", "T1  |LUDP|MWC1|IPO1|M2  "]),
    (b'H', &["$", "QT", " ", "T3  |R4  |C11 |IPOQ"]),
    (b'Y', &["$", "012"]),
    (b'L', &["#", "$", "YN", "NPSRL", "AEWSD"]),
    (b'V', &["8", "8", "8"]),
    (b'W', &["123"]),
    (b'K', &["$", "4", "AC", "4"]),
    (b'J', &["$", "4", "4", "4", "4"]),
    (b'h', &["$", "QBX", "HT"]),
    (b'A', &["8", "BS", "4", "$", "4"]),
    (b'F', &["8", "BS", "4", "$", "4", "#"]),
    (b'E', &["8", "4", "8"]),
    (b'C', &["8", "4", "8", "YN", "4"]),
    (b'X', &["8", "4"]),
    (b'D', &["8"]),
    (b'U', &["8", "8", "4", "4"]),
    (b'P', &["8", "BS", "4", "$", "4", "8"]),
    (b'Q', &["8", "$", "4", "8", "OCHA"]),
    (b'B', &["8"]),
    (b'I', &["8", "8", "BSNO", "$", "4", "4", "4", "OCHA", "L123456789ABC "]),
    (b'N', &["$", "BSAN"]),
    (b'O', &["$", "YN", "4", "4", "4", "8", "4", "4"]),
];

/// Messages of all types in turn, of any values.
pub fn every_type(messages: usize, seed: u64) -> Vec<u8> {
    let (mut rng, mut out) = (Rng::with_seed(seed), Vec::new());
    for (kind, fields) in TYPES.iter().cycle().take(messages) {
        let mut message = begin(*kind, rng.u16(..), rng.u16(..), rng.u64(..));
        for field in *fields {
            put(&mut message, field, &mut rng);
        }
        frame(&mut out, &message);
    }
    out
}

/// The order messages of a day in the published mix: A 45.5 %, D 43.6, U 7.6, E 2.8, X 0.5.
pub fn day(messages: usize, seed: u64) -> Vec<u8> {
    let (mut rng, mut out) = (Rng::with_seed(seed), Vec::new());
    let (mut time, mut reference) = (34_200_000_000_000, 1_000_000);
    for _ in 0..messages {
        time += rng.u64(..2_000_000);
        let stock = rng.usize(..SYMBOLS);
        let kind = match rng.u32(..1000) {
            0..455 => b'A',
            455..891 => b'D',
            891..967 => b'U',
            967..995 => b'E',
            _ => b'X',
        };
        let mut message = begin(kind, stock as u16 + 1, 0, time);
        let old = reference - rng.u64(..100_000);
        let (shares, price) = (100 * rng.u32(1..20), 100 * rng.u32(10_000..20_000));
        let new = |message: &mut Vec<u8>, reference: &mut u64| {
            *reference += 1;
            message.extend_from_slice(&reference.to_be_bytes());
        };
        match kind {
            b'A' => {
                new(&mut message, &mut reference);
                message.push(if rng.bool() { b'B' } else { b'S' });
                message.extend_from_slice(&shares.to_be_bytes());
                message.extend_from_slice(&symbol(stock));
                message.extend_from_slice(&price.to_be_bytes());
            }
            b'U' => {
                message.extend_from_slice(&old.to_be_bytes());
                new(&mut message, &mut reference);
                message.extend_from_slice(&shares.to_be_bytes());
                message.extend_from_slice(&price.to_be_bytes());
            }
            _ => {
                message.extend_from_slice(&old.to_be_bytes());
                if kind != b'D' {
                    message.extend_from_slice(&shares.to_be_bytes());
                }
                if kind == b'E' {
                    message.extend_from_slice(&rng.u64(..1 << 40).to_be_bytes());
                }
            }
        }
        frame(&mut out, &message);
    }
    out
}

fn begin(kind: u8, locate: u16, tracking: u16, time: u64) -> Vec<u8> {
    let mut message = vec![kind];
    message.extend_from_slice(&locate.to_be_bytes());
    message.extend_from_slice(&tracking.to_be_bytes());
    message.extend_from_slice(&time.to_be_bytes()[2..]);
    message
}

fn put(message: &mut Vec<u8>, field: &str, rng: &mut Rng) {
    match field {
        "8" => message.extend_from_slice(&rng.u64(..).to_be_bytes()),
        "4" => message.extend_from_slice(&rng.u32(..).to_be_bytes()),
        "$" => message.extend_from_slice(&symbol(rng.usize(..SYMBOLS))),
        "#" => message.extend_from_slice(&symbol(rng.usize(..SYMBOLS))[..4]),
        groups if groups.contains('|') => {
            let groups: Vec<&str> = groups.split('|').collect();
            message.extend_from_slice(groups[rng.usize(..groups.len())].as_bytes());
        }
        letters => message.push(letters.as_bytes()[rng.usize(..letters.len())]),
    }
}

/// Five letters and three spaces.
fn symbol(number: usize) -> [u8; 8] {
    let mut symbol = *b"        ";
    let mut rest = number;
    for letter in &mut symbol[..5] {
        *letter = b'A' + (rest % 26) as u8;
        rest /= 26;
    }
    symbol
}

fn frame(out: &mut Vec<u8>, message: &[u8]) {
    out.extend_from_slice(&(message.len() as u16).to_be_bytes());
    out.extend_from_slice(message);
}
