//! itchy: its stream over a reader, which is the only way into it; the reader is the bytes in memory. Each message is an owned value.
//! It ends the process at a type that it does not know, so `h` and `O` are kept from it.

use crate::value::{Value, meaning, name, number};
use itchy::{ArrayString8, Body, Message, MessageStream, Price4, Side};

fn messages(stream: &[u8]) -> impl Iterator<Item = Message> {
    MessageStream::from_reader(stream).map(|message| message.expect("a good message"))
}

fn side(side: Side) -> u64 {
    match side {
        Side::Buy => 1,
        Side::Sell => 2,
    }
}

fn symbol(name: &ArrayString8) -> u64 {
    name.as_bytes().try_into().map_or(0, u64::from_be_bytes)
}

/// The sum of all fields of the types that [`crate::stream::day`] has.
pub fn sum(stream: &[u8]) -> u64 {
    let mut sum = 0_u64;
    for message in messages(stream) {
        macro_rules! add {
            ($($value:expr),*) => {{ $(sum = sum.wrapping_add($value as u64);)* }};
        }
        add!(message.stock_locate, message.tracking_number, message.timestamp);
        match &message.body {
            Body::AddOrder(m) => add!(m.reference, side(m.side), m.shares, symbol(&m.stock), m.price.raw()),
            Body::OrderExecuted { reference, executed, match_number } => add!(*reference, *executed, *match_number),
            Body::OrderCancelled { reference, cancelled } => add!(*reference, *cancelled),
            Body::DeleteOrder { reference } => add!(*reference),
            Body::ReplaceOrder(m) => add!(m.old_reference, m.new_reference, m.shares, m.price.raw()),
            _ => {}
        }
    }
    sum
}

/// All fields of all messages.
pub fn fields(stream: &[u8]) -> Vec<Vec<Value>> {
    messages(stream).map(|message| fields_of(&message)).collect()
}

fn fields_of(message: &Message) -> Vec<Value> {
    let mut all = vec![number(message.stock_locate), number(message.tracking_number), number(message.timestamp)];
    all.extend(body(&message.body));
    all
}

fn body(body: &Body) -> Vec<Value> {
    let price = |price: Price4| number(price.raw());
    let stock = |stock: &ArrayString8| name(stock.as_bytes());
    match body {
        Body::SystemEvent { event } => vec![meaning(event)],
        Body::StockDirectory(m) => vec![
            stock(&m.stock),
            meaning(m.market_category),
            meaning(m.financial_status),
            number(m.round_lot_size),
            meaning(m.round_lots_only),
            meaning(m.issue_classification),
            meaning(m.issue_subtype),
            meaning(m.authenticity),
            meaning(m.short_sale_threshold),
            meaning(m.ipo_flag),
            meaning(m.luld_ref_price_tier),
            meaning(m.etp_flag),
            number(m.etp_leverage_factor),
            meaning(m.inverse_indicator),
        ],
        Body::TradingAction { stock: name, trading_state, reason } => {
            vec![stock(name), meaning(trading_state), meaning(reason)]
        }
        Body::RegShoRestriction { stock: name, action } => vec![stock(name), meaning(action)],
        Body::ParticipantPosition(m) => vec![
            name(m.mpid.as_bytes()),
            stock(&m.stock),
            meaning(m.primary_market_maker),
            meaning(m.market_maker_mode),
            meaning(m.market_participant_state),
        ],
        Body::MwcbDeclineLevel { level1, level2, level3 } => {
            vec![number(level1.raw()), number(level2.raw()), number(level3.raw())]
        }
        Body::Breach(level) => vec![meaning(level)],
        Body::IpoQuotingPeriod(m) => {
            vec![stock(&m.stock), number(m.release_time), meaning(m.release_qualifier), price(m.price)]
        }
        Body::LULDAuctionCollar { stock: name, ref_price, upper_price, lower_price, extension } => {
            vec![stock(name), price(*ref_price), price(*upper_price), price(*lower_price), number(*extension)]
        }
        Body::AddOrder(m) => {
            let mut all = vec![number(m.reference), meaning(m.side), number(m.shares), stock(&m.stock), price(m.price)];
            all.extend(m.mpid.as_ref().map(|mpid| name(mpid.as_bytes())));
            all
        }
        Body::OrderExecuted { reference, executed, match_number } => {
            vec![number(*reference), number(*executed), number(*match_number)]
        }
        Body::OrderExecutedWithPrice { reference, executed, match_number, printable, price: at } => {
            vec![number(*reference), number(*executed), number(*match_number), meaning(printable), price(*at)]
        }
        Body::OrderCancelled { reference, cancelled } => vec![number(*reference), number(*cancelled)],
        Body::DeleteOrder { reference } => vec![number(*reference)],
        Body::ReplaceOrder(m) => {
            vec![number(m.old_reference), number(m.new_reference), number(m.shares), price(m.price)]
        }
        Body::NonCrossTrade(m) => vec![
            number(m.reference),
            meaning(m.side),
            number(m.shares),
            stock(&m.stock),
            price(m.price),
            number(m.match_number),
        ],
        Body::CrossTrade(m) => {
            vec![number(m.shares), stock(&m.stock), price(m.cross_price), number(m.match_number), meaning(m.cross_type)]
        }
        Body::BrokenTrade { match_number } => vec![number(*match_number)],
        Body::Imbalance(m) => vec![
            number(m.paired_shares),
            number(m.imbalance_shares),
            meaning(m.imbalance_direction),
            stock(&m.stock),
            price(m.far_price),
            price(m.near_price),
            price(m.current_ref_price),
            meaning(m.cross_type),
            meaning(m.price_variation_indicator),
        ],
        Body::RetailPriceImprovementIndicator(m) => vec![stock(&m.stock), meaning(m.interest_flag)],
    }
}
