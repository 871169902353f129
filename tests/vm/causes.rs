//! What a stock kernel lets root see of the tail.

use crate::support::result::{number, rows};
use crate::support::run;

pub(crate) fn the_tail_is_joined_with_events_of_the_kernel() {
    let what =
        ["bench", "rr", "--place=lab", "--transport=udp", "--paths=kernel-default,kernel-spin", "--duration=600ms"];
    let finished = run(&[&what[..], &["--causes", "--json=-"]].concat());
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    let document = finished.json();
    for row in rows(&document) {
        let causes = &row["causes"];
        assert_eq!(causes["source"], "tracepoints", "{causes}");
        assert!(number(causes, "events") > 0.0, "{causes}");
        assert!(number(causes, "uncovered") < number(causes, "slowest"), "{causes}");
        let all = causes["causes"].to_string();
        // An emulated CPU is slow: no sample of the tail is without a tick or the softirq that carries the message.
        assert!(all.contains("local timer") || all.contains("NET_RX"), "{all}");
        eprintln!("{causes}");
    }
}
