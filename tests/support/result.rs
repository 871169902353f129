//! What holds for every result file, whatever was measured.

use serde_json::Value;

/// What was measured.
pub(crate) fn rows(document: &Value) -> &[Value] {
    document["results"].as_array().expect("results is a list")
}

/// A field that must be a number.
pub(crate) fn number(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or_else(|| panic!("{key} is not a number in {value}"))
}

/// What holds for every result file.
pub(crate) fn check_schema(document: &Value) {
    assert_eq!(document["schema"], 1);
    assert_eq!(document["tool"]["name"], "sidestep");
    for key in ["started", "command"] {
        assert!(document[key].as_str().is_some_and(|text| !text.is_empty()), "{key}");
    }
    let host = &document["host"];
    assert!(number(host, "timer_cost_ns") > 0.0 && number(host, "cpus") >= 1.0);
    assert!(host["noise"]["hiccups"].as_array().is_some_and(|hiccups| !hiccups.is_empty()));
    for row in rows(document) {
        check_row(row);
    }
}

/// What holds for every row.
pub(crate) fn check_row(row: &Value) {
    assert_eq!(row["unit"], "ns");
    let (min, max) = (number(row, "min"), number(row, "max"));
    // Of an open loop what is missing is longer than what was seen: then the mean is not known, nor some percentiles.
    let is_whole = row["loop"] != "open" || !row["mean"].is_null();
    let mean = if is_whole { number(row, "mean") } else { min };
    assert!(0.0 < min && min <= mean && mean <= max, "{row}");
    let percentiles = ["p50", "p90", "p99", "p99_9", "p99_99"].map(|key| row[key].as_f64());
    let needed = [200.0, 1e3, 1e4, 1e5, 1e6];
    for (percentile, needed) in percentiles.iter().zip(needed) {
        assert!(percentile.is_none() || number(row, "n") >= needed, "{row}");
    }
    // A slice that was held up has few samples, and a percentile that lies in it is not said.
    assert!(!is_whole || !has_many(row) || number(row, "n") < 1e3 || percentiles[0].is_some(), "{row}");
    assert!(percentiles.iter().flatten().is_sorted(), "{row}");
    assert!(row["histogram"].as_str().is_some_and(|text| !text.is_empty()));
    assert!(row["noise"]["interrupts"].is_number() && row["warmup"]["messages"].is_number());
    // Rings, sources and FIX do not count it.
    if !["ring", "ring-source", "fix"].iter().any(|scenario| row["scenario"] == *scenario) {
        let cpu = &row["cpu"];
        assert!(number(cpu, "per_message_ns") > 0.0, "{row}");
        assert_eq!(cpu["peer_per_message_ns"].is_null(), row["path"] == "floor", "{row}");
    }
    let blocks = row["blocks"].as_array().expect("blocks is a list");
    if is_whole || !blocks.is_empty() {
        assert_eq!(blocks.iter().map(|block| number(block, "n")).sum::<f64>(), number(row, "n"));
    }
}

/// On a machine that is busy with other things a slice may have too few round trips for its median to count.
pub(crate) fn has_many(row: &Value) -> bool {
    row["blocks"].as_array().is_some_and(|blocks| blocks.iter().all(|block| number(block, "n") >= 20.0))
}
