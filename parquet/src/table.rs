//! Events as rows of a Parquet file.

use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::data_type::{DataType, Int32Type, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;
use sidestep_market::event::{Event, Kind};
use sidestep_market::itch;
use sidestep_market::units::Side;
use std::io::Write;
use std::sync::Arc;

/// The rows of a group: what is held in memory, about 70 MB, until it is written.
pub const GROUP_ROWS: usize = 1_000_000;

const SCHEMA: &str = "message event {
    required int64 seq (INTEGER(64, false));
    required int64 ts_event;
    optional int64 ts_recv;
    required int32 line (INTEGER(8, false));
    required int32 locate (INTEGER(16, false));
    required int32 action (INTEGER(8, false));
    required int32 side (INTEGER(8, false));
    required int32 flags (INTEGER(8, false));
    required int64 order_id (INTEGER(64, false));
    optional int64 price;
    required int64 size (INTEGER(64, false));
}";

/// Columns that grow slowly or vary little from row to row; the others have few values, for which the default, a dictionary, is best.
const DELTA: [&str; 6] = ["seq", "ts_event", "ts_recv", "order_id", "price", "size"];

/// A column of the rows that have not been written yet.
#[derive(Default)]
struct Optional {
    values: Vec<i64>,
    /// 1 for a row that has a value.
    levels: Vec<i16>,
}

impl Optional {
    fn push(&mut self, value: Option<i64>) {
        self.values.extend(value);
        self.levels.push(i16::from(value.is_some()));
    }

    fn clear(&mut self) {
        self.values.clear();
        self.levels.clear();
    }
}

/// A file that is being written.
pub struct Table<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    /// Columns seq, ts_event, order_id and size.
    wide: [Vec<i64>; 4],
    /// Columns line, locate, action, side and flags.
    narrow: [Vec<i32>; 5],
    received: Optional,
    price: Optional,
    rows: u64,
}

impl<W: Write + Send> Table<W> {
    /// Begins a file. `date` is the exchange's day, as text.
    pub fn new(write: W, date: Option<&str>) -> Result<Self> {
        let level = ZstdLevel::try_new(3)?;
        let mut properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(level))
            .set_max_row_group_row_count(Some(GROUP_ROWS))
            .set_key_value_metadata(Some(metadata(date)));
        for column in DELTA {
            let path = ColumnPath::from(column);
            properties = properties
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
        }
        let schema = Arc::new(parse_message_type(SCHEMA)?);
        let writer = SerializedFileWriter::new(write, schema, Arc::new(properties.build()))?;
        let (received, price) = (Optional::default(), Optional::default());
        Ok(Self { writer, wide: Default::default(), narrow: Default::default(), received, price, rows: 0 })
    }

    /// Appends an event, received at this time, ns since 1970.
    pub fn push(&mut self, event: &Event, received_ns: Option<u64>) -> Result<()> {
        let wide = [event.sequence.0, event.time_ns, event.reference, event.quantity];
        self.wide.iter_mut().zip(wide).for_each(|(column, value)| column.push(value as i64));
        let side = event.side.map_or(0, |side| if side == Side::Buy { b'B' } else { b'S' });
        let narrow =
            [event.line.0.into(), i32::from(event.locate.0), event.kind as i32, side.into(), event.flags.bits().into()];
        self.narrow.iter_mut().zip(narrow).for_each(|(column, value)| column.push(value));
        self.received.push(received_ns.map(|ns| ns as i64));
        self.price.push(event.price.map(|price| price.0));
        if self.wide[0].len() == GROUP_ROWS { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        let Self { writer, wide, narrow, received, price, rows } = self;
        let [seq, ts_event, order_id, size] = wide;
        let [line, locate, action, side, flags] = narrow;
        if seq.is_empty() {
            return Ok(());
        }
        // In the order of the schema.
        let mut group = writer.next_row_group()?;
        column::<Int64Type, _>(&mut group, seq, None)?;
        column::<Int64Type, _>(&mut group, ts_event, None)?;
        column::<Int64Type, _>(&mut group, &received.values, Some(&received.levels))?;
        for values in [line, locate, action, side, flags] {
            column::<Int32Type, _>(&mut group, values, None)?;
        }
        column::<Int64Type, _>(&mut group, order_id, None)?;
        column::<Int64Type, _>(&mut group, &price.values, Some(&price.levels))?;
        column::<Int64Type, _>(&mut group, size, None)?;
        group.close()?;
        *rows += seq.len() as u64;
        wide.iter_mut().for_each(Vec::clear);
        narrow.iter_mut().for_each(Vec::clear);
        received.clear();
        price.clear();
        Ok(())
    }

    /// Writes the rest and the end of the file; returns the number of rows.
    pub fn finish(mut self, lines: &str) -> Result<u64> {
        self.flush()?;
        self.writer.append_key_value_metadata(KeyValue::new("lines".into(), lines.to_owned()));
        self.writer.close()?;
        Ok(self.rows)
    }
}

/// Writes the next column of a group; `levels` tell the rows that have a value.
fn column<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: &[T::T],
    levels: Option<&[i16]>,
) -> Result<()> {
    let next = group.next_column()?;
    let mut column = next.ok_or_else(|| ParquetError::General("the schema has fewer columns".into()))?;
    column.typed::<T>().write_batch(values, levels, None)?;
    column.close()
}

/// What the numbers mean.
fn metadata(date: Option<&str>) -> Vec<KeyValue> {
    let actions: Vec<String> = Kind::ALL.iter().map(|kind| format!("{} {kind:?}", *kind as u8)).collect();
    let mut facts = vec![
        ("price_scale", itch::PRICE_DECIMALS.to_string()),
        ("ts_event", "ns since midnight of the exchange's day".into()),
        ("ts_recv", "ns since 1970-01-01 UTC".into()),
        ("side", "66 (B) buy, 83 (S) sell, 0 not told".into()),
        ("action", actions.join(", ")),
        ("flags", "1 last event of its message, 8 not printable".into()),
        ("feed", "TotalView-ITCH 5.0".into()),
    ];
    facts.extend(date.map(|date| ("date", date.to_owned())));
    facts.into_iter().map(|(key, value)| KeyValue::new(key.into(), value)).collect()
}
