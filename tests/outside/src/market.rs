//! Market data: a feed on loopback, messages, books, orders, captures; publication to a reader of the same host.

use crate::quotes::quotes_encoder::QuotesLevelsEncoder;
use crate::quotes::{self, Message as Sbe, QuotesEncoder};
use crate::{failed, until};
use sidestep::error::Problem;
use sidestep::market::arbiter::{self, Arbiter, Delivery, Histogram, LineKind, LineStatistics, Placed};
use sidestep::market::book::{Ahead, Book, Books, Depth, Order, PriceLevel, Suspect, Touched, by_price};
use sidestep::market::capture::{
    BinaryFile, BinaryFileWriter, Capture, CaptureError, Datagram, INTERFACES_MAX, Interface, InterfaceId, LinkType,
    NotUdp, PACKET_BYTES_MAX, datagram,
};
use sidestep::market::event::{EVENT_BYTES, Events, Flags, Kind, Unknown};
use sidestep::market::feed::{Action, Adoption, Feed, Handler, Join, Policy, State, Why};
use sidestep::market::feed_handler::{
    Application, Arrival, Channel, ChannelOptions, Directory, FeedHandler, LINES_MAX, Line, LineOptions, Lines,
    Options, Publication, SERVERS_MAX, SOURCES_MAX, SnapshotServer, Update, Wanted, line_kinds, name, recovery_line,
};
use sidestep::market::framing::{Body, Framing, Head};
use sidestep::market::itch::{COMMON_BYTES, LEVEL_DECIMALS, MESSAGE_BYTES_MAX, Message, PRICE_DECIMALS, Value};
use sidestep::market::mold64::{
    HEADER_BYTES, LENGTH_BYTES, MESSAGES_MAX, Messages, Mold64, NoRoom, PacketWriter, Session, ShortRequest,
};
use sidestep::market::ouch::{self, Answer, OpenOrders, OrderSide, Stage, UserRefNum};
use sidestep::market::publish::{self, Instrument, Interest, Level, SubscribeError, Subscriber, Top, Tops};
use sidestep::market::soup::{self, LoginAccepted, LoginRequest, Outbox, Password, SessionName, Settings, UserName};
use sidestep::market::{
    Alpha, LineId, Locate, Mpid, Nanos, OrderReference, Price, Sequence, Side, Symbol, glimpse, mold64, sbe,
};
use std::net::UdpSocket;

/// An add of 100 CVLT at 63.02, as it stands on the wire.
const ADD: &[u8] = b"A\x00\x07\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01B\0\0\0\x64CVLT    \x00\x09\x9d\xb8";

pub fn run() -> Result<(), Problem> {
    messages();
    feed_on_loopback()?;
    orders()?;
    captures().map_err(|error| failed("capture", error))?;
    merging()
}

fn free() -> Result<std::net::SocketAddr, Problem> {
    UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).map_err(|error| failed("bind", error))
}

fn packet(buffer: &mut [u8]) -> Result<&[u8], Problem> {
    let none = |NoRoom: NoRoom| failed("write a packet", "no room");
    let mut writer = PacketWriter::new(buffer, Alpha(*b"DAY1      "), Sequence(1)).map_err(none)?;
    assert!(writer.push(ADD));
    Ok(writer.finish())
}

/// Counts what it is shown.
#[derive(Default)]
struct Seen(usize);

impl Application for Seen {
    fn message(&mut self, update: &Update<'_>) {
        let change = update.change.expect("the books take it").expect("it changes one");
        assert_eq!((change.touched, change.level.shares), (Touched::Top, 100));
        self.0 += 1;
    }

    fn notice(&mut self, action: &Action<Session>, _: &Books) {
        assert!(!matches!(action, Action::State(State::Stale { why: Why::Overflow, .. })));
    }
}

