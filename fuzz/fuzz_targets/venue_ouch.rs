//! Clients of the OUCH server: bytes of two connections, in any pieces, after a login and without one.

#![no_main]

use sidestep_venue::core::Core;
use sidestep_venue::matching::{Limits, Matching};
use sidestep_venue::ouch::{Ouch, OuchSettings};
use sidestep_venue::service::{Service, Time};
use sidestep_venue::soup::OUTPUT_MAX;
use sidestep_venue::units::Symbol;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let matching = Matching::new((0..2).map(Symbol::synthetic), Limits { orders: 64, levels: 8 });
    let mut core = Core::new(matching, 1_000);
    let mut ouch = Ouch::new(*b"FUZZ000001", OuchSettings { cancel_on_disconnect: true, password: None });
    let mut time = Time { mono_ns: 0, day_ns: 0 };
    let [Some(known), Some(stranger)] = [ouch.accept(time), ouch.accept(time)] else { return };
    let login = format!("\0\x2fL{:<6}{:<10}{:>10}{:>20}", "USER", "", "", 1);
    ouch.receive(time, known, login.as_bytes(), &mut core);
    for (index, piece) in bytes.chunks(97).enumerate() {
        time.mono_ns += 10_000_000;
        let connection = if index % 4 == 3 { stranger } else { known };
        ouch.receive(time, connection, piece, &mut core);
        let waiting = ouch.output(connection).len();
        assert!(waiting < OUTPUT_MAX + 128);
        ouch.sent(time, connection, waiting / 2);
        ouch.poll(time, connection);
    }
    let totals = core.matching.totals();
    assert_eq!(totals.accepted, core.matching.live() as u64 + totals.filled + totals.cancelled);
    assert_eq!(ouch.live(), core.matching.live());
    [known, stranger].into_iter().for_each(|connection| ouch.close(time, connection, &mut core));
    assert_eq!((ouch.live(), core.matching.live()), (0, 0));
});
