//! `sidestep market decode`.
//!
//! `filter` decides which messages are printed, `printer` prints them, `summary` counts; `binary_file` writes them instead. `mdp` prints those of
//! MDP 3.0, whose fields are a `tree`.

mod binary_file;
mod filter;
mod mdp;
mod printer;
mod summary;
mod tree;

use super::input::{self, Bytes, Input, faulty};
use crate::args::{MarketDecode as Args, MarketProtocol};
use crate::{exit, output};
use filter::Filter;
use printer::{Place, Printer, seconds};
use sidestep_market::capture::{self, BinaryFile, Capture, Datagram, NotUdp};
use sidestep_market::framing::Body;
use sidestep_market::itch::Message;
use sidestep_market::mold64::Packet;
use sidestep_market::units::Sequence;
use sidestep_sys::Problem;
use sidestep_sys::problem::say;
use std::collections::BTreeMap;
use summary::Summary;

/// Different reasons for which something was not decoded that are kept: there are about ten.
const REASONS_MAX: usize = 32;

pub(super) fn run(args: &Args) -> Result<u8, Problem> {
    check(args)?;
    if let Some(path) = &args.binaryfile {
        return match input::open(&args.file)? {
            Input::Capture(capture) => binary_file::write(args, &Filter::new(&args.filter), capture, path),
            Input::Messages(_) => {
                Err(Problem::usage(format!("cannot decode {}", args.file.display()), "it is a BinaryFILE already")
                    .next("leave --binaryfile away"))
            }
        };
    }
    let mut decoder = Decoder {
        args,
        filter: Filter::new(&args.filter),
        printer: Printer::new(args.json),
        summary: Summary::default(),
        messages: 0,
        wanted: 0,
        others: 0,
        faults: BTreeMap::new(),
    };
    let read = match input::open(&args.file)? {
        Input::Capture(capture) => decoder.capture(capture),
        Input::Messages(_) if args.protocol == MarketProtocol::Mdp => {
            return Err(Problem::usage(
                format!("cannot decode {}", args.file.display()),
                "MDP 3.0 is in captures (pcap, pcapng), and this is none",
            )
            .next("see what it is: file FILE"));
        }
        Input::Messages(file) => decoder.file(file),
    };
    decoder.printer.flush()?;
    if args.summary && !decoder.printer.is_closed {
        decoder.print_summary()?;
    }
    read?;
    decoder.end()
}

/// Refuses what is there for ITCH alone.
fn check(args: &Args) -> Result<(), Problem> {
    let filter = &args.filter;
    let itch_only = [
        ("--symbol", !filter.symbol.is_empty()),
        ("--locate", !filter.locate.is_empty()),
        ("--type", !filter.types.is_empty()),
        ("--summary", args.summary),
        ("--binaryfile", args.binaryfile.is_some()),
    ];
    let wrong = itch_only.iter().find(|(_, is_given)| *is_given && args.protocol == MarketProtocol::Mdp);
    wrong.map_or(Ok(()), |(flag, _)| {
        Err(Problem::usage(format!("{flag} with --protocol mdp"), "it is about messages of ITCH")
            .next(format!("leave {flag} away; --group, --port, --count, --datagrams and --json are for both")))
    })
}

struct Decoder<'a> {
    args: &'a Args,
    filter: Filter,
    printer: Printer,
    summary: Summary,
    /// Messages, wanted or not.
    messages: u64,
    /// Messages that the filter has let pass.
    wanted: u64,
    /// Packets of other protocols.
    others: u64,
    /// What could not be decoded, by reason.
    faults: BTreeMap<String, u64>,
}

