//! itch5: its parser over a slice, with a handler of each type. The messages are packed structs, cast from the bytes.

use crate::value::{Value, meaning, name, number};
use itch5::messages::*;
use itch5::{MessageHandler, Parser};
use std::ops::ControlFlow;

const GO_ON: ControlFlow<()> = ControlFlow::Continue(());

fn side(side: BuySellIndicator) -> u64 {
    match side {
        BuySellIndicator::Unknown(_) => 0,
        BuySellIndicator::Buy => 1,
        BuySellIndicator::Sell => 2,
    }
}

struct Sum(u64);

macro_rules! add {
    ($sum:ident $message:ident $($value:expr),*) => {{
        $sum.0 = $sum.0.wrapping_add(u64::from($message.stock_locate())).wrapping_add(u64::from($message.tracking_number()));
        $sum.0 = $sum.0.wrapping_add($message.timestamp().to_u64());
        $($sum.0 = $sum.0.wrapping_add($value as u64);)*
        GO_ON
    }};
}

impl MessageHandler for Sum {
    fn on_add_order_no_mpid_attribution(&mut self, m: &AddOrderNoMPIDAttribution) -> ControlFlow<()> {
        let side = side(m.buy_sell_indicator());
        add!(self m m.order_reference_number(), side, m.shares(), m.stock().to_u64(), m.price().into_u32())
    }

    fn on_order_executed(&mut self, m: &OrderExecuted) -> ControlFlow<()> {
        add!(self m m.order_reference_number(), m.executed_shares(), m.match_number())
    }

    fn on_order_cancel(&mut self, m: &OrderCancel) -> ControlFlow<()> {
        add!(self m m.order_reference_number(), m.cancelled_shares())
    }

    fn on_order_delete(&mut self, m: &OrderDelete) -> ControlFlow<()> {
        add!(self m m.order_reference_number())
    }

    fn on_order_replace(&mut self, m: &OrderReplace) -> ControlFlow<()> {
        let (old, new) = (m.original_order_reference_number(), m.new_order_reference_number());
        add!(self m old, new, m.shares(), m.price().into_u32())
    }
}

/// The sum of all fields of the types that [`crate::stream::day`] has.
pub fn sum(stream: &[u8]) -> u64 {
    let mut sum = Sum(0);
    Parser::new(stream).parse_stream(&mut sum).expect("good messages");
    sum.0
}

/// All fields of all messages.
pub fn fields(stream: &[u8]) -> Vec<Vec<Value>> {
    let mut fields = Fields(Vec::new());
    Parser::new(stream).parse_stream(&mut fields).expect("good messages");
    fields.0
}

struct Fields(Vec<Vec<Value>>);

fn price(price: &Price4) -> Value {
    number(price.into_u32())
}

fn stock(stock: &Symbol) -> Value {
    name(stock.as_str().as_bytes())
}

/// Two of its types have no `Debug`.
fn authenticity(authenticity: Authenticity) -> Value {
    meaning(match authenticity {
        Authenticity::LiveProduction => "Live",
        Authenticity::Test => "Test",
        Authenticity::Unknown(_) => "Unknown",
    })
}

fn mode(mode: MarketMakerMode) -> Value {
    meaning(match mode {
        MarketMakerMode::Normal => "Normal",
        MarketMakerMode::Passive => "Passive",
        MarketMakerMode::Syndicate => "Syndicate",
        MarketMakerMode::PreSyndicate => "PreSyndicate",
        MarketMakerMode::Penalty => "Penalty",
        MarketMakerMode::Unknown(_) => "Unknown",
    })
}

/// Its type says the state once more.
fn reason(reason: TradingActionReason) -> Value {
    match reason {
        TradingActionReason::Halted(reason) | TradingActionReason::Paused(reason) => meaning(reason),
        TradingActionReason::QuotationOnly(reason) | TradingActionReason::Trading(reason) => meaning(reason),
        TradingActionReason::Unknown { .. } => meaning("Unknown"),
    }
}

macro_rules! handlers {
    ($($handler:ident($message:ident: $type:ty, $locate:ident) { $($value:expr),* $(,)? })*) => {
        impl MessageHandler for Fields {
            $(fn $handler(&mut self, $message: &$type) -> ControlFlow<()> {
                self.0.push(vec![
                    number($message.$locate()),
                    number($message.tracking_number()),
                    number($message.timestamp().to_u64()),
                    $($value),*
                ]);
                GO_ON
            })*
        }
    };
}

