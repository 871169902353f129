//! A message made by hand from a table of offsets.

/// One field: its offset and its bytes.
pub(crate) type Field<'a> = (usize, &'a [u8]);

/// A message of this type and length. Its fields are to cover all bytes behind the type, none twice: a wrong offset or length in the
/// table of a test is found here, whatever the code under test says.
pub(crate) fn message(kind: u8, length: usize, fields: &[Field<'_>]) -> Vec<u8> {
    let mut bytes = vec![None; length];
    bytes[0] = Some(kind);
    for (at, field) in fields {
        for (place, byte) in bytes[*at..at + field.len()].iter_mut().zip(*field) {
            assert_eq!(place.replace(*byte), None, "two fields of type {} at {at}", kind.escape_ascii());
        }
    }
    let all: Option<Vec<u8>> = bytes.iter().copied().collect();
    all.unwrap_or_else(|| panic!("type {} has a hole: {bytes:?}", kind.escape_ascii()))
}
