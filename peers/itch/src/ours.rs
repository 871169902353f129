//! sidestep: the framing is walked here, the messages are views.

use crate::value::{Value, letters, name, number};
use sidestep_market::itch::Message;
use sidestep_market::units::Side;

/// The messages of a stream.
struct Messages<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Messages<'a> {
    type Item = Message<'a>;

    #[inline(always)]
    fn next(&mut self) -> Option<Message<'a>> {
        let (length, behind) = self.rest.split_first_chunk::<2>()?;
        let (message, behind) = behind.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
        self.rest = behind;
        Some(Message::parse(message).expect("a good message"))
    }
}

fn side(side: Option<Side>) -> u64 {
    match side {
        None => 0,
        Some(Side::Buy) => 1,
        Some(Side::Sell) => 2,
    }
}

/// The sum of all fields of the types that [`crate::stream::day`] has.
pub fn sum(stream: &[u8]) -> u64 {
    let mut sum = 0_u64;
    for message in (Messages { rest: stream }) {
        macro_rules! add {
            ($view:ident $($value:expr),*) => {{
                sum = sum.wrapping_add(u64::from($view.locate().0)).wrapping_add(u64::from($view.tracking_number()));
                sum = sum.wrapping_add($view.timestamp_ns());
                $(sum = sum.wrapping_add($value as u64);)*
            }};
        }
        match message {
            Message::AddOrder(m) => add!(
                m m.order_reference().0, side(m.side()), m.shares(), u64::from_be_bytes(m.stock().0), m.price().0
            ),
            Message::OrderExecuted(m) => add!(m m.order_reference().0, m.shares(), m.match_number()),
            Message::OrderCancel(m) => add!(m m.order_reference().0, m.shares()),
            Message::OrderDelete(m) => add!(m m.order_reference().0),
            Message::OrderReplace(m) => {
                add!(m m.old_order_reference().0, m.order_reference().0, m.shares(), m.price().0);
            }
            _ => {}
        }
    }
    sum
}

/// All fields of all messages.
pub fn fields(stream: &[u8]) -> Vec<Vec<Value>> {
    Messages { rest: stream }.map(|message| fields_of(&message)).collect()
}

fn fields_of(message: &Message<'_>) -> Vec<Value> {
    macro_rules! all {
        ($view:ident $($value:expr),*) => {
            vec![
                number($view.locate().0),
                number($view.tracking_number()),
                number($view.timestamp_ns()),
                $($value),*
            ]
        };
    }
    let price = |price: sidestep_market::units::Price| number(price.0 as u64);
    let letter = |letter: u8| letters(&[letter]);
    let side = |side: Option<Side>| letters(if side == Some(Side::Buy) { b"B" } else { b"S" });
    use Message::*;
    match message {
        SystemEvent(m) => all!(m letter(m.event_code())),
        StockDirectory(m) => all!(
            m name(&m.stock().0), letter(m.market_category()), letter(m.financial_status()), number(m.round_lot()),
            letter(m.round_lots_only()), letter(m.issue_classification()), letters(&m.issue_subtype().0),
            letter(m.authenticity()), letter(m.short_sale_threshold()), letter(m.ipo()), letter(m.luld_tier()),
            letter(m.etp()), number(m.etp_leverage()), letter(m.inverse())
        ),
        StockTradingAction(m) => all!(m name(&m.stock().0), letter(m.trading_state()), letters(&m.reason().0)),
        RegShoRestriction(m) => all!(m name(&m.stock().0), letter(m.action())),
        MarketParticipantPosition(m) => all!(
            m name(&m.mpid().0), name(&m.stock().0), letter(m.primary_market_maker()), letter(m.mode()),
            letter(m.state())
        ),
        MwcbDeclineLevel(m) => all!(m number(m.level_1()), number(m.level_2()), number(m.level_3())),
        MwcbStatus(m) => all!(m letter(m.breached_level())),
        IpoQuotingPeriod(m) => all!(
            m name(&m.stock().0), number(m.release_time_s()), letter(m.release_qualifier()), price(m.price())
        ),
        LuldAuctionCollar(m) => all!(
            m name(&m.stock().0), price(m.reference_price()), price(m.upper_price()), price(m.lower_price()),
            number(m.extension())
        ),
        OperationalHalt(m) => all!(m name(&m.stock().0), letter(m.market()), letter(m.action())),
        AddOrder(m) => all!(
            m number(m.order_reference().0), side(m.side()), number(m.shares()), name(&m.stock().0), price(m.price())
        ),
        AddOrderMpid(m) => all!(
            m number(m.order_reference().0), side(m.side()), number(m.shares()), name(&m.stock().0), price(m.price()),
            name(&m.mpid().0)
        ),
        OrderExecuted(m) => all!(m number(m.order_reference().0), number(m.shares()), number(m.match_number())),
        OrderExecutedWithPrice(m) => all!(
            m number(m.order_reference().0), number(m.shares()), number(m.match_number()), letter(m.printable()),
            price(m.price())
        ),
        OrderCancel(m) => all!(m number(m.order_reference().0), number(m.shares())),
        OrderDelete(m) => all!(m number(m.order_reference().0)),
        OrderReplace(m) => all!(
            m number(m.old_order_reference().0), number(m.order_reference().0), number(m.shares()), price(m.price())
        ),
        Trade(m) => all!(
            m number(m.order_reference().0), side(m.side()), number(m.shares()), name(&m.stock().0), price(m.price()),
            number(m.match_number())
        ),
        CrossTrade(m) => all!(
            m number(m.shares()), name(&m.stock().0), price(m.price()), number(m.match_number()), letter(m.cross_type())
        ),
        BrokenTrade(m) => all!(m number(m.match_number())),
        NetOrderImbalance(m) => all!(
            m number(m.paired_shares()), number(m.imbalance_shares()), letter(m.direction()), name(&m.stock().0),
            price(m.far_price()), price(m.near_price()), price(m.reference_price()), letter(m.cross_type()),
            letter(m.price_variation())
        ),
        RetailInterest(m) => all!(m name(&m.stock().0), letter(m.interest())),
        DirectListing(m) => all!(
            m name(&m.stock().0), letter(m.open_eligibility()), price(m.minimum_price()), price(m.maximum_price()),
            price(m.near_execution_price()), number(m.near_execution_time_ns()), price(m.lower_collar()),
            price(m.upper_collar())
        ),
        Unknown(_) => panic!("the stream has known types only"),
    }
}