fn feed_on_loopback() -> Result<(), Problem> {
    let folder = std::env::temp_dir().join(format!("sidestep-outside-{}", std::process::id()));
    let publication = Publication::within(&folder);
    let mut options = Options::of([Line::new("lo", free()?), Line::new("lo", free()?)]);
    options.line = LineOptions { accelerate: false, ..LineOptions::default() };
    options.publish = Some(publication.clone());
    options.channel = small();
    let mut handler = FeedHandler::open(&options)?;
    let reader = publication.subscribe(Interest::all());
    let sender = UdpSocket::bind("127.0.0.1:0").map_err(|error| failed("bind", error))?;
    let mut buffer = [0; 100];
    let bytes = packet(&mut buffer)?;
    for line in &options.lines {
        sender.send_to(bytes, line.group).map_err(|error| failed("send", error))?;
    }
    let mut seen = Seen::default();
    until("a live feed", || {
        handler.poll(&mut seen)?;
        Ok((handler.channel().feed().state() == State::Live).then_some(()))
    })?;
    assert_eq!(seen.0, 1);
    look(handler.channel());
    let lines: &mut Lines = handler.lines();
    assert!(lines.len() == 2 && LINES_MAX >= 2 && SERVERS_MAX > 0 && SOURCES_MAX > 0 && name(1) == 'B');
    let read = read(reader?);
    let _ = std::fs::remove_dir_all(&folder);
    read
}

fn small() -> ChannelOptions {
    let policy = Policy { join: Join::Beginning, adoption: Adoption::AfterEnd, ..Policy::default() };
    let books = sidestep::market::book::Limits { instruments: 10, orders: 100, levels: 100, side_levels: 100 };
    ChannelOptions { policy, held: arbiter::Limits::default(), books, depth: Depth::Orders }
}

fn look(channel: &Channel) {
    let book: Book<'_> = channel.books().book(Locate(7)).expect("within the limits");
    let level: PriceLevel = book.best(Side::Buy).expect("there is one");
    assert_eq!((level.price, level.orders), (Price(630_200), 1));
    let order: Order = channel.books().order(OrderReference(1)).expect("it is live");
    assert_eq!((order.shares, channel.books().ahead_of(order.reference)), (100, Some(Ahead::default())));
    let suspect: Option<Suspect> = book.suspect();
    assert!(suspect.is_none());
    let directory: &Directory = channel.directory();
    assert_eq!(directory.find(Symbol::new("CVLT").expect("it is short")), None, "only the directory message names it");
    let statistics: &LineStatistics = channel.feed().line(LineId(0)).expect("there is one");
    let lag: &Histogram = &statistics.lag;
    assert!(statistics.packets <= 1 && lag.count() <= 1);
    let sidestep::market::feed_handler::Counters { messages, .. } = channel.counters();
    let sidestep::market::feed::Counters { gaps, .. } = channel.feed().counters();
    assert_eq!((messages, *gaps), (1, 0));
}

fn read((mut subscriber, names): (Subscriber, publish::Directory)) -> Result<(), Problem> {
    let tops: Tops = subscriber.tops();
    let top: Top = tops.top(Locate(7)).map_err(|error| failed("read", format!("{error:?}")))?;
    let Some(Level { price, quantity, .. }) = top.bid else { return Err(failed("read", "there is no bid")) };
    assert_eq!((price, quantity, top.state), (Price(630_200), 100, publish::State::Live));
    let mut updates = 0;
    while let Some(update) = subscriber.try_next().map_err(|error: SubscribeError| failed("read", error))? {
        updates += 1;
        if let publish::Update::Event(event) = update {
            let event: sidestep::market::event::Event = event;
            assert_eq!(event.encode().len(), EVENT_BYTES);
        }
    }
    let publish::Channel { decimals, .. } = subscriber.channel();
    let found: Option<Instrument> = names.find(Symbol::default());
    assert!(updates > 0 && decimals == PRICE_DECIMALS && found.is_none());
    Ok(())
}

/// Every type has its view.
fn messages() {
    let message = Message::parse(ADD).expect("it is one");
    let what = match message {
        Message::AddOrder(_) | Message::AddOrderMpid(_) => "add",
        Message::OrderExecuted(_) | Message::OrderExecutedWithPrice(_) => "execution",
        Message::OrderCancel(_) | Message::OrderDelete(_) | Message::OrderReplace(_) => "less",
        Message::Trade(_) | Message::CrossTrade(_) | Message::BrokenTrade(_) => "trade",
        Message::SystemEvent(_) | Message::StockDirectory(_) | Message::StockTradingAction(_) => "day",
        Message::RegShoRestriction(_) | Message::MarketParticipantPosition(_) | Message::OperationalHalt(_) => "state",
        Message::MwcbDeclineLevel(_) | Message::MwcbStatus(_) | Message::LuldAuctionCollar(_) => "limits",
        Message::IpoQuotingPeriod(_) | Message::DirectListing(_) => "listing",
        Message::NetOrderImbalance(_) | Message::RetailInterest(_) => "interest",
        Message::Unknown(_) => "unknown",
    };
    assert_eq!(what, "add");
    let mut price = None;
    message.fields(&mut |name, value| price = if name == "price" { Some(value) } else { price });
    assert_eq!(price, Some(Value::Price(Price(630_200))));
    let malformed: sidestep::market::itch::Malformed = Message::parse(b"").expect_err("it is none");
    assert!(!malformed.to_string().is_empty() && ADD.len() < MESSAGE_BYTES_MAX && COMMON_BYTES < ADD.len());
    assert_eq!((LEVEL_DECIMALS, Mpid::default().as_str()), (8, ""));
    let origin = sidestep::market::event::Origin { flags: Flags::RECOVERED, ..Default::default() };
    let events: Events = origin.itch(&message);
    assert!(events.iter().all(|event| event.kind == Kind::Add));
    assert!(matches!(sidestep::market::event::Event::decode(&[0; EVENT_BYTES]), Err(Unknown::Kind(0))));
}

