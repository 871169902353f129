//! Messages in the layout of CME MDP 3.0, by the views of our schema.

use super::printer::seconds;
use super::tree::{Tree, lines, object};
use super::{Decoder, Printer};
use serde_json::{Value as Json, json};
use sidestep_market::capture::Datagram;
use sidestep_market::mdp::Packet;
use sidestep_market::mdp::schema::{Message, MessageHeader};
use sidestep_market::sbe::{self, Fields};
use sidestep_sys::Problem;
use std::fmt::Write as _;

impl Decoder<'_> {
    /// Prints the messages of a packet.
    pub(super) fn mdp(&mut self, time_ns: Option<u64>, datagram: &Datagram<'_>) -> Result<(), Problem> {
        let packet = match Packet::parse(datagram.payload) {
            Ok(packet) => packet,
            Err(why) => {
                self.fault(format!("no packet of MDP 3.0, to {}: {why}", datagram.destination));
                return Ok(());
            }
        };
        if self.args.datagrams && !self.args.json {
            let time = time_ns.map_or_else(|| "no time".to_owned(), seconds);
            let (from, to, sent) = (datagram.source, datagram.destination, seconds(packet.sending_time_ns));
            self.printer.line(&format!("-- {time} {from} > {to} packet {} sent {sent}", packet.sequence))?;
        }
        for bytes in packet.messages() {
            match bytes {
                Ok(bytes) => self.mdp_message(time_ns, &packet, bytes)?,
                // Its numbers differ from packet to packet, and reasons are counted.
                Err(_) => {
                    let to = datagram.destination;
                    self.fault(format!("no packet of MDP 3.0, to {to}: the size of a message does not fit"));
                }
            }
            if self.is_over() {
                break;
            }
        }
        Ok(())
    }

    fn mdp_message(&mut self, time_ns: Option<u64>, packet: &Packet<'_>, bytes: &[u8]) -> Result<(), Problem> {
        self.messages += 1;
        let message = match Message::decode(bytes) {
            Ok(message) => message,
            Err(why) => {
                self.fault(why.to_string());
                return Ok(());
            }
        };
        let template = <MessageHeader as sbe::MessageHeader>::read(bytes).map_or(0, |header| header.template);
        let mut tree = Tree::default();
        // What stands before the fault is printed.
        if let Err(why) = message.walk(&mut tree) {
            self.fault(why.to_string());
        }
        self.wanted += 1;
        print(&mut self.printer, Shown { time_ns, packet, bytes: bytes.len(), template, message, tree })
    }
}

/// A message that is printed.
struct Shown<'a> {
    time_ns: Option<u64>,
    packet: &'a Packet<'a>,
    /// Its length with its header.
    bytes: usize,
    template: u16,
    message: Message<'a>,
    tree: Tree,
}

fn print(printer: &mut Printer, shown: Shown<'_>) -> Result<(), Problem> {
    let text = if printer.json { as_json(shown).to_string() } else { as_text(shown) };
    printer.line(text.trim_end_matches('\n'))
}

fn as_text(shown: Shown<'_>) -> String {
    let Shown { packet, bytes, template, message, tree, .. } = shown;
    let name = message.name().unwrap_or("Unknown");
    let mut text = format!("#{:<9} {} {template:>3} {name:<18}", packet.sequence, seconds(packet.sending_time_ns));
    if message.name().is_none() {
        let _ = write!(text, " {bytes} bytes");
    }
    lines(&mut text, &tree.finish(), 0);
    text
}

fn as_json(shown: Shown<'_>) -> Json {
    let Shown { time_ns, packet, bytes, template, message, tree } = shown;
    let mut line = json!({
        "packet": packet.sequence,
        "sending_ns": packet.sending_time_ns,
        "template": template,
        "name": message.name(),
        "bytes": bytes,
        "fields": object(&tree.finish()),
    });
    if let Some(received) = time_ns {
        line["received_ns"] = json!(received);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidestep_market::mdp::schema::BookUpdateEncoder;

    fn shown(bytes: &[u8], packet: &[u8], json: bool) -> String {
        let packet = Packet::parse(packet).unwrap();
        let message = Message::decode(bytes).unwrap();
        let template = u16::from_le_bytes([bytes[2], bytes[3]]);
        let mut tree = Tree::default();
        message.walk(&mut tree).unwrap();
        let shown = Shown { time_ns: Some(5), packet: &packet, bytes: bytes.len(), template, message, tree };
        if json { as_json(shown).to_string() } else { as_text(shown) }
    }

    const PACKET: &[u8] = b"\x0c\0\0\0\x07\0\0\0\0\0\0\0";

    #[test]
    fn a_message_has_its_fields_by_name_and_each_entry_a_line() {
        let mut buffer = [0; 256];
        let mut levels = BookUpdateEncoder::new(&mut buffer).unwrap().levels().unwrap();
        levels.entry().unwrap().security_id(7).rpt_seq(1).level(1).price().mantissa(Some(5_000_000_000));
        let length = levels.end().orders().unwrap().end();
        let text = shown(&buffer[..length], PACKET, false);
        assert!(
            text.starts_with("#12        0.000000007  46 BookUpdate         TransactTime=0 MatchEvent=none\n"),
            "{text}"
        );
        assert!(
            text.contains("\n    Levels Price=5.000000000 Size=null SecurityID=7 RptSeq=1 Orders=null Level=1"),
            "{text}"
        );
        let json: Json = serde_json::from_str(&shown(&buffer[..length], PACKET, true)).unwrap();
        assert_eq!((&json["name"], &json["fields"]["Levels"][0]["SecurityID"]), (&json!("BookUpdate"), &json!(7)));
        assert_eq!((&json["fields"]["Orders"], &json["received_ns"]), (&json!([]), &json!(5)));
    }

    #[test]
    fn a_template_that_the_schema_does_not_have_is_its_id_and_length() {
        let bytes = [2, 0, 231, 3, 1, 0, 13, 0, 9, 9];
        assert_eq!(shown(&bytes, PACKET, false), "#12        0.000000007 999 Unknown            10 bytes\n");
    }
}