impl Decoder<'_> {
    fn is_over(&self) -> bool {
        self.printer.is_closed || self.args.filter.count.is_some_and(|count| self.wanted >= count)
    }

    fn fault(&mut self, why: String) {
        if self.faults.len() < REASONS_MAX || self.faults.contains_key(&why) {
            *self.faults.entry(why).or_insert(0) += 1;
        }
    }

    fn capture(&mut self, mut capture: Capture<Bytes>) -> Result<(), Problem> {
        while !self.is_over() {
            let packet = match capture.try_next() {
                Ok(Some(packet)) => packet,
                Ok(None) => break,
                Err(error) => return Err(faulty(&self.args.file, &error)),
            };
            let time_ns = packet.time_ns;
            match capture::datagram(&packet) {
                Ok(datagram) if self.filter.wants_datagram(datagram.destination) => {
                    self.datagram(time_ns, &datagram)?;
                }
                Ok(_) | Err(NotUdp::NotIp | NotUdp::Protocol(_)) => self.others += 1,
                Err(why) => self.fault(why.to_string()),
            }
        }
        Ok(())
    }

    fn datagram(&mut self, time_ns: Option<u64>, datagram: &Datagram<'_>) -> Result<(), Problem> {
        if self.args.protocol == MarketProtocol::Mdp {
            return self.mdp(time_ns, datagram);
        }
        let packet = match Packet::parse(datagram.payload) {
            Ok(packet) => packet,
            Err(why) => {
                self.fault(format!("no packet of MoldUDP64, to {}: {why}", datagram.destination));
                return Ok(());
            }
        };
        let messages = packet.messages();
        let is_end = packet.body() == Body::EndOfSession;
        self.summary.datagram(datagram.destination, packet.session(), packet.first(), messages.len() as u64, is_end);
        if self.args.datagrams && !self.args.json && !self.args.summary {
            self.print_datagram(time_ns, datagram, &packet)?;
        }
        for (place, bytes) in messages.enumerate() {
            let sequence = Some(Sequence(packet.first().0 + place as u64));
            self.message(Place { sequence, received_ns: time_ns }, bytes)?;
            if self.is_over() {
                break;
            }
        }
        Ok(())
    }

    fn print_datagram(
        &mut self,
        time_ns: Option<u64>,
        datagram: &Datagram<'_>,
        packet: &Packet<'_>,
    ) -> Result<(), Problem> {
        let time = time_ns.map_or_else(|| "no time".to_owned(), seconds);
        let what = match packet.body() {
            Body::Data { count: 1 } => "1 message".to_owned(),
            Body::Data { count } => format!("{count} messages"),
            Body::Heartbeat => "heartbeat".to_owned(),
            Body::EndOfSession => "end of session".to_owned(),
        };
        let (from, to, session) = (datagram.source, datagram.destination, packet.session());
        self.printer.line(&format!("-- {time} {from} > {to} session {session} {what} at {}", packet.first().0))
    }

    fn file(&mut self, mut file: BinaryFile<Bytes>) -> Result<(), Problem> {
        while !self.is_over() {
            let number = file.messages() + 1;
            match file.try_next() {
                Ok(Some(message)) => {
                    // A BinaryFILE has no numbers; they count from 1.
                    self.message(Place { sequence: Some(Sequence(number)), received_ns: None }, message)?;
                }
                Ok(None) => break,
                Err(error) => return Err(faulty(&self.args.file, &error)),
            }
        }
        Ok(())
    }

    fn message(&mut self, place: Place, bytes: &[u8]) -> Result<(), Problem> {
        self.messages += 1;
        let message = match Message::parse(bytes) {
            Ok(message) => message,
            Err(why) => {
                self.fault(why.to_string());
                return Ok(());
            }
        };
        if !self.filter.wants(&message) {
            return Ok(());
        }
        self.wanted += 1;
        if self.args.summary {
            self.summary.message(&message);
            return Ok(());
        }
        self.printer.message(place, &message, self.filter.symbol(message.locate()))
    }

    fn print_summary(&self) -> Result<(), Problem> {
        if self.args.json {
            return output::print(&format!("{}\n", self.summary.json()));
        }
        output::print(&self.summary.text())
    }

    /// Says what was not decoded, and returns the exit code.
    fn end(&self) -> Result<u8, Problem> {
        for (why, count) in &self.faults {
            say(format!("not decoded, {count} times: {why}"));
        }
        if self.messages == 0 && !self.printer.is_closed {
            let why = match self.others {
                0 => "there is no message of a feed".to_owned(),
                others => format!("there is no message of a feed, but {others} other packets"),
            };
            return Err(Problem::failed(format!("cannot decode {}", self.args.file.display()), why)
                .next("leave --group and --port away, and see what is in it: tcpdump -r FILE"));
        }
        Ok(if self.faults.is_empty() { exit::GOOD } else { exit::FAILED })
    }
}
