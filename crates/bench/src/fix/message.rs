//! Messages encoded once and patched before each use: sequence number, times, order id, checksum. Every field that changes
//! has a fixed width, so BodyLength never does.

use std::ops::Range;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Digits of MsgSeqNum and of the number in a ClOrdID; leading zeros are legal in both.
const DIGITS: usize = 9;
/// `YYYYMMDD-HH:MM:SS.mmm`.
const TIME_LENGTH: usize = 21;
/// `10=nnn` and its delimiter.
const TRAILER_LENGTH: usize = 7;
/// The delimiter of fields.
pub(super) const SOH: u8 = 0x01;

/// A message to be sent many times.
#[derive(Clone, Debug)]
pub(super) struct Template {
    bytes: Vec<u8>,
    sequence: Range<usize>,
    number: Option<Range<usize>>,
    times: Vec<Range<usize>>,
}

/// BeginString and CompIDs of the client.
#[derive(Clone, Debug)]
pub(super) struct Header<'a> {
    pub(super) begin_string: &'a str,
    pub(super) sender: &'a str,
    pub(super) target: &'a str,
}

impl Template {
    /// A Logon that resets both sequence numbers, with heartbeats every `interval`.
    pub(super) fn logon(header: &Header<'_>, interval: Duration) -> Self {
        let interval = interval.as_secs().to_string();
        Self::new(header, b"A", &[(98, b"0"), (108, interval.as_bytes()), (141, b"Y")])
    }

    /// A market order for 100 of something: some 180 bytes.
    pub(super) fn order(header: &Header<'_>) -> Self {
        let fields: &[(u32, &[u8])] = &[
            (1, b"ACCOUNT1"),
            (11, b"O"),
            (21, b"1"),
            (38, b"100"),
            (40, b"1"),
            (54, b"1"),
            (55, b"EURUSD"),
            (59, b"0"),
            (60, b""),
        ];
        Self::new(header, b"D", fields)
    }

    /// A report of the bare acceptor: the fields of our exchange's, the order's values.
    pub(super) fn report(header: &Header<'_>, is_fill: bool) -> Self {
        let (kind, status, done, left): (&[u8], &[u8], &[u8], &[u8]) =
            if is_fill { (b"F", b"2", b"100", b"0") } else { (b"0", b"0", b"0", b"100") };
        let mut fields: Vec<(u32, &[u8])> =
            vec![(1, b"ACCOUNT1"), (6, if is_fill { b"100" } else { b"0" }), (11, b"O"), (14, done), (17, b"10000")];
        if is_fill {
            fields.extend([(31, &b"100"[..]), (32, b"100")]);
        }
        fields.extend([(37, &b"5000"[..]), (38, b"100"), (39, status), (54, b"1"), (55, b"EURUSD"), (60, b"")]);
        fields.extend([(150, kind), (151, left)]);
        let mut report = Self::new(header, b"8", &fields);
        report.stamp(0, 0, &mut Stamp::default());
        report
    }

    /// A TestRequest.
    pub(super) fn test_request(header: &Header<'_>) -> Self {
        Self::new(header, b"1", &[(112, b"T")])
    }

    /// A Logout.
    pub(super) fn logout(header: &Header<'_>) -> Self {
        Self::new(header, b"5", &[])
    }

    /// An answer to a TestRequest.
    pub(super) fn heartbeat(header: &Header<'_>, test_request_id: &[u8]) -> Self {
        Self::new(header, b"0", &[(112, test_request_id)])
    }

    /// Fields 11 and 112 are filled up with a number; 60 with the time.
    fn new(header: &Header<'_>, msg_type: &[u8], fields: &[(u32, &[u8])]) -> Self {
        let mut body = Vec::new();
        put(&mut body, 35, msg_type);
        let sequence = put(&mut body, 34, &[b'0'; DIGITS]);
        put(&mut body, 49, header.sender.as_bytes());
        let mut times = vec![put(&mut body, 52, &[b'0'; TIME_LENGTH])];
        put(&mut body, 56, header.target.as_bytes());
        let mut number = None;
        for (tag, value) in fields {
            match tag {
                11 | 112 if value.len() == 1 => {
                    let at = put(&mut body, *tag, &[value, &[b'0'; DIGITS][..]].concat());
                    number = Some(at.start + value.len()..at.end);
                }
                60 => times.push(put(&mut body, *tag, &[b'0'; TIME_LENGTH])),
                _ => {
                    put(&mut body, *tag, value);
                }
            }
        }
        let mut bytes = Vec::new();
        put(&mut bytes, 8, header.begin_string.as_bytes());
        put(&mut bytes, 9, body.len().to_string().as_bytes());
        let shift = |range: Range<usize>| range.start + bytes.len()..range.end + bytes.len();
        let (sequence, number) = (shift(sequence), number.map(shift));
        let times = times.into_iter().map(shift).collect();
        bytes.extend(body);
        put(&mut bytes, 10, b"000");
        Self { bytes, sequence, number, times }
    }

    /// Its length, bytes.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The message, ready to be sent.
    pub(super) fn stamp(&mut self, sequence: u64, number: u64, now: &mut Stamp) -> &[u8] {
        write_digits(&mut self.bytes[self.sequence.clone()], sequence);
        if let Some(range) = &self.number {
            write_digits(&mut self.bytes[range.clone()], number);
        }
        let time = now.text();
        for range in &self.times {
            self.bytes[range.clone()].copy_from_slice(time);
        }
        self.sum();
        &self.bytes
    }