handlers! {
    on_system_event(m: SystemEvent, stock_locate) { meaning(m.event_code()) }
    on_stock_directory(m: StockDirectory, stock_locate) {
        stock(m.stock()), meaning(m.market_category()), meaning(m.financial_status_indicator()), number(m.round_lot_size()),
        meaning(m.round_lots_only()), meaning(m.issue_classification()), meaning(m.issue_sub_type()),
        authenticity(m.authenticity()), meaning(m.short_sale_threshold_indicator()), meaning(m.ipo_flag()),
        meaning(m.luld_reference_price_tier()), meaning(m.etp_flag()), number(m.etp_leverage_factor()),
        meaning(m.inverse_indicator()),
    }
    on_stock_trading_action(m: StockTradingAction, stock_locate) {
        stock(m.stock()), meaning(m.trading_state()), reason(m.reason()),
    }
    on_reg_sho_restriction(m: RegSHORestriction, locate_code) { stock(m.stock()), meaning(m.reg_sho_action()) }
    on_market_participant_position(m: MarketParticipantPosition, stock_locate) {
        name(m.mpid()), stock(m.stock()), meaning(m.primary_market_maker()), mode(m.market_maker_mode()),
        meaning(m.market_participant_state()),
    }
    on_mwcb_decline_level(m: MWCBDeclineLevel, stock_locate) {
        number(m.level_1().into_u64()), number(m.level_2().into_u64()), number(m.level_3().into_u64()),
    }
    on_mwcb_status(m: MWCBStatus, stock_locate) { meaning(m.breached_level()) }
    on_quoting_period_update(m: QuotingPeriodUpdate, stock_locate) {
        stock(m.stock()), number(m.ipo_quotation_release_time()), meaning(m.ipo_quotation_release_qualifier()),
        price(m.ipo_price()),
    }
    on_luld_auction_collar(m: LULDAuctionCollar, stock_locate) {
        stock(m.stock()), price(m.auction_collar_reference_price()), price(m.upper_auction_collar_price()),
        price(m.lower_auction_collar_price()), price(m.auction_collar_extension()),
    }
    on_operational_halt(m: OperationalHalt, stock_locate) {
        stock(m.stock()), meaning(m.market_code()), meaning(m.operational_halt_action()),
    }
    on_add_order_no_mpid_attribution(m: AddOrderNoMPIDAttribution, stock_locate) {
        number(m.order_reference_number()), meaning(m.buy_sell_indicator()), number(m.shares()), stock(m.stock()),
        price(m.price()),
    }
    on_add_order_with_mpid_attribution(m: AddOrderWithMPIDAttribution, stock_locate) {
        number(m.order_reference_number()), meaning(m.buy_sell_indicator()), number(m.shares()), stock(m.stock()),
        price(m.price()), name(m.attribution()),
    }
    on_order_executed(m: OrderExecuted, stock_locate) {
        number(m.order_reference_number()), number(m.executed_shares()), number(m.match_number()),
    }
    on_order_executed_with_price(m: OrderExecutedWithPrice, stock_locate) {
        number(m.order_reference_number()), number(m.executed_shares()), number(m.match_number()), meaning(m.printable()),
        price(m.execution_price()),
    }
    on_order_cancel(m: OrderCancel, stock_locate) { number(m.order_reference_number()), number(m.cancelled_shares()) }
    on_order_delete(m: OrderDelete, stock_locate) { number(m.order_reference_number()) }
    on_order_replace(m: OrderReplace, stock_locate) {
        number(m.original_order_reference_number()), number(m.new_order_reference_number()), number(m.shares()),
        price(m.price()),
    }
    on_trade(m: Trade, stock_locate) {
        number(m.order_reference_number()), meaning(m.buy_sell_indicator()), number(m.shares()), stock(m.stock()),
        price(m.price()), number(m.match_number()),
    }
    on_cross_trade(m: CrossTrade, stock_locate) {
        number(m.shares()), stock(m.stock()), price(m.cross_price()), number(m.match_number()), meaning(m.cross_type()),
    }
    on_broken_trade(m: BrokenTrade, stock_locate) { number(m.match_number()) }
    on_net_order_imbalance_indicator(m: NetOrderImbalanceIndicator, stock_locate) {
        number(m.paired_shares()), number(m.imbalance_shares()), meaning(m.imbalance_direction()), stock(m.stock()),
        price(m.far_price()), price(m.near_price()), price(m.current_reference_price()), meaning(m.cross_type()),
        meaning(m.price_variation_indicator()),
    }
    on_retail_price_improvement_indicator(m: RetailPriceImprovementIndicator, stock_locate) {
        stock(m.stock()), meaning(m.interest_flag()),
    }
    on_direct_listing_with_capital_raise_price_discovery(m: DirectListingwithCapitalRaisePriceDiscovery, stock_locate) {
        stock(m.stock()), meaning(m.open_eligibility_status()), price(m.minimum_allowable_price()),
        price(m.maximum_allowable_price()), price(m.near_execution_price()), number(m.near_execution_time()),
        price(m.lower_price_range_collar()), price(m.upper_price_range_collar()),
    }
}