fn orders() -> Result<(), Problem> {
    let mut account = OpenOrders::new(ouch::Limits::default())?;
    let number: UserRefNum = account.next_number().expect("all are free");
    let symbol = Symbol::new("CVLT").expect("it is short");
    let order = ouch::EnterOrder {
        capacity: ouch::Capacity::Agency,
        cross_type: ouch::CrossType::Continuous,
        display: ouch::Display::Visible,
        time_in_force: ouch::TimeInForce::Day,
        cl_ord_id: ouch::ClOrdId::default(),
        appendage: &[ouch::Element::Firm(Mpid::default())],
        ..ouch::EnterOrder::limit(number, OrderSide::Buy, ouch::QUANTITY_MAX, symbol, ouch::PRICE_MAX)
    };
    let mut bytes = [0; 100];
    order.write(&mut bytes).map_err(|error: ouch::BuildError| failed("order", error))?;
    account.enter(&order, Nanos(0)).map_err(|refused: ouch::Refused| failed("order", refused))?;
    let known: &ouch::Order = account.find(number).expect("it was sent");
    assert_eq!((known.stage, known.request), (Stage::Sent, None::<ouch::Request>));
    let replace = ouch::ReplaceOrder::limit(number, UserRefNum(9), 1, ouch::PRICE_MARKET);
    let cancel = ouch::CancelOrder { user_ref_num: number, quantity: 0 };
    let modify = ouch::ModifyOrder { user_ref_num: number, side: OrderSide::Buy, quantity: 1 };
    assert!(
        replace.write(&mut [0; 9]).is_err() && cancel.write(&mut bytes) == Ok(9) && modify.write(&mut bytes) == Ok(10)
    );
    assert_eq!(ouch::AccountQuery.write(&mut bytes), Ok(1));
    assert!(Answer::parse(b"").is_err_and(|_: ouch::Malformed| true));
    assert_eq!((answered(b"S\0\0\0\0\0\0\0\0O"), ouch::PRICE_DECIMALS), ("day", 4));
    let ouch::Counters { repeated, .. } = account.counters();
    assert!(repeated == 0 && matches!(account.apply(Sequence(1), &Answer::Unknown(b"~")), ouch::Change::Nothing));
    session()
}

/// Every answer has its view.
fn answered(bytes: &[u8]) -> &'static str {
    let elements = |appendage: ouch::Appendage<'_>| {
        let elements: ouch::Elements<'_> = appendage.elements();
        if elements.count() == 0 { "alone" } else { "with more" }
    };
    match Answer::parse(bytes).expect("it is one") {
        Answer::SystemEvent(ouch::SystemEvent { .. }) => "day",
        Answer::Accepted(accepted) => {
            let accepted: ouch::Accepted<'_> = accepted;
            elements(accepted.appendage())
        }
        Answer::Replaced(ouch::Replaced { .. }) | Answer::Executed(ouch::Executed { .. }) => "order",
        Answer::Cancelled(ouch::Cancelled { .. }) | Answer::Rejected(ouch::Rejected { .. }) => "end",
        Answer::BrokenTrade(ouch::BrokenTrade { .. }) | Answer::SelfMatchCancelled(ouch::SelfMatchCancelled { .. }) => {
            "trade"
        }
        Answer::CancelPending(ouch::CancelPending { .. }) | Answer::CancelRejected(ouch::CancelRejected { .. }) => {
            "cancel"
        }
        Answer::PriorityUpdate(ouch::PriorityUpdate { .. }) | Answer::Modified(ouch::Modified { .. }) => "change",
        Answer::Restated(ouch::Restated { .. }) | Answer::QueryResponse(ouch::QueryResponse { .. }) => "state",
        Answer::Unknown(_) => "unknown",
    }
}

