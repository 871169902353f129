//! `examples/ring_threads.rs`: nothing is lost between two threads, and what is lost between several is known exactly.

#[path = "../examples/ring_threads.rs"]
#[allow(dead_code, unreachable_pub)] // Its main is not ours.
mod example;

use example::MESSAGES;

#[test]
fn one_reader_gets_everything() {
    assert_eq!(example::one_reader().unwrap(), MESSAGES);
}

#[test]
fn each_of_several_readers_knows_what_it_lost() {
    for (read, lost) in example::several_readers().unwrap() {
        assert_eq!(read + lost, MESSAGES);
    }
}
