//! `sidestep bench tick`.

use super::measured::measure;
use crate::args::{AtKind, BenchTick, OrderKind, ProfileKind, WorkKind};
use crate::output::Outputs;
use sidestep_bench::run::Scenario;
use sidestep_bench::tick::{OrderForm, Place, Profile, Request, Work};
use sidestep_sys::Problem;

pub(super) fn run(args: BenchTick) -> Result<u8, Problem> {
    let outputs = Outputs::prepare(args.output.clone())?;
    let request = Request {
        paths: args.paths.0,
        works: args.work.iter().map(|kind| work(*kind)).collect(),
        forms: args.order.iter().map(|kind| form(*kind)).collect(),
        lines: args.lines,
        speeds: args.speed,
        gaps_on_a: args.gap_on_a,
        profile: match args.profile {
            ProfileKind::Steady => Profile::Steady,
            ProfileKind::Open => Profile::Open,
            ProfileKind::Sparse => Profile::Sparse,
        },
        rate: args.rate.0,
        trigger_every: args.trigger_every,
        place: match args.trigger_at {
            AtKind::First => Place::First,
            AtKind::Last => Place::Last,
            AtKind::Any => Place::Any,
        },
        messages_per_packet: args.messages_per_packet,
        symbols: args.symbols,
        seed: args.seed,
        group: args.group,
        duration: args.duration,
    };
    measure(&args.place, &[Scenario::Tick(request)], &outputs)
}

fn work(kind: WorkKind) -> Work {
    match kind {
        WorkKind::Reflex => Work::Reflex,
        WorkKind::Decode => Work::Decode,
        WorkKind::Book => Work::Book,
    }
}

fn form(kind: OrderKind) -> OrderForm {
    match kind {
        OrderKind::Fix => OrderForm::Fix,
        OrderKind::Ouch => OrderForm::Ouch,
        OrderKind::Raw => OrderForm::Raw,
    }
}