fn session() -> Result<(), Problem> {
    let settings = Settings::new(UserName::default(), Password::default());
    let mut client = soup::Client::new(settings.clone())?;
    client.connected(Nanos(0));
    assert_eq!((client.state(), client.session()), (soup::State::LoginSent, SessionName::CURRENT));
    let (packet, _) = soup::Packet::split(client.output()).expect("well-formed").expect("whole");
    assert!(packet.payload.len() == LoginRequest::BYTES && soup::PAYLOAD_BYTES_MAX < soup::PACKET_BYTES_MAX);
    let sent: Result<(), soup::SendError> = client.send(b"", Nanos(0));
    assert!(sent.is_err() && LoginAccepted::parse(b"").is_err_and(|_: soup::Malformed| true));
    let mut rejected = false;
    client.receive(b"\0\x02JA", Nanos(0), |event, _: &mut Outbox| {
        rejected |= matches!(event, soup::Event::Ended(soup::End::Rejected(soup::Rejection::NotAuthorized)));
    });
    let soup::Counters { logins, .. } = client.counters();
    assert!(rejected && logins == 0);
    let mut snapshots = glimpse::Client::new(settings, glimpse::Limits::default())?;
    snapshots.connected(Nanos(0));
    snapshots.disconnected(|event| assert!(matches!(event, glimpse::Event::Failed(glimpse::Failure::Disconnected))));
    assert!(matches!(snapshots.state(), glimpse::State::Failed(_)));
    let server = SnapshotServer::at(sidestep::stream::Endpoint::parse("127.0.0.1:1")?);
    assert_eq!(server.endpoint.port(), Some(1));
    Ok(())
}

fn captures() -> Result<(), CaptureError> {
    let mut buffer = [0; 100];
    let bytes = packet(&mut buffer).expect("it has room");
    let mut writer = sidestep::market::capture::Writer::new(Vec::new(), "outside")?;
    let line: InterfaceId = writer.interface("A", LinkType::RAW)?;
    let (from, to) = (([192, 0, 2, 1], 7).into(), ([239, 1, 1, 1], 7).into());
    writer.datagram(line, 1, from, to, bytes)?;
    let file = writer.finish()?;
    let mut capture = Capture::new(&file[..])?;
    let read: sidestep::market::capture::Packet<'_> = capture.try_next()?.expect("it is there");
    let Datagram { payload, .. } = datagram(&read).expect("it is UDP");
    assert_eq!(payload, bytes);
    let cut = sidestep::market::capture::Packet { bytes: &[], ..read };
    assert!(datagram(&cut).is_err_and(|why| matches!(why, NotUdp::Cut | NotUdp::NotIp)));
    let Interface { name, .. } = capture.interface(0).expect("it is there");
    assert!(name == "A" && INTERFACES_MAX > 0 && PACKET_BYTES_MAX > bytes.len());
    let mut messages = BinaryFileWriter::new(Vec::new());
    messages.message(ADD)?;
    let file = messages.finish()?;
    let mut messages = BinaryFile::new(&file[..]);
    assert_eq!(messages.try_next()?, Some(ADD));
    assert!(messages.try_next()?.is_none() && messages.end() == Some(sidestep::market::capture::End::Marked));
    Ok(())
}

/// The numbers of messages, of any protocol.
struct Numbers(Vec<u64>);

impl Handler<Session> for Numbers {
    fn message(&mut self, message: Delivery<'_>) {
        let arbiter::Origin { recovered, .. } = message.origin;
        assert!(!recovered);
        self.0.push(message.sequence.0);
    }

    fn snapshot(&mut self, _: &[u8]) {}

    fn action(&mut self, _: Action<Session>) {}
}

