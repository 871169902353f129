//! From a capture to a table.

use crate::table::Table;
use parquet::errors::ParquetError;
use sidestep_market::capture::{self, BinaryFile, Capture, CaptureError, datagram};
use sidestep_market::event::{Flags, Origin};
use sidestep_market::itch::Message;
use sidestep_market::mold64;
use sidestep_market::units::{LineId, Nanos, Sequence};
use std::fmt;
use std::io::{Cursor, Read, Write};
use std::net::SocketAddr;

/// The most lines: their numbers have one byte.
const LINES_MAX: usize = 256;

/// What was done, and what was left out.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Rows written.
    pub rows: u64,
    /// Messages read.
    pub messages: u64,
    /// Messages that are no ITCH.
    pub malformed: u64,
    /// Packets without a UDP datagram or a whole packet of MoldUDP64 in it, or of a line beyond the 256th.
    pub other_packets: u64,
    /// Bytes of a record that ends with the file were left out.
    pub is_truncated: bool,
}

/// A conversion that failed.
#[derive(Debug)]
pub enum Failure {
    /// The capture cannot be read.
    Capture(CaptureError),
    /// The table cannot be written.
    Table(ParquetError),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Capture(error) => error.fmt(f),
            Self::Table(error) => error.fmt(f),
        }
    }
}

impl From<CaptureError> for Failure {
    fn from(error: CaptureError) -> Self {
        Self::Capture(error)
    }
}

impl From<ParquetError> for Failure {
    fn from(error: ParquetError) -> Self {
        Self::Table(error)
    }
}

/// Writes every event of a capture, pcap, pcapng or BinaryFILE, in the order of the capture. Messages that came by several lines are
/// rows of each line.
pub fn convert<W: Write + Send>(read: impl Read, write: W, date: Option<&str>) -> Result<Report, Failure> {
    let mut table = Table::new(write, date)?;
    let mut report = Report::default();
    let (first, is_capture) = begin(read)?;
    let mut lines = Vec::new();
    let end = if is_capture {
        of_packets(first, &mut table, &mut lines, &mut report)
    } else {
        of_messages(first, &mut table, &mut report)
    };
    match end {
        Err(Failure::Capture(CaptureError::Truncated { .. })) => report.is_truncated = true,
        other => other?,
    }
    let names: Vec<String> = lines.iter().enumerate().map(|(number, line)| format!("{number} {line}")).collect();
    report.rows = table.finish(&names.join(", "))?;
    Ok(report)
}

/// The reader from its first byte on, and whether it is a capture of packets: a BinaryFILE begins with a short length.
fn begin(mut read: impl Read) -> Result<(impl Read, bool), Failure> {
    let mut first = Vec::new();
    read.by_ref().take(4).read_to_end(&mut first).map_err(CaptureError::from)?;
    let is_capture = first.first().is_some_and(|byte| *byte != 0);
    let is_section = first == [0x0a, 0x0d, 0x0d, 0x0a];
    Ok((Cursor::new(first).chain(read), is_capture || is_section))
}

fn of_packets<W: Write + Send>(
    read: impl Read,
    table: &mut Table<W>,
    lines: &mut Vec<SocketAddr>,
    report: &mut Report,
) -> Result<(), Failure> {
    let mut capture = Capture::new(read)?;
    while let Some(packet) = capture.try_next()? {
        let Some((line, mold)) = mold_packet(&packet, lines) else {
            report.other_packets += 1;
            continue;
        };
        for (sequence, message) in (mold.first().0..).zip(mold.messages()) {
            push(table, report, sequence, line, packet.time_ns, message)?;
        }
    }
    Ok(())
}

/// The line and the packet of MoldUDP64 in a captured packet. One that is cut off is refused as a whole, as a feed refuses it.
fn mold_packet<'p>(packet: &capture::Packet<'p>, lines: &mut Vec<SocketAddr>) -> Option<(LineId, mold64::Packet<'p>)> {
    let found = datagram(packet).ok()?;
    let mold = mold64::Packet::parse(found.payload).ok()?;
    Some((line_of(lines, found.destination)?, mold))
}

/// The number of a line, in the order of their first packets; nothing for one too many.
fn line_of(lines: &mut Vec<SocketAddr>, destination: SocketAddr) -> Option<LineId> {
    let known = lines.iter().position(|line| *line == destination);
    let number = known.unwrap_or(lines.len());
    if known.is_none() && number < LINES_MAX {
        lines.push(destination);
    }
    u8::try_from(number).ok().map(LineId)
}

fn of_messages<W: Write + Send>(read: impl Read, table: &mut Table<W>, report: &mut Report) -> Result<(), Failure> {
    let mut file = BinaryFile::new(read);
    let mut sequence = 0;
    while let Some(message) = file.try_next()? {
        sequence += 1;
        push(table, report, sequence, LineId(0), None, message)?;
    }
    Ok(())
}

fn push<W: Write + Send>(
    table: &mut Table<W>,
    report: &mut Report,
    sequence: u64,
    line: LineId,
    received_ns: Option<u64>,
    message: &[u8],
) -> Result<(), Failure> {
    report.messages += 1;
    let Ok(message) = Message::parse(message) else {
        report.malformed += 1;
        return Ok(());
    };
    let (sequence, time_ns) = (Sequence(sequence), message.timestamp_ns());
    let origin =
        Origin { sequence, time_ns, arrived: Nanos(received_ns.unwrap_or_default()), line, flags: Flags::NONE };
    origin.itch(&message).iter().try_for_each(|event| table.push(event, received_ns))?;
    Ok(())
}

#[cfg(test)]
mod tests;
