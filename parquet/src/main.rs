//! `sidestep-parquet CAPTURE TABLE`: the events of a capture of TotalView-ITCH 5.0 as a Parquet file, for DuckDB, ClickHouse, pandas.
//!
//! The capture is pcap or pcapng with MoldUDP64, or a BinaryFILE; `-` is the standard input. Memory does not grow with it.

mod convert;
mod table;

use convert::{Failure, convert};
use sidestep_sys::Problem;
use sidestep_sys::problem::say;
use std::fs::File;
use std::io::{self, Read};
use std::process::ExitCode;

const USAGE: &str = "usage: sidestep-parquet CAPTURE TABLE [--date YYYY-MM-DD]\n\n\
    CAPTURE  pcap or pcapng with MoldUDP64 and TotalView-ITCH 5.0, or a BinaryFILE; - is the standard input (zcat FILE.gz | ...)\n\
    TABLE    the Parquet file; one that exists is refused\n\
    --date   the exchange's day, kept in the table's metadata";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|one| one == "--help" || one == "-h") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            say(&problem);
            ExitCode::from(if problem.kind() == sidestep_sys::problem::Kind::Usage { 2 } else { 1 })
        }
    }
}

fn run(arguments: &[String]) -> Result<(), Problem> {
    let (capture, table, date) = match arguments {
        [capture, table] => (capture, table, None),
        [capture, table, flag, date] if flag == "--date" => (capture, table, Some(date.as_str())),
        _ => {
            let why = "it takes a capture and the name of a table";
            return Err(Problem::usage("cannot convert", why).next("sidestep-parquet --help"));
        }
    };
    let read: Box<dyn Read> = if capture == "-" {
        Box::new(io::stdin().lock())
    } else {
        let opened = File::open(capture);
        Box::new(opened.map_err(|error| {
            Problem::failed(format!("cannot open {capture}"), error).next("name a capture that can be read")
        })?)
    };
    let write = File::create_new(table).map_err(|error| {
        Problem::failed(format!("cannot make {table}"), error).next("name a file that does not exist yet")
    })?;
    let report = convert(read, write, date).map_err(|failure| {
        // A table without its end cannot be read.
        let _ = std::fs::remove_file(table);
        match failure {
            Failure::Capture(error) => Problem::failed(format!("cannot read {capture}"), error)
                .next("check that it is pcap, pcapng or a BinaryFILE, and unpacked"),
            Failure::Table(error) => {
                Problem::failed(format!("cannot write {table}"), error).next("check the space that is left there")
            }
        }
    })?;
    say(format_args!("{} rows of {} messages", report.rows, report.messages));
    for (count, what) in [
        (report.malformed, "messages are no ITCH 5.0"),
        (report.other_packets, "packets have no MoldUDP64"),
        (u64::from(report.is_truncated), "record at the end is not whole"),
    ] {
        if count > 0 {
            say(format_args!("{count} {what}: left out"));
        }
    }
    Ok(())
}