fn merging() -> Result<(), Problem> {
    let mut buffer = [0; 100];
    let bytes = packet(&mut buffer)?;
    let head: Head<Session> = Mold64::head(bytes).expect("it is one");
    assert_eq!(head.body, Body::Data { count: 1 });
    let packet = mold64::Packet::parse(bytes).expect("it is one");
    let messages: Messages<'_> = packet.messages();
    let mut arbiter = Arbiter::new(&line_kinds(1), arbiter::Limits::default(), Sequence(1))?;
    let placed = arbiter.datagram(LineId(0), Nanos(0), packet.first(), messages, &mut |_| {});
    assert_eq!((placed, recovery_line(1)), (Placed::Delivered, LineId(2)));
    let mut feed: Feed<Mold64> = Feed::new(&[LineKind::Live], arbiter::Limits::default(), Policy::default(), Nanos(0))?;
    let mut numbers = Numbers(Vec::new());
    feed.datagram(LineId(0), Nanos(0), Nanos(0), bytes, &mut numbers);
    assert_eq!(numbers.0, [1]);
    let late: Result<(), sidestep::market::feed::Refused> = feed.snapshot_message(1, Nanos(0), b"", &mut numbers);
    assert!(late.is_err());
    assert!(mold64::Packet::parse(b"").is_err_and(|_: mold64::Malformed| true));
    let wanted = Wanted { server: 0, session: head.session, first: Sequence(1), count: 1 };
    let request = mold64::Request { session: wanted.session, first: wanted.first, count: 1 };
    assert_eq!(mold64::Request::parse(&request.write()), Ok(request));
    assert!(mold64::Request::parse(b"").is_err_and(|ShortRequest { bytes }| bytes == 0));
    assert!(HEADER_BYTES + LENGTH_BYTES + ADD.len() == bytes.len() && MESSAGES_MAX > 1);
    let arrival = Arrival { line: 0, by_twin: false, arrived_ns: 0, time_ns: 0, source: free()?, payload: bytes };
    assert_eq!(arrival.payload.len(), bytes.len());
    levels();
    views()
}

fn levels() {
    let mut book = by_price::Book::new(by_price::DEPTH_MAX).expect("it may be so deep");
    let level = by_price::Level { price: Price(1), quantity: 2, orders: 3 };
    let applied: Result<(), by_price::Refusal> = book.apply(Side::Buy, 1, by_price::Action::New(level));
    assert!(applied.is_ok() && book.best(Side::Buy) == Some(level));
}

/// Views and encoders that `sidestep market generate` has made of quotes.xml.
fn views() -> Result<(), Problem> {
    let mut buffer = [0; 100];
    let unwritable = |error: sbe::Unwritable| failed("write", format!("{error:?}"));
    let mut quotes = QuotesEncoder::new(&mut buffer).map_err(unwritable)?;
    quotes.fields().symbol(b"CVLT\0\0\0\0");
    let mut level = quotes.levels().and_then(QuotesLevelsEncoder::entry).map_err(unwritable)?;
    level.fields().side(quotes::types::Side::OFFER).price(Some(630_200));
    let mut orders = level.orders().map_err(unwritable)?;
    orders.entry().map_err(unwritable)?.shares(225);
    let bytes = orders.end().end().text(b"hello").map_err(unwritable)?;
    let read = |error: sbe::Malformed| failed("read", format!("{error:?}"));
    let Sbe::Quotes(quotes) = Sbe::decode(&buffer[..bytes]).map_err(read)? else {
        return Err(failed("read", "another message"));
    };
    assert_eq!(sbe::text(quotes.symbol()), "CVLT");
    let mut levels = quotes.levels().map_err(read)?;
    let level = levels.next().expect("there is one").map_err(read)?;
    let mut orders: sbe::Entries<'_, _> = level.orders().map_err(read)?.into_iter();
    let shares = orders.next().map(|order| order.shares());
    assert_eq!((level.price(), shares, sbe::NESTING_MAX > 1), (Some(630_200), Some(225), true));
    let _: fn(&mut [u8; 4], [u8; 2]) = |out, chunk| *sbe::chunk_mut(out, 1) = chunk;
    let mut names = Names(Vec::new());
    sbe::Fields::walk(&quotes, &mut names).map_err(read)?;
    sbe::Show::show(&sbe::Char(b'x'), "char", &mut names);
    assert_eq!(names.0, ["symbol", "levels", "levels", "side", "price", "orders", "orders", "shares", "text", "char"]);
    Ok(())
}

/// The names of what a message has.
struct Names(Vec<&'static str>);

impl sbe::Walker for Names {
    fn value(&mut self, name: &'static str, _: sbe::Value<'_>) {
        self.0.push(name);
    }

    fn begin(&mut self, name: &'static str, _: sbe::Part) {
        self.0.push(name);
    }

    fn end(&mut self) {}
}