    #[inline]
    fn sum(&mut self) {
        let length = self.bytes.len();
        let sum = checksum(&self.bytes[..length - TRAILER_LENGTH]);
        write_digits(&mut self.bytes[length - 4..length - 1], sum.into());
    }

    /// The message as it was stamped last, with another MsgSeqNum and the ClOrdID that `id` begins with; `None` where that is
    /// too short.
    #[inline]
    pub(super) fn answer(&mut self, sequence: u64, id: &[u8]) -> Option<&[u8]> {
        write_digits(&mut self.bytes[self.sequence.clone()], sequence);
        if let Some(range) = &self.number {
            // Behind the letter that it begins with.
            self.bytes[range.clone()].copy_from_slice(id.get(1..=range.len())?);
        }
        self.sum();
        Some(&self.bytes)
    }

    /// Returns the message as it was stamped last.
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// ClOrdID or TestReqID of message `number`.
    pub(super) fn id_of(&self, number: u64) -> [u8; 1 + DIGITS] {
        let mut id = [b'0'; 1 + DIGITS];
        id[0] = self.number.as_ref().map_or(b'0', |range| self.bytes[range.start - 1]);
        write_digits(&mut id[1..], number);
        id
    }
}

/// The sum of FIX: all bytes, modulo 256.
pub(super) fn checksum(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0, |sum, byte| sum.wrapping_add(*byte))
}

/// Appends a field; returns the position of its value.
fn put(bytes: &mut Vec<u8>, tag: u32, value: &[u8]) -> Range<usize> {
    bytes.extend(tag.to_string().bytes());
    bytes.push(b'=');
    let begin = bytes.len();
    bytes.extend(value);
    bytes.push(SOH);
    begin..bytes.len() - 1
}

/// Fills `place` with the last digits of `value`, with leading zeros.
fn write_digits(place: &mut [u8], mut value: u64) {
    for digit in place.iter_mut().rev() {
        *digit = b'0' + (value % 10) as u8;
        value /= 10;
    }
}

/// The text of SendingTime; only changed parts are written again.
#[derive(Clone, Debug)]
pub(super) struct Stamp {
    second: u64,
    text: [u8; TIME_LENGTH],
}

impl Default for Stamp {
    fn default() -> Self {
        Self { second: u64::MAX, text: *b"00000000-00:00:00.000" }
    }
}

impl Stamp {
    fn text(&mut self) -> &[u8; TIME_LENGTH] {
        let now = SystemTime::now();
        let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        if since.as_secs() != self.second {
            self.second = since.as_secs();
            // 2026-11-21T23:30:00Z
            let text = humantime::format_rfc3339_seconds(now).to_string();
            let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_digit).collect();
            self.text[..8].copy_from_slice(&digits[..8]);
            self.text[9..17].copy_from_slice(&text.as_bytes()[11..19]);
        }
        write_digits(&mut self.text[18..], since.subsec_millis().into());
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: Header<'static> = Header { begin_string: "FIX.4.4", sender: "BENCH1", target: "EXCHANGE" };

    fn text(bytes: &[u8]) -> String {
        String::from_utf8_lossy(bytes).replace('\u{1}', "|")
    }

    #[test]
    fn an_order_is_a_valid_message_however_often_it_is_stamped() {
        let mut order = Template::order(&HEADER);
        let mut now = Stamp::default();
        for sequence in [1, 2, 999_999_999] {
            let length = order.len();
            let bytes = order.stamp(sequence, sequence + 7, &mut now).to_vec();
            assert_eq!(bytes.len(), length);
            let shown = text(&bytes);
            let body = &shown[shown.find("|35=").expect("a body") + 1..shown.find("10=").expect("a trailer")];
            assert!(shown.starts_with(&format!("8=FIX.4.4|9={}|35=D|34={sequence:09}|49=BENCH1|52=2", body.len())));
            assert!(shown.contains("|56=EXCHANGE|1=ACCOUNT1|11=O") && shown.contains("|60=2"), "{shown}");
            assert!(shown.ends_with(&format!("|10={:03}|", checksum(&bytes[..bytes.len() - 7]))), "{shown}");
            let id = String::from_utf8_lossy(&order.id_of(sequence + 7)).into_owned();
            assert!(shown.contains(&format!("|11={id}|")) && id.starts_with('O'), "{id}");
        }
    }

    #[test]
    fn the_time_is_now() {
        let text = String::from_utf8_lossy(Stamp::default().text()).into_owned();
        let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        assert_eq!((&text[..4], &text[8..9], &text[17..18]), (&now[..4], "-", "."), "{text}");
    }

    #[test]
    fn a_heartbeat_repeats_the_id_it_answers() {
        let mut heartbeat = Template::heartbeat(&HEADER, b"TEST");
        assert!(text(heartbeat.stamp(3, 0, &mut Stamp::default())).contains("|112=TEST|"));
        assert!(
            text(Template::logon(&HEADER, Duration::from_secs(30)).stamp(1, 0, &mut Stamp::default()))
                .contains("|98=0|108=30|141=Y|")
        );
    }
}
