use super::*;
use crate::{Options, private::private};

#[test]
fn a_line_holds_one_message_or_four() {
    let ring = |cell| private(&Options { kind: Kind::Spsc, cell, bytes: 4096, waking: Waking::Never }).unwrap();
    let (lines, quarters) = (ring(Cell::Line), ring(Cell::Quarter));
    assert_eq!([0, 56, 57, 120, 121].map(|length| lines.cells_of(length)), [1, 1, 2, 2, 3]);
    assert_eq!([0, 8, 9, 24, 25, 56].map(|length| quarters.cells_of(length)), [1, 1, 2, 2, 3, 4]);
    assert_eq!([lines.cells(), quarters.cells()], [64, 256]);
    assert_eq!([lines.cell(64 + 3), quarters.cell(256 + 3)], [HEADER_BYTES + 192, HEADER_BYTES + 48]);
    assert_eq!([lines.message_bytes_max(), quarters.message_bytes_max()], [2040; 2]);
}
