//! A second decoder that does one thing after the other, byte by byte: what the fast one is held against, here and in the
//! fuzz target.

/// Tags and the places of their values; `None` for a garbled message.
pub(crate) fn decode(raw: &[u8], pairs: &[(u32, u32)], fields_max: usize) -> Option<Vec<(u32, usize, usize)>> {
    let body_end = raw.len().checked_sub(7)?;
    let trailer = std::str::from_utf8(&raw[body_end..]).ok()?;
    let digits = trailer.strip_prefix("10=")?.strip_suffix('\x01')?;
    let sum: usize = raw[..body_end].iter().map(|byte| usize::from(*byte)).sum();
    if !raw[..body_end].ends_with(b"\x01") || digits != format!("{:03}", sum % 256) {
        return None;
    }
    let mut fields: Vec<(u32, usize, usize)> = Vec::new();
    let mut at = 0;
    while at < raw.len() {
        let equals = at + raw[at..].iter().position(|byte| *byte == b'=')?;
        let tag = number(&raw[at..equals])?;
        let start = equals + 1;
        let mut end = start + raw[start..].iter().position(|byte| *byte == 1)?;
        if let Some((before, from, to)) = fields.last() {
            let is_pair = pairs.contains(&(*before, tag));
            let stated = std::str::from_utf8(&raw[*from..*to]).ok().filter(|text| !text.starts_with('+'));
            let length = stated.and_then(|text| text.parse::<u32>().ok()).map_or(usize::MAX, |length| length as usize);
            let wanted = start.saturating_add(length);
            if is_pair && wanted < body_end && raw[wanted] == 1 {
                end = wanted;
            }
        }
        fields.push((tag, start, end));
        at = end + 1;
    }
    let value = |place: usize| &raw[fields[place].1..fields[place].2];
    let is_framed = fields.len() >= 4
        && fields.len() <= fields_max
        && [fields[0].0, fields[1].0, fields[2].0] == [8, 9, 35]
        && fields.last() == Some(&(10, body_end + 3, raw.len() - 1))
        && unsigned(value(1)) == Some((body_end - fields[1].2 - 1) as u64);
    is_framed.then_some(fields)
}

/// A tag; 0 for a negative one.
fn number(text: &[u8]) -> Option<u32> {
    match text.split_first() {
        Some((b'-', rest)) if !rest.is_empty() && rest.len() <= 9 => unsigned(rest).map(|_| 0),
        _ if text.len() <= 9 => u32::try_from(unsigned(text)?).ok(),
        _ => None,
    }
}

fn unsigned(text: &[u8]) -> Option<u64> {
    let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    is_number.then(|| std::str::from_utf8(text).ok()?.parse().ok()).flatten()
}
